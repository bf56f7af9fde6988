//! `treering forget` and `treering audit`: erase content for good, and list what was erased.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::CliError;
use super::local_time::local_of;
use super::output::{BOLD, DIM, MAX_NAME, Output, count, fit, paint, print_text, width};
use treering_server::service::Service;
use treering_server::service::requests::{AuditRequest, ForgetRequest};
use treering_server::views::{
    AuditList, ErasedView, ForgetEffectView, ForgetSampleView, ForgetView, RewrittenNodeView,
};

/// Records in the audit unless `--limit` sets another number.
const RECORDS: usize = 50;
/// Nodes that are listed by id.
const MAX_NODES: usize = 4;

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

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    if args.scrub {
        return scrub(service, output);
    }
    if let Some(record) = args.conversation.as_ref().filter(|it| is_record(it)) {
        if !args.allow_return {
            let error = format!(
                "{record} is a record of the audit, which stays; --allow-return lets an import \
                 bring back what it lists"
            );
            return Err(CliError::Usage(error));
        }
        let view = service.allow_return(record)?;
        return Ok(output.show(&view, |out| {
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
        describe_copies(out, &view.copies, "Deleted")?;
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
    writeln!(out, "{} {}", paint(BOLD, heading), describe(&view.erased, &view.conversations))?;
    for conversation in view.conversations.iter().filter(|it| it.removed) {
        let slug = conversation.slug.as_deref().unwrap_or(&conversation.id);
        writeln!(out, "  {slug}: the whole conversation")?;
    }
    for ForgetSampleView { slug, idx, speaker, text } in &view.samples {
        let label = format!("  {slug}#{idx} {}: ", fit(speaker, MAX_NAME));
        let room = width().saturating_sub(label.chars().count()).max(20);
        writeln!(out, "{label}{}", paint(DIM, fit(text, room)))?;
    }
    let more = (view.erased.messages as usize).saturating_sub(view.samples.len());
    if more > 0 && !view.samples.is_empty() {
        writeln!(out, "  and {}; --json has their positions", count(more as u64, "more message"))?;
    }
    if let Some(nodes) = describe_nodes(&view.conversations) {
        print_text(out, "", &format!("Would be regenerated: {nodes}"))?;
    }
    describe_copies(out, &view.copies, "Would be deleted with it")
}

pub(super) fn describe_report(out: &mut dyn Write, view: &ForgetView) -> io::Result<()> {
    let heading = match view.target.as_str() {
        "secrets" => "Secrets masked in:",
        _ => "Forgotten:",
    };
    writeln!(out, "{} {}", paint(BOLD, heading), describe(&view.erased, &view.conversations))?;
    if let Some(nodes) = describe_nodes(&view.conversations) {
        print_text(out, "", &format!("Regenerated: {nodes}"))?;
    }
    describe_copies(out, &view.copies, "Deleted")?;
    let record = view.record.as_deref().unwrap_or_default();
    let bytes = match view.bytes.as_deref().unwrap_or_default() {
        "erased" => "The bytes are erased.".to_owned(),
        "postponed" => "The bytes are still there: `treering forget --scrub` erases them.".into(),
        bytes => format!("The bytes are {bytes}. Run `treering forget --scrub` later."),
    };
    print_text(out, "", &format!("{bytes} Record: {record}"))
}

fn describe_copies(out: &mut dyn Write, copies: &[String], fate: &str) -> io::Result<()> {
    copies.iter().try_for_each(|copy| writeln!(out, "{fate}: a copy of the store, {copy}"))
}

/// The erased rows by kind, without the nodes that are regenerated.
fn describe(erased: &ErasedView, effects: &[ForgetEffectView]) -> String {
    let rewritten: usize = effects.iter().map(|it| it.rewritten.len()).sum();
    let kinds = [
        (erased.messages, "message"),
        (erased.tool_calls, "tool call"),
        (erased.nodes.saturating_sub(u32::try_from(rewritten).unwrap_or(u32::MAX)), "node"),
        (erased.jobs, "job"),
        (erased.events, "job event"),
    ];
    let present = kinds.iter().filter(|(number, _)| *number > 0);
    let named = present.map(|(number, kind)| count((*number).into(), kind));
    match named.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "titles only".to_owned(),
        kinds => kinds,
    }
}

/// The nodes that are regenerated: their ids if they are few, otherwise their number by level.
fn describe_nodes(effects: &[ForgetEffectView]) -> Option<String> {
    let nodes: Vec<&RewrittenNodeView> = effects.iter().flat_map(|it| &it.rewritten).collect();
    if nodes.is_empty() {
        return None;
    }
    if nodes.len() <= MAX_NODES {
        return Some(nodes.iter().map(|it| describe_node(it)).collect::<Vec<_>>().join(", "));
    }
    let mut levels: BTreeMap<u8, u64> = BTreeMap::new();
    nodes.iter().for_each(|node| *levels.entry(node.level).or_default() += 1);
    let level = |(level, number)| format!("{} of level {level}", count(number, "node"));
    Some(levels.into_iter().map(level).collect::<Vec<_>>().join(", "))
}

fn describe_node(it: &RewrittenNodeView) -> String {
    match &it.new_id {
        Some(new_id) => format!("{} → {new_id}", it.old_id),
        None => it.old_id.clone(),
    }
}

fn describe_runs(runs: &[(u32, u32)]) -> String {
    let run = |(first, last): &(u32, u32)| match first == last {
        true => format!("#{first}"),
        false => format!("#{first}–#{last}"),
    };
    match runs {
        [] => "no messages".to_owned(),
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
            let (at, erased) =
                (local_of(&record.at), describe(&record.erased, &record.conversations));
            let line = format!("{}  {}: {erased}", paint(BOLD, &record.id), record.target);
            writeln!(out, "{at}  {line}")?;
            record.conversations.iter().try_for_each(|it| describe_effect(out, it))?;
        }
        match &args.record {
            Some(record) if list.records.is_empty() => {
                writeln!(out, "no record begins with {record:?}; `treering audit` lists them")?;
            }
            None if list.records.is_empty() => writeln!(out, "nothing was forgotten")?,
            _ => {}
        }
        if list.pending_scrubs > 0 {
            writeln!(out, "bytes may remain; run `treering forget --scrub` to erase them")?;
        }
        Ok(())
    })?;
    Ok(())
}

/// One conversation of a record: its id, because the name may be gone, the positions and the nodes.
fn describe_effect(out: &mut dyn Write, it: &ForgetEffectView) -> io::Result<()> {
    let id = it.id.get(..8).unwrap_or(&it.id);
    let what = match it.removed {
        true => "the whole conversation".to_owned(),
        false => describe_runs(&it.messages),
    };
    print_text(out, "  ", &format!("{id}: {what}"))?;
    it.rewritten
        .iter()
        .try_for_each(|node| writeln!(out, "    {} (level {})", describe_node(node), node.level))
}
