//! `treering context`: builds a context and prints it, its receipt or its changes.

use std::io::{self, Write};

use serde::Serialize;
use treering_core::packing::{DetailLevel, SkipReason};
use treering_core::{Receipt, ReceiptItem, TurnNo};
use treering_engine::{Context, ContextChange, ContextRequest, Engine};

use super::output::{BAD, BOLD, DIM, GOOD, Output, count, fit, grouped, pad, paint, width};
use super::show::named_or_latest;
use super::{CliError, Global, work};
use treering_server::context_view::{ContextView, chat_messages};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering context tidewatch --query \"which port does staging use\"
  treering context tidewatch --budget 2000 --receipt
  treering context tidewatch --profile frontier --format messages
  treering context tidewatch --as-of 40 --query \"the sill\"    the context as of turn 40
  treering context tidewatch --diff                           what the last turn changed")]
pub(super) struct Args {
    /// Slug, id, or the first digits of an id [default: the latest conversation]
    conversation: Option<String>,
    /// The question to build the context for; without it, print the standing context
    #[arg(long, short, value_name = "TEXT")]
    query: Option<String>,
    /// Maximum number of tokens [default: the setting context.budget]
    #[arg(long, short, value_name = "TOKENS")]
    budget: Option<u32>,
    /// The profile that decides what goes into the context [default: the setting context.profile]
    #[arg(long, short, value_name = "NAME")]
    profile: Option<String>,
    /// Output format
    #[arg(long, value_enum, value_name = "FORM", default_value_t = OutputFormat::Markdown)]
    format: OutputFormat,
    /// Print the receipt instead: every item, why it is included, its cost, and what was left out
    #[arg(long)]
    receipt: bool,
    /// Build the context as of this turn, counted from 0
    #[arg(long, value_name = "TURN")]
    as_of: Option<u32>,
    /// Print what was added and removed since the context of the previous turn
    #[arg(long, conflicts_with = "receipt")]
    diff: bool,
    /// The thread to build the context for [default: the most recently active one]
    #[arg(long, value_name = "NAME")]
    thread: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OutputFormat {
    /// A single Markdown text
    Markdown,
    /// A JSON array of messages for a chat API
    Messages,
    /// Every item with its receipt, as JSON
    Json,
}

pub(super) fn run(args: &Args, global: &Global, output: &Output) -> Result<(), CliError> {
    let settings = global.load()?.settings;
    let memory = global.open()?;
    let conversation = named_or_latest(args.conversation.as_deref(), &memory)?;
    // No worker may be running to finish the jobs that the gate waits for.
    work::catch_up(&memory, Some(conversation.id), output)?;
    let request = ContextRequest {
        conversation: conversation.id,
        thread: args.thread.as_deref().map(str::parse).transpose()?,
        query: args.query.clone(),
        budget: args.budget.unwrap_or(settings.context.budget),
        profile: settings.profile(args.profile.as_deref().unwrap_or(&settings.context.profile))?,
        as_of: args.as_of.map(TurnNo),
        gate_timeout: None,
    };
    let context = memory.context(&request)?;
    if args.diff {
        return diff(&memory, &request, &context, output);
    }
    if output.json || args.format == OutputFormat::Json {
        return Ok(Output::new(true).show(&ContextView::of(&context), |_| Ok(()))?);
    }
    if args.receipt {
        return output
            .show(&context.receipt, |out| receipt(out, &context.receipt))
            .map_err(CliError::from);
    }
    match args.format {
        OutputFormat::Messages => Ok(Output::new(true).show(&chat_messages(&context), |_| Ok(()))?),
        OutputFormat::Markdown | OutputFormat::Json => {
            Ok(io::stdout().lock().write_all(context.markdown().as_bytes())?)
        }
    }
}

#[derive(Serialize)]
struct DiffView<'a> {
    reusable_tokens: u32,
    reusable_share: f64,
    added: Vec<&'a ReceiptItem>,
    removed: Vec<&'a ReceiptItem>,
}

fn diff(
    memory: &Engine,
    request: &ContextRequest,
    now: &Context,
    output: &Output,
) -> Result<(), CliError> {
    let Some(before) = memory.previous_context(request)? else {
        return Err(CliError::Usage("no previous turn to compare with".into()));
    };
    let changes = now.changes_since(&before);
    let of = |added: bool| {
        let wanted = changes.iter().filter_map(move |change| match change {
            ContextChange::Added(item) => added.then_some(item),
            ContextChange::Removed(item) => (!added).then_some(item),
        });
        wanted.collect::<Vec<_>>()
    };
    let reusable = now.receipt.reusable;
    let view = DiffView {
        reusable_tokens: reusable.tokens,
        reusable_share: reusable.share,
        added: of(true),
        removed: of(false),
    };
    output.show(&view, |out| {
        for change in &changes {
            let (mark, item) = match change {
                ContextChange::Added(item) => (paint(GOOD, "+"), item),
                ContextChange::Removed(item) => (paint(BAD, "−"), item),
            };
            writeln!(out, "{mark} {}", line(std::slice::from_ref(item)))?;
        }
        let (was, is) = (before.receipt.tokens, now.receipt.tokens);
        let reused =
            format!("{} tokens, {:.0} %", grouped(reusable.tokens.into()), reusable.share * 100.0);
        writeln!(
            out,
            "{}",
            paint(
                DIM,
                format!(
                    "{} → {} tokens; shared prefix with the previous context: {reused}",
                    grouped(was.into()),
                    grouped(is.into())
                )
            )
        )
    })?;
    Ok(())
}

