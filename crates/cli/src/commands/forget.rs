//! `treering forget` and `treering audit`: erase content for good, and list what was erased.

use std::io::{self, Write};

use serde::Serialize;

use super::CliError;
use super::output::{BOLD, Output, count, paint};
use treering_server::service::Service;
use treering_server::service::requests::{AuditRequest, ForgetRequest};
use treering_server::views::{AuditList, ErasedView, ForgetView};

/// Records in the audit unless `--limit` sets another number.
const RECORDS: usize = 50;

#[derive(clap::Args)]
#[command(after_help = "\
Without --yes, the command lists what would be forgotten and what would be regenerated, and forgets nothing.

Examples:
  treering forget tidewatch --turn 12
  treering forget tidewatch --range 4..9 --yes
  treering forget --author \"Mara Lind\" --yes
  treering forget --label user=42 --yes
  treering forget --secrets --yes
  treering forget forget-3f9a0c12ab45de67 --allow-return

The last example lets imports bring back what an earlier command forgot.")]
pub(super) struct Args {
    /// The conversation: slug, key, id, or the first digits of an id; alone, the whole conversation. With
    /// --allow-return also the id of an audit record
    conversation: Option<String>,
    /// Only the message at this position
    #[arg(long, value_name = "N", group = "part")]
    message: Option<u32>,
    /// Only this turn, with its tool calls
    #[arg(long, value_name = "N", group = "part")]
    turn: Option<u32>,
    /// Only these messages, both ends included, with their tool calls
    #[arg(long, value_name = "A..B", group = "part")]
    range: Option<String>,
    /// Only this thread
    #[arg(long, value_name = "NAME", group = "part")]
    thread: Option<String>,
    /// Every message of this author, in the conversation or in all of them
    #[arg(long, value_name = "NAME", group = "part")]
    author: Option<String>,
    /// Every secret, such as API keys, tokens and passwords, in the conversation or in all of them;
    /// the rest of each message stays
    #[arg(long, group = "part")]
    secrets: bool,
    /// Every conversation in this folder or below it
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["conversation", "part"])]
    project: Option<String>,
    /// Every conversation with this label
    #[arg(long, value_name = "NAME=VALUE", conflicts_with_all = ["conversation", "part", "project"])]
    label: Option<String>,
    /// Every conversation of the tenant
    #[arg(long, conflicts_with_all = ["conversation", "part", "project", "label"])]
    everything: bool,
    /// Leave no tombstones, so that a later import may bring it back. With the id of an audit
    /// record, remove its tombstones
    #[arg(long)]
    allow_return: bool,
    /// Erase the bytes in the files of the store later, with --scrub
    #[arg(long)]
    fast: bool,
    /// Erase the bytes that earlier forgets left in the files of the store
    #[arg(long, conflicts_with_all = ["conversation", "part", "project", "label", "everything"])]
    scrub: bool,
    /// Forget; without this option, only list what would be forgotten
    #[arg(long)]
    yes: bool,
}

/// The result of `--scrub`.
#[derive(Serialize)]
struct ScrubView {
    erased: bool,
    pending: Option<String>,
    copies: Vec<String>,
}

/// The record whose tombstones were removed.
#[derive(Serialize)]
struct AllowReturnView {
    record: String,
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    if args.scrub {
        return scrub(service, output);
    }
    if let Some(record) = args.conversation.as_ref().filter(|it| is_record(it))
        && args.allow_return
    {
        let record = service.engine().allow_return(record)?.id;
        return Ok(output.show(&AllowReturnView { record }, |out| {
            writeln!(out, "an import may now bring back what was forgotten")
        })?);
    }
    let mut request = ForgetRequest {
        conversation: args.conversation.clone(),
        message: args.message,
        turn: args.turn,
        range: args.range.clone(),
        thread: args.thread.clone(),
        author: args.author.clone(),
        project: args.project.clone(),
        label: args.label.clone(),
        secrets: args.secrets,
        everything: args.everything,
        allow_return: args.allow_return,
        fast: args.fast,
        token: None,
    };
    let preview = service.forget(&request)?;
    if !args.yes {
        output.show(&preview, |out| {
            describe_preview(out, &preview)?;
            writeln!(out, "Nothing was forgotten. Repeat the command with --yes to forget it.")
        })?;
        return Ok(());
    }
    request.token = preview.token;
    let report = service.forget(&request)?;
    output.show(&report, |out| describe_report(out, &report))?;
    Ok(())
}

fn is_record(reference: &str) -> bool {
    reference.strip_prefix("forget-").is_some_and(|digits| {
        digits.len() == 16 && digits.chars().all(|digit| digit.is_ascii_hexdigit())
    })
}

