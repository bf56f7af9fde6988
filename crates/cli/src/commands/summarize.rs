//! `treering summarize`: summarizes a turn or a level now, or stores a summary of the user's own.

use std::io::{self, Read as _, Write};

use super::CliError;
use super::output::{BOLD, DIM, Output, count, paint, print_text};
use treering_server::service::Service;
use treering_server::service::requests::{ParentRef, StoreSummaryRequest};
use treering_server::views::{NodeView, TurnSummaryView};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering summarize my-chat --turn 4    summarize a turn; store nothing
  treering summarize my-chat --level 1   summarize the summaries of level 1
  treering summarize my-chat --turns 0-4 --text \"They chose port 7410.\"
  treering summarize my-chat --nodes l1-3f9a,l1-81c2 --text - < summary.md

A summary of your own covers a sealed window or group exactly, or the first turns or nodes that
nothing covers yet. `treering show --tree` shows them.")]
pub(super) struct Args {
    /// Slug, key, id, or the first digits of an id
    conversation: String,
    /// Summarize this turn, counted from 0, and print the summary
    #[arg(long, value_name = "TURN")]
    turn: Option<u32>,
    /// Summarize the nodes of this level that no higher node covers, except for the last
    #[arg(long, value_name = "LEVEL", conflicts_with = "turn")]
    level: Option<u8>,
    /// Store --text as the summary of these turns, such as 0-4
    #[arg(long, value_name = "FIRST-LAST", conflicts_with_all = ["turn", "level"], requires = "text",
          value_parser = turns)]
    turns: Option<Turns>,
    /// Store --text as the summary of these nodes; separated by commas
    #[arg(long, value_name = "NODES", conflicts_with_all = ["turn", "level", "turns"],
          requires = "text", value_delimiter = ',')]
    nodes: Vec<String>,
    /// The text of a summary of your own; `-` reads standard input
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// A key finding of your summary; can be repeated
    #[arg(long, value_name = "TEXT", requires = "text")]
    finding: Vec<String>,
    /// A file that your summary mentions; can be repeated
    #[arg(long, value_name = "FILE", requires = "text")]
    file: Vec<String>,
    /// A topic of your summary; can be repeated
    #[arg(long, value_name = "NAME", requires = "text")]
    topic: Vec<String>,
}

/// A range of turns.
#[derive(Debug, Clone, Copy)]
struct Turns {
    first: u32,
    last: u32,
}

fn turns(text: &str) -> Result<Turns, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(Turns { first, last }),
        _ => Err("expected a turn such as 4, or turns such as 0-4".to_owned()),
    }
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    if let Some(turn) = args.turn {
        let view = service.summarize_turn(&args.conversation, turn)?;
        return Ok(output.show(&view, |out| print_turn(out, turn, &view))?);
    }
    let view = match args.level {
        Some(level) => service.summarize_level(&args.conversation, level)?,
        None => service.store_summary(&args.conversation, &request(args, service)?)?,
    };
    Ok(output.show(&view, |out| print_node(out, &view))?)
}

/// The summary of the flags.
fn request(args: &Args, service: &Service) -> Result<StoreSummaryRequest, CliError> {
    let (level, parents) = match (args.turns, args.nodes.first()) {
        (Some(turns), _) => (1, (turns.first..=turns.last).map(ParentRef::Turn).collect()),
        (None, Some(first)) => {
            let (_, node) = service.engine().find_node(first)?;
            let nodes = args.nodes.iter().cloned().map(ParentRef::Id).collect();
            (node.level().above().number(), nodes)
        }
        (None, None) => {
            let why = "nothing to summarize; pass --turn, --level, --turns or --nodes";
            return Err(CliError::Usage(why.into()));
        }
    };
    let mut summary = args.text.clone().unwrap_or_default();
    if summary == "-" {
        summary.clear();
        io::stdin().read_to_string(&mut summary)?;
    }
    Ok(StoreSummaryRequest {
        level,
        parents,
        summary,
        key_findings: args.finding.clone(),
        files_mentioned: args.file.clone(),
        topics: args.topic.clone(),
        ..StoreSummaryRequest::default()
    })
}

fn print_turn(out: &mut dyn Write, turn: u32, view: &TurnSummaryView) -> io::Result<()> {
    let by = format!("by {}; not stored", view.generated_by);
    writeln!(out, "{} {}", paint(BOLD, format!("turn {turn}")), paint(DIM, by))?;
    print_text(out, "  ", &view.content.overview)
}

fn print_node(out: &mut dyn Write, view: &NodeView) -> io::Result<()> {
    let covers = format!(
        "level {} over {} · by {}",
        view.level,
        count(view.turns.into(), "turn"),
        view.generated_by
    );
    writeln!(out, "{} {}", paint(BOLD, &view.id), paint(DIM, covers))?;
    print_text(out, "  ", &view.content.overview)
}
