//! `treering context`: builds a context and prints it, its receipt or its changes.

use std::io::{self, IsTerminal, Write};

use anstyle::Style;
use serde::Serialize;
use treering_core::packing::{DetailLevel, SkipReason};
use treering_core::{Labels, Receipt, ReceiptItem};
use treering_engine::{Context, ContextChange, ContextRequest, Engine};

use super::output::{
    BAD, BOLD, Column, DIM, GOOD, Output, TextTable, count, grouped, paint, print_dim, print_text,
    stdout,
};
use super::{CliError, work};
use treering_server::context_view::{ContextView, chat_messages};
use treering_server::service::requests::ContextParams;
use treering_server::service::{ContextSubject, Service};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering context tidewatch --query \"which port does staging use\"
  treering context tidewatch --budget 2000 --receipt
  treering context tidewatch --profile frontier --format messages
  treering context tidewatch --as-of 40        the context as of turn 40
  treering context tidewatch --diff            what the last turn changed
  treering context --project . --budget 1500   all conversations of this folder
  treering context --label user=42 --query \"which plan does she have\"")]
pub(super) struct Args {
    /// Slug, key, id, or the first digits of an id; several for a context over all of them
    #[arg(value_name = "CONVERSATION")]
    conversations: Vec<String>,
    /// A context over the conversations of this folder and of those below it
    #[arg(long, value_name = "FOLDER", conflicts_with = "conversations")]
    project: Option<String>,
    /// A context over the conversations with this label; repeat it to ask for several
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "conversations")]
    label: Vec<String>,
    /// A context over all conversations
    #[arg(long, conflicts_with_all = ["conversations", "project", "label"])]
    everything: bool,
    /// Leave this conversation out of the scope; repeat it for several
    #[arg(long, value_name = "CONVERSATION")]
    exclude: Vec<String>,
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
    /// The thread to build the context for [default: the whole conversation]
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

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let engine = service.engine();
    let (conversation, conversations) = match args.conversations.as_slice() {
        [one] => (Some(one.clone()), Vec::new()),
        several => (None, several.to_vec()),
    };
    let params = ContextParams {
        conversation,
        conversations,
        project_path: args.project.clone(),
        labels: Labels::parse(args.label.iter().map(String::as_str))?,
        everything: args.everything,
        exclude: args.exclude.clone(),
        query: args.query.clone(),
        budget: args.budget,
        profile: args.profile.clone(),
        as_of: args.as_of,
        thread: args.thread.clone(),
        ..ContextParams::default()
    };
    if params.conversation.is_none() && !params.has_scope() {
        let error = "name a conversation (`treering sessions` lists them), or a scope: --project \
                     FOLDER, --label NAME=VALUE, several conversations or --everything";
        return Err(CliError::Usage(error.into()));
    }
    let subject = service.context_subject(&params)?;
    // No worker may be running to finish the jobs that the context waits for.
    work::catch_up(engine, subject.gated(), output)?;
    let context = match &subject {
        ContextSubject::Conversation(conversation) => {
            let request = service.context_request(conversation, &params)?;
            let request = ContextRequest { gate_timeout: None, ..request };
            let context = engine.context(&request)?;
            if args.diff {
                return diff(engine, &request, &context, output);
            }
            context
        }
        ContextSubject::Scope(_) if args.diff => {
            return Err(CliError::Usage("--diff is for one conversation, not for a scope".into()));
        }
        ContextSubject::Scope(_) => service.context(&subject, &params)?,
    };
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
            let markdown = context.markdown();
            // A program gets the exact context, a terminal what is safe to print.
            match io::stdout().is_terminal() {
                true => stdout().write_all(markdown.as_bytes())?,
                false => io::stdout().lock().write_all(markdown.as_bytes())?,
            }
            Ok(())
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
    engine: &Engine,
    request: &ContextRequest,
    now: &Context,
    output: &Output,
) -> Result<(), CliError> {
    let Some(before) = engine.previous_context(request)? else {
        return Err(CliError::Usage("no previous turn to compare with".into()));
    };
    let changes = now.changes_since(&before);
    let of = |added: bool| {
        let selected = changes.iter().filter_map(move |change| match change {
            ContextChange::Added(item) => added.then_some(item),
            ContextChange::Removed(item) => (!added).then_some(item),
        });
        selected.collect::<Vec<_>>()
    };
    let reusable = now.receipt.reusable;
    let view = DiffView {
        reusable_tokens: reusable.tokens,
        reusable_share: reusable.share,
        added: of(true),
        removed: of(false),
    };
    output.show(&view, |out| {
        let mut table = TextTable::new(&DIFF_COLUMNS);
        for change in &changes {
            let (style, sign, item) = match change {
                ContextChange::Added(item) => (GOOD, "+", item),
                ContextChange::Removed(item) => (BAD, "−", item),
            };
            let [level, messages, detail, reason, score, tokens, hash] =
                cells(std::slice::from_ref(item));
            let sign = (style, sign.to_owned());
            table.row([sign, level, messages, detail, reason, score, tokens, hash]);
        }
        if !changes.is_empty() {
            table.print(out)?;
        }
        let (was, is) = (before.receipt.tokens, now.receipt.tokens);
        let reused =
            format!("{} tokens, {:.0}%", grouped(reusable.tokens.into()), reusable.share * 100.0);
        let (was, is) = (grouped(was.into()), grouped(is.into()));
        print_dim(
            out,
            "",
            &format!("{was} → {is} tokens; shared prefix with the previous context: {reused}"),
        )
    })?;
    Ok(())
}