fn scrub(service: &Service, output: &Output) -> Result<(), CliError> {
    let report = service.scrub()?;
    let view = ScrubView {
        erased: report.pending.is_none(),
        pending: report.pending,
        copies: report.deleted.iter().map(|path| path.display().to_string()).collect(),
    };
    output.show(&view, |out| {
        describe_copies(out, &view.copies, "deleted")?;
        match &view.pending {
            None => writeln!(out, "the bytes of everything forgotten are erased"),
            Some(reason) => writeln!(out, "bytes may remain: {reason}; try again later"),
        }
    })?;
    Ok(())
}

pub(super) fn describe_preview(out: &mut dyn Write, view: &ForgetView) -> io::Result<()> {
    let heading = match view.target.as_str() {
        "secrets" => "Secrets would be masked in:",
        _ => "Would be forgotten:",
    };
    writeln!(out, "{} {}", paint(BOLD, heading), describe(&view.erased))?;
    for conversation in &view.conversations {
        let slug = conversation.slug.as_deref().unwrap_or(&conversation.id);
        match conversation.removed {
            true => writeln!(out, "  {slug}: the whole conversation")?,
            false => writeln!(out, "  {slug}: {}", describe_runs(&conversation.messages))?,
        }
        for node in &conversation.rewritten {
            writeln!(out, "    rewritten: {} (level {})", node.old_id, node.level)?;
        }
    }
    describe_copies(out, &view.copies, "deleted with it")
}

pub(super) fn describe_report(out: &mut dyn Write, view: &ForgetView) -> io::Result<()> {
    let heading = match view.target.as_str() {
        "secrets" => "Secrets masked in:",
        _ => "Forgotten:",
    };
    writeln!(out, "{} {}", paint(BOLD, heading), describe(&view.erased))?;
    for node in view.conversations.iter().flat_map(|it| &it.rewritten) {
        let new = node.new_id.as_deref().unwrap_or("not written yet");
        writeln!(out, "  rewritten: {} → {new} (level {})", node.old_id, node.level)?;
    }
    describe_copies(out, &view.copies, "deleted")?;
    let bytes = view.bytes.as_deref().unwrap_or_default();
    writeln!(out, "bytes: {bytes}; record: {}", view.record.as_deref().unwrap_or_default())?;
    if bytes != "erased" {
        writeln!(out, "run `treering forget --scrub` to erase the bytes")?;
    }
    Ok(())
}

fn describe_copies(out: &mut dyn Write, copies: &[String], fate: &str) -> io::Result<()> {
    copies.iter().try_for_each(|copy| writeln!(out, "  copy of the store, {fate}: {copy}"))
}

fn describe(erased: &ErasedView) -> String {
    let kinds = [
        (erased.messages, "message"),
        (erased.tool_calls, "tool call"),
        (erased.nodes, "node"),
        (erased.jobs, "job"),
        (erased.events, "job event"),
    ];
    let present = kinds.iter().filter(|(number, _)| *number > 0);
    present.map(|(number, kind)| count((*number).into(), kind)).collect::<Vec<_>>().join(", ")
}

fn describe_runs(runs: &[(u32, u32)]) -> String {
    let run = |(first, last): &(u32, u32)| match first == last {
        true => format!("#{first}"),
        false => format!("#{first}–#{last}"),
    };
    match runs {
        [] => "tool calls only".to_owned(),
        runs => format!("messages {}", runs.iter().map(run).collect::<Vec<_>>().join(", ")),
    }
}

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  treering audit --json")]
pub(super) struct AuditArgs {
    /// Only records whose id starts with this
    record: Option<String>,
    /// Maximum number of records, the latest ones
    #[arg(long, value_name = "N", default_value_t = RECORDS)]
    limit: usize,
}

pub(super) fn audit(args: &AuditArgs, service: &Service, output: &Output) -> Result<(), CliError> {
    let request = AuditRequest { record: args.record.clone(), limit: Some(args.limit) };
    let list: AuditList = service.audit(&request)?;
    output.show(&list, |out| {
        for record in &list.records {
            let erased = describe(&record.erased);
            writeln!(
                out,
                "{}  {}  {}: {erased}",
                record.at,
                paint(BOLD, &record.id),
                record.target
            )?;
        }
        if list.records.is_empty() {
            writeln!(out, "nothing was forgotten")?;
        }
        if list.pending_scrubs > 0 {
            writeln!(out, "bytes may remain; run `treering forget --scrub` to erase them")?;
        }
        Ok(())
    })?;
    Ok(())
}
