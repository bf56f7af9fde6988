//! `treering tail`: follows the event feed and prints each event.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use serde::Serialize;
use treering_core::ports::Span;
use treering_core::{Clock as _, ConversationId, MessageIdx, Node, prompt};
use treering_engine::{ContextChange, Event, SystemClock};

use super::CliError;
use super::local_time::local_clock;
use super::output::{BAD, BOLD, DIM, GOOD, Output, fit, grouped, pad, paint, stdout, width};
use treering_server::service::Service;
use treering_server::service::requests::ContextParams;
use treering_server::views::{EventView, Slugs, conversation_of, kind_of};

#[derive(clap::Args)]
#[command(after_help = "\
The command prints turns, seals, new nodes and failures from every process that uses this store, and
after each turn how the standing context changed. Press Ctrl-C to stop.

Examples:
  treering tail
  treering tail tidewatch --budget 2000
  treering tail --json --idle 10 | jq .event")]
pub(super) struct Args {
    /// Slug, key, id, or the first digits of an id [default: every conversation]
    conversation: Option<String>,
    /// Budget of the contexts whose changes are shown [default: the setting context.budget]
    #[arg(long, short, value_name = "TOKENS")]
    budget: Option<u32>,
    /// Exit after this many seconds without an event
    #[arg(long, value_name = "SECONDS")]
    idle: Option<u64>,
}

/// Maximum time of one wait for events, so that `--idle` is checked in between.
const WATCH: Duration = Duration::from_secs(1);

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let engine = service.engine();
    let only = args.conversation.as_deref().map(|it| engine.find(it)).transpose()?.map(|it| it.id);
    let tail = Tail { service, budget: args.budget, output };
    let mut cursor = engine.event_cursor()?;
    output.remark("following events; press Ctrl-C to stop");
    let mut last = Instant::now();
    loop {
        let (events, now) = engine.wait_for_events(&cursor, WATCH)?;
        cursor = now;
        let selected: Vec<&Event> =
            events.iter().filter(|it| only.is_none_or(|id| conversation_of(it) == id)).collect();
        if !selected.is_empty() {
            tail.print_all(&selected)?;
            last = Instant::now();
        }
        if args.idle.is_some_and(|idle| last.elapsed() >= Duration::from_secs(idle)) {
            return Ok(());
        }
    }
}

struct Tail<'a> {
    service: &'a Service,
    budget: Option<u32>,
    output: &'a Output,
}

/// An event as a line of JSON.
#[derive(Serialize)]
struct EventLine<'a> {
    event: &'static str,
    #[serde(flatten)]
    view: &'a EventView,
}

/// The changes that a turn made to the standing context.
#[derive(Serialize)]
struct ContextLine {
    event: &'static str,
    conversation: String,
    slug: String,
    turn: Option<u32>,
    tokens: u32,
    budget: u32,
    reusable_share: f64,
    added: usize,
    removed: usize,
}

impl Tail<'_> {
    fn print_all(&self, events: &[&Event]) -> Result<(), CliError> {
        let mut slugs = Slugs::of(self.service.engine());
        let mut changed: Vec<ConversationId> = Vec::new();
        for event in events {
            let view = EventView::of(event, &mut slugs);
            if matches!(event, Event::Turn { .. }) && !changed.contains(&conversation_of(event)) {
                changed.push(conversation_of(event));
            }
            if self.output.json {
                json_line(&EventLine { event: kind_of(event), view: &view })?;
            } else {
                self.print(event, &view)?;
            }
        }
        for id in changed {
            self.print_context(id, slugs.get(id))?;
        }
        Ok(())
    }

    fn print(&self, event: &Event, view: &EventView) -> Result<(), CliError> {
        let (style, lines) = match event {
            Event::Turn { conversation, messages, .. } => {
                (BOLD, self.message_lines(*conversation, messages)?)
            }
            Event::Node(_, node) => (GOOD, vec![node_line(node)]),
            Event::Sealed(_, line) => (DIM, vec![line.text.clone()]),
            Event::Failed(_, line) => (BAD, vec![line.text.clone()]),
        };
        let label = match view.turn {
            Some(turn) => format!("turn {turn}"),
            None => kind_of(event).to_owned(),
        };
        Ok(print(&view.slug, &paint(style, pad(&label, WHAT)), &lines)?)
    }

    /// One line per message: its author and its text.
    fn message_lines(
        &self,
        id: ConversationId,
        messages: &[MessageIdx],
    ) -> Result<Vec<String>, CliError> {
        let (Some(first), Some(last)) = (messages.first(), messages.last()) else {
            return Ok(Vec::new());
        };
        let read =
            self.service.engine().messages(id, Span::between(*first, MessageIdx(last.0 + 1)))?;
        let line = |message: &treering_core::Message| {
            let speaker =
                message.body.author.clone().unwrap_or_else(|| message.body.role.to_string());
            format!("#{} {speaker}: {}", message.idx.0, one_line(&message.body.text))
        };
        Ok(read.iter().filter(|message| messages.contains(&message.idx)).map(line).collect())
    }

    fn print_context(&self, id: ConversationId, slug: String) -> Result<(), CliError> {
        let engine = self.service.engine();
        let params = ContextParams { budget: self.budget, ..ContextParams::default() };
        let conversation = engine.find(&id.to_string())?;
        let request = self.service.context_request(&conversation, &params)?;
        let context = engine.context(&request)?;
        let before = engine.previous_context(&request)?;
        let changes = before.map(|before| context.changes_since(&before)).unwrap_or_default();
        let added = changes.iter().filter(|it| matches!(it, ContextChange::Added(_))).count();
        let (receipt, removed) = (&context.receipt, changes.len() - added);
        if self.output.json {
            return json_line(&ContextLine {
                event: "context",
                conversation: id.to_string(),
                slug,
                turn: receipt.as_of,
                tokens: receipt.tokens,
                budget: receipt.budget,
                reusable_share: receipt.reusable.share,
                added,
                removed,
            });
        }
        let line = format!(
            "{} of {} tokens, {:.0}% unchanged; {added} added, {removed} removed",
            grouped(receipt.tokens.into()),
            grouped(receipt.budget.into()),
            receipt.reusable.share * 100.0
        );
        Ok(print(&slug, &paint(DIM, pad("context", WHAT)), &[line])?)
    }
}

/// Column widths of the slug and the event name.
const SLUG: usize = 20;
const WHAT: usize = 10;

/// Prints an event: time, slug, event name, and its lines below each other.
fn print(slug: &str, label: &str, lines: &[String]) -> io::Result<()> {
    let mut out = stdout();
    let time = local_clock(SystemClock.now());
    let max_width = width().saturating_sub(8 + SLUG + WHAT + 6).max(20);
    for (index, line) in lines.iter().enumerate() {
        match index {
            0 => write!(out, "{}  {}  {label}", paint(DIM, &time), pad(&fit(slug, SLUG), SLUG))?,
            _ => write!(out, "{}", " ".repeat(8 + 2 + SLUG + 2 + WHAT))?,
        }
        writeln!(out, "  {}", fit(line, max_width))?;
    }
    out.flush()
}

fn json_line(line: &impl Serialize) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, line).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

fn node_line(node: &Node) -> String {
    let (from, until) = (node.source.from, node.source.until.saturating_sub(1));
    format!(
        "level {}, #{from}–#{until}: {}",
        node.level().number(),
        one_line(&prompt::without_headings(&node.content.overview))
    )
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