/// The columns of a comparison of contexts. A receipt has the same ones without the sign.
const DIFF_COLUMNS: [Column; 8] = [
    Column::Left(""),
    Column::Left("level"),
    Column::Left("messages"),
    Column::Left("detail"),
    Column::Left("reason"),
    Column::Right("score"),
    Column::Right("tokens"),
    Column::Left("hash"),
];

/// Prints the receipt for people. Adjacent messages with the same reason share a line.
pub(super) fn receipt(out: &mut dyn Write, receipt: &Receipt) -> io::Result<()> {
    let Receipt { profile, tokens, budget, tokenizer, thread, .. } = receipt;
    let percent = 100.0 * f64::from(*tokens) / f64::from((*budget).max(1));
    let (tokens, budget) = (grouped((*tokens).into()), grouped((*budget).into()));
    writeln!(out, "{}", paint(BOLD, format!("{tokens} of {budget} tokens ({percent:.0}%)")))?;
    let subject = match (&receipt.scope, thread.as_str()) {
        (Some(scope), _) => scope.clone(),
        (None, "*") => "all threads".into(),
        (None, thread) => format!("thread {thread}"),
    };
    print_dim(out, "", &format!("profile {profile} · {subject} · tokenizer {tokenizer}"))?;
    let query = receipt.query.as_ref();
    let query = query.map_or_else(|| "standing context".into(), |text| format!("query: {text}"));
    let turn = receipt.as_of.map_or_else(String::new, |turn| format!("as of turn {turn} · "));
    print_dim(out, "", &format!("{turn}{query}"))?;
    for section in receipt.items.chunk_by(|one, next| one.section == next.section) {
        let [_, columns @ ..] = DIFF_COLUMNS;
        let mut table = TextTable::new(&columns);
        for run in runs(section) {
            table.row(cells(run));
        }
        writeln!(out, "\n{}", paint(BOLD, &section[0].section))?;
        table.print(out)?;
    }
    left_out(out, receipt)?;
    gate(out, receipt)?;
    let reusable = &receipt.reusable;
    let shared = format!(
        "{} tokens ({:.0}%) shared with the start of the previous turn's context",
        grouped(reusable.tokens.into()),
        reusable.share * 100.0
    );
    fact(out, "reusable", &shared)
}

/// Prints a fact below the table: its name, and its text aligned with the others.
fn fact(out: &mut dyn Write, name: &str, text: &str) -> io::Result<()> {
    writeln!(out, "{}", paint(DIM, name))?;
    print_text(out, "  ", text)
}

