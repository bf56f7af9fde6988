//! `treering sessions`: lists conversations.

use std::io::{self, Write};

use anstyle::Style;
use treering_core::{Label, SOURCE_LABEL};

use super::CliError;
use super::label::of_flags;
use super::local_time::local_of;
use super::output::{
    BOLD, Column, DIM, Output, TextTable, fit, fit_middle, grouped, paint, short_path, width,
};
use treering_server::service::Service;
use treering_server::service::requests::SessionsRequest;
use treering_server::views::ConversationView;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering sessions            the latest conversations
  treering sessions --cwd      those of the current folder and below
  treering sessions --label source=claude-code
  treering sessions --all --limit 100")]
pub(super) struct Args {
    /// Show only conversations in this folder or below it [default with no value: the current
    /// folder]
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, default_missing_value = ".")]
    cwd: Option<String>,
    /// Show only conversations of this project: in this folder or below it, or with such a project
    /// path [default with no value: the current folder]
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, default_missing_value = ".")]
    project: Option<String>,
    /// Show only conversations with this label; can be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    label: Vec<Label>,
    /// Include archived conversations
    #[arg(long)]
    all: bool,
    /// Maximum number of conversations
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 20)]
    limit: usize,
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let request = SessionsRequest {
        cwd: args.cwd.clone(),
        project_path: args.project.clone(),
        labels: of_flags(&args.label)?,
        all: args.all,
        limit: Some(args.limit),
    };
    let list = service.sessions(&request)?;
    output.show(&list, |out| {
        if list.conversations.is_empty() {
            return nothing(out, args);
        }
        table(out, &list.conversations)?;
        if list.more {
            let hint = format!("Show more with --limit {}.", args.limit.saturating_mul(5));
            writeln!(out, "{}", paint(DIM, hint))?;
        }
        Ok(())
    })?;
    Ok(())
}

fn nothing(out: &mut dyn Write, args: &Args) -> io::Result<()> {
    let labels: Vec<String> = args.label.iter().map(ToString::to_string).collect();
    match args.cwd.as_deref().or(args.project.as_deref()) {
        Some(cwd) => writeln!(out, "No conversations in {}.", treering_engine::normalize_cwd(cwd)),
        None if !labels.is_empty() => {
            writeln!(out, "No conversations with {}.", labels.join(" and "))
        }
        None => writeln!(out, "No conversations yet. Import transcripts with `treering import`."),
    }
}

/// The project or folder of a conversation, and its labels, on one line.
fn origin(it: &ConversationView) -> String {
    let folder = it.project_path.as_ref().or(it.cwd.as_ref()).map(|folder| short_path(folder));
    let labels = it.labels.iter().map(|(name, value)| match name {
        SOURCE_LABEL => value.to_owned(),
        _ => format!("{name}={value}"),
    });
    labels.chain(folder).collect::<Vec<_>>().join(" · ")
}

/// Prints conversations: a line of a table each, below it the source, labels and folder, and the
/// last message.
pub(super) fn table(out: &mut dyn Write, conversations: &[ConversationView]) -> io::Result<()> {
    const SLUG: usize = 34;
    let mut table = TextTable::new(&[
        Column::Left("conversation"),
        Column::Right("turns"),
        Column::Left("last active"),
        Column::Left("id"),
        Column::Left(""),
    ]);
    for it in conversations {
        let state = if it.state == "open" { String::new() } else { it.state.to_owned() };
        table.row([
            (BOLD, fit_middle(&it.slug, SLUG)),
            (Style::new(), grouped(it.turns.into())),
            (Style::new(), local_of(&it.last_activity)),
            (DIM, it.id.chars().take(8).collect()),
            (DIM, state),
        ]);
    }
    let mut lines = table.lines();
    lines.next().map_or(Ok(()), |head| writeln!(out, "{head}"))?;
    for (line, it) in lines.zip(conversations) {
        writeln!(out, "{line}")?;
        let below = [Some(origin(it)), it.last_message.clone()].into_iter().flatten();
        for text in below.filter(|text| !text.is_empty()) {
            writeln!(out, "  {}", paint(DIM, fit(&text, width().saturating_sub(2))))?;
        }
    }
    Ok(())
}