/// Prints the receipt for people. Adjacent messages with the same reason share a line.
pub(super) fn receipt(out: &mut dyn Write, receipt: &Receipt) -> io::Result<()> {
    let Receipt { profile, tokens, budget, .. } = receipt;
    let share = 100.0 * f64::from(*tokens) / f64::from((*budget).max(1));
    let (tokens, budget) = (grouped((*tokens).into()), grouped((*budget).into()));
    writeln!(
        out,
        "{} {}",
        paint(BOLD, format!("{tokens} of {budget} tokens")),
        paint(
            DIM,
            format!(
                "({share:.0} %, {}) · profile {profile} · thread {}",
                receipt.tokenizer, receipt.thread
            )
        )
    )?;
    let asked = receipt
        .query
        .as_ref()
        .map_or_else(|| "standing context".to_owned(), |text| format!("query: {text}"));
    let turn = receipt.as_of.map_or_else(String::new, |turn| format!("as of turn {turn} · "));
    writeln!(out, "{}", paint(DIM, fit(&format!("{turn}{asked}"), width())))?;
    let mut section = None;
    let head = ["level", "messages", "detail", "reason", "score", "tokens"];
    let columns = format!(
        "  {:<7}{:<16}{:<10}{:<14}{:>6}{:>9}  hash",
        head[0], head[1], head[2], head[3], head[4], head[5]
    );
    for run in runs(&receipt.items) {
        if section != Some(&run[0].section) {
            section = Some(&run[0].section);
            writeln!(out, "\n{}\n{}", paint(BOLD, &run[0].section), paint(DIM, &columns))?;
        }
        writeln!(out, "  {}", line(run))?;
    }
    left_out(out, receipt)?;
    gate(out, receipt)?;
    let reusable = &receipt.reusable;
    writeln!(
        out,
        "{} {} tokens ({:.0} %) shared with the start of the previous turn's context",
        paint(DIM, pad("reusable", 10)),
        grouped(reusable.tokens.into()),
        reusable.share * 100.0
    )
}

/// Groups items that can share a line: consecutive messages with the same reason.
fn runs(items: &[ReceiptItem]) -> Vec<&[ReceiptItem]> {
    let goes_on = |one: &ReceiptItem, next: &ReceiptItem| {
        let alike = one.level == 0 && next.level == 0 && one.section == next.section;
        let same = one.reason == next.reason
            && one.detail == next.detail
            && one.score == 0.0
            && next.score == 0.0;
        alike && same && next.from <= one.until
    };
    items.chunk_by(goes_on).collect()
}

fn line(run: &[ReceiptItem]) -> String {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return String::new() };
    let messages = match last.until - first.from {
        1 => format!("#{}", first.from),
        _ => format!("#{}–#{}", first.from, last.until - 1),
    };
    let tokens: u32 = run.iter().map(|item| item.tokens).sum();
    let score = if first.score == 0.0 { String::new() } else { format!("{:.2}", first.score) };
    let hash = match run.len() {
        1 => first.hash.to_string()[..8].to_owned(),
        many => format!("{many} messages"),
    };
    let grain = match (first.level, first.detail) {
        (0, DetailLevel::Text) => "raw",
        (_, grain) => grain.as_str(),
    };
    let level = if first.level == 0 { "·".to_owned() } else { first.level.to_string() };
    format!(
        "{:<7}{:<16}{:<10}{:<14}{:>6}{:>9}  {}",
        level,
        messages,
        grain,
        first.reason.as_str(),
        score,
        grouped(tokens.into()),
        paint(DIM, hash)
    )
}

fn left_out(out: &mut dyn Write, receipt: &Receipt) -> io::Result<()> {
    const SHOWN: usize = 6;
    let mut parts: Vec<String> = Vec::new();
    for why in [SkipReason::NoRoom, SkipReason::NotAskedFor, SkipReason::Cut] {
        let spans: Vec<String> = receipt
            .left_out
            .iter()
            .filter(|it| it.why == why)
            .map(|it| {
                if it.until - it.from == 1 {
                    format!("#{}", it.from)
                } else {
                    format!("#{}–#{}", it.from, it.until - 1)
                }
            })
            .collect();
        if !spans.is_empty() {
            let more = if spans.len() > SHOWN { " …" } else { "" };
            parts.push(format!(
                "{}{more} ({})",
                spans[..spans.len().min(SHOWN)].join(", "),
                why.as_str()
            ));
        }
    }
    if receipt.hits_left_out > 0 {
        parts.push(format!("{} (no room)", count(receipt.hits_left_out.into(), "hit")));
    }
    let text = if parts.is_empty() { "nothing".to_owned() } else { parts.join("; ") };
    writeln!(out, "\n{} {text}", paint(DIM, pad("left out", 10)))
}

fn gate(out: &mut dyn Write, receipt: &Receipt) -> io::Result<()> {
    let gate = &receipt.gate;
    let state = match gate.degraded {
        false => paint(GOOD, "complete"),
        true => paint(BAD, "degraded"),
    };
    writeln!(out, "{} {state}", paint(DIM, pad("gate", 10)))?;
    for (what, list) in [("pending", &gate.pending), ("failed", &gate.failed)] {
        for operation in list {
            writeln!(out, "{} {what}: {operation}", pad("", 10))?;
        }
    }
    Ok(())
}