/// Groups items that can share a line: consecutive messages with the same reason.
fn runs(items: &[ReceiptItem]) -> Vec<&[ReceiptItem]> {
    let continues = |one: &ReceiptItem, next: &ReceiptItem| {
        let is_adjacent_kind = one.level == 0
            && next.level == 0
            && one.section == next.section
            && one.conversation == next.conversation;
        let same = one.reason == next.reason
            && one.detail == next.detail
            && one.score == 0.0
            && next.score == 0.0;
        is_adjacent_kind && same && next.from <= one.until
    };
    items.chunk_by(continues).collect()
}

/// The cells of a line: level, messages, detail, reason, score, tokens, hash.
fn cells(run: &[ReceiptItem]) -> [(Style, String); 7] {
    let unstyled = |text: String| (Style::new(), text);
    let (Some(first), Some(last)) = (run.first(), run.last()) else {
        return Default::default();
    };
    let tokens: u32 = run.iter().map(|item| item.tokens).sum();
    let score = if first.score == 0.0 { String::new() } else { format!("{:.2}", first.score) };
    let hash = match run.len() {
        1 => first.hash.to_string()[..8].to_owned(),
        n => format!("{n} messages"),
    };
    let detail = match (first.level, first.detail) {
        (0, DetailLevel::Text) => "raw".to_owned(),
        (_, detail) => detail.to_string(),
    };
    [
        unstyled(if first.level == 0 { "·".to_owned() } else { first.level.to_string() }),
        unstyled(match &first.conversation {
            Some(slug) if first.until == first.from => slug.clone(),
            _ => messages(first.from, last.until),
        }),
        unstyled(detail),
        unstyled(first.reason.as_str().to_owned()),
        unstyled(score),
        unstyled(grouped(tokens.into())),
        (DIM, hash),
    ]
}

/// A range of messages, such as `#3–#9`.
fn messages(from: u32, until: u32) -> String {
    match until - from {
        1 => format!("#{from}"),
        _ => format!("#{from}–#{}", until - 1),
    }
}

fn left_out(out: &mut dyn Write, receipt: &Receipt) -> io::Result<()> {
    const SHOWN: usize = 6;
    let mut parts: Vec<String> = Vec::new();
    for reason in [SkipReason::NoRoom, SkipReason::NotAskedFor, SkipReason::Cut] {
        let spans: Vec<String> = receipt
            .left_out
            .iter()
            .filter(|it| it.why == reason)
            .map(|it| messages(it.from, it.until))
            .collect();
        if !spans.is_empty() {
            let more = if spans.len() > SHOWN { " …" } else { "" };
            parts.push(format!(
                "{}{more} ({})",
                spans[..spans.len().min(SHOWN)].join(", "),
                reason.as_str()
            ));
        }
    }
    for session in receipt.sessions.iter().filter(|session| session.omitted > 0) {
        let omitted = count(session.omitted.into(), "message");
        parts.push(format!("{omitted} of {} (no room)", session.slug));
    }
    if receipt.hits_left_out > 0 {
        parts.push(format!("{} (no room)", count(receipt.hits_left_out.into(), "hit")));
    }
    if receipt.forgotten > 0 {
        parts.push(format!("{} (forgotten)", count(receipt.forgotten.into(), "message")));
    }
    let text = if parts.is_empty() { "nothing".to_owned() } else { parts.join("; ") };
    writeln!(out)?;
    fact(out, "left out", &text)
}

fn gate(out: &mut dyn Write, receipt: &Receipt) -> io::Result<()> {
    let gate = &receipt.gate;
    writeln!(out, "{}", paint(DIM, "gate"))?;
    match gate.degraded {
        false => writeln!(out, "  {}", paint(GOOD, "complete"))?,
        true => writeln!(out, "  {}", paint(BAD, "degraded"))?,
    }
    for (state, list) in [("pending", &gate.pending), ("failed", &gate.failed)] {
        for operation in list {
            print_text(out, "  ", &format!("{state}: {operation}"))?;
        }
    }
    Ok(())
}
