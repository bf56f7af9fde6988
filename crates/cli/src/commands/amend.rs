//! `treering edit` and `treering correct`: amend stored messages.

use std::io::{self, Read as _, Write};

use super::CliError;
use super::output::{BOLD, Output, count, paint, print_text};
use treering_server::service::Service;
use treering_server::service::requests::{AmendRequest, message_reference};
use treering_server::views::AmendView;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering edit tidewatch#4 --text \"The port is 7411.\"
  treering edit tidewatch#4 < better.txt

The earlier text stays in the history of the message until you forget it: `treering show tidewatch#4
--history`. The summaries that cover it are stale until `treering update`, unless the policy parameter
regenerate_on_edit or --regenerate says otherwise.")]
pub(super) struct EditArgs {
    /// The message: the conversation and the position, such as tidewatch#4
    #[arg(value_name = "CONVERSATION#IDX", value_parser = message)]
    message: (String, u32),
    /// The new text [default: read from standard input]
    #[arg(long)]
    text: Option<String>,
    /// Regenerate the summaries that cover it at once
    #[arg(long)]
    regenerate: bool,
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering correct tidewatch#4
  treering correct tidewatch#4 --with \"The port is 7411, not 7410.\"

The message stays in the history, and `show` marks it. Search and contexts leave it out, or return the
correction instead. The summaries that cover it are regenerated without it.")]
pub(super) struct CorrectArgs {
    /// The message that is wrong: the conversation and the position, such as tidewatch#4
    #[arg(value_name = "CONVERSATION#IDX", value_parser = message)]
    message: (String, u32),
    /// The correct statement
    #[arg(long, value_name = "TEXT")]
    with: Option<String>,
}

/// Parses `CONVERSATION#IDX`.
pub(super) fn message(reference: &str) -> Result<(String, u32), String> {
    let found = message_reference(reference).map(|(name, idx)| (name.to_owned(), idx));
    found.ok_or_else(|| "expected CONVERSATION#IDX, such as tidewatch#4".to_owned())
}

pub(super) fn edit(args: &EditArgs, service: &Service, output: &Output) -> Result<(), CliError> {
    let text = match &args.text {
        Some(text) => text.clone(),
        None => {
            let mut text = String::new();
            io::stdin().lock().read_to_string(&mut text)?;
            text.trim_end_matches(['\n', '\r']).to_owned()
        }
    };
    let regenerate = args.regenerate.then_some(true);
    let request = AmendRequest { text: Some(text), regenerate, ..AmendRequest::default() };
    amend(&args.message, &request, service, output)
}

pub(super) fn correct(
    args: &CorrectArgs,
    service: &Service,
    output: &Output,
) -> Result<(), CliError> {
    let correction = args.with.clone();
    let request = AmendRequest { wrong: true, correction, ..AmendRequest::default() };
    amend(&args.message, &request, service, output)
}

fn amend(
    (conversation, idx): &(String, u32),
    request: &AmendRequest,
    service: &Service,
    output: &Output,
) -> Result<(), CliError> {
    let view = service.amend(conversation, *idx, request)?;
    Ok(output.show(&view, |out| describe(out, &view))?)
}

fn describe(out: &mut dyn Write, view: &AmendView) -> io::Result<()> {
    let what = match view.wrong {
        true => "marked as wrong",
        false => "edited",
    };
    writeln!(out, "{} {what}", paint(BOLD, format!("{}#{}", view.slug, view.idx)))?;
    let nodes = count(view.nodes.len() as u64, "summary").replace("summarys", "summaries");
    if view.nodes.is_empty() {
        return Ok(());
    }
    if !view.rewrites {
        let hint = format!("run `treering update {}` to regenerate them", view.slug);
        return print_text(out, "", &format!("{nodes} over it stale: {hint}"));
    }
    for node in &view.nodes {
        let new = node.new_id.as_deref().unwrap_or("not written yet");
        writeln!(out, "  rewritten: {} → {new} (level {})", node.old_id, node.level)?;
    }
    Ok(())
}
