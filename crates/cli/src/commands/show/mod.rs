//! `treering show`: prints the turns of a conversation.

mod embeddings;
pub(super) mod tree;

use std::io::{self, Write};

use treering_core::text::preview;
use treering_core::{Conversation, Message, MessageIdx, Role, Thread, ToolCall};
use treering_engine::{Engine, TurnItem, WholeTurn};

use super::CliError;
use super::local_time::{local, local_of};
use super::output::{
    ASSISTANT, BAD, BOLD, DIM, MAX_NAME, Output, TOOL, USER, count, fit, paint, print_dim,
    print_text, width,
};
use treering_server::service::Service;
use treering_server::service::requests::{NodesRequest, PageRequest, message_reference};
use treering_server::views::{ConversationPage, ConversationView, ThreadView, TurnView};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering show tidewatch --last 3
  treering show tidewatch --tree      the tree of summaries
  treering show tidewatch --nodes --level 1 --uncovered
  treering show l1-3f9a               one summary
  treering show tidewatch#4           a message with its turn
  treering show tidewatch#4 --history the earlier versions of a message
  treering --json show tidewatch --last 1 --embeddings")]
pub(super) struct Args {
    /// Slug, key, id, or the first digits of an id; a message, such as tidewatch#4; or a node, such as
    /// l1-3f9a [default: the latest conversation]
    #[arg(value_name = "CONVERSATION|MESSAGE|NODE")]
    conversation: Option<String>,
    /// Show the tree instead of the turns
    #[arg(long)]
    tree: bool,
    /// The first turn to show
    #[arg(long, value_name = "TURN", default_value_t = 0)]
    from: u32,
    /// Maximum number of turns
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 50)]
    limit: usize,
    /// Show this many of the last turns instead
    #[arg(long, value_name = "COUNT", conflicts_with = "from")]
    last: Option<usize>,
    /// Maximum characters of the last turns; the latest turn is always shown
    #[arg(long, value_name = "COUNT", requires = "last")]
    max_chars: Option<usize>,
    /// List the nodes instead of the turns
    #[arg(long, conflicts_with = "tree")]
    nodes: bool,
    /// List only the nodes of this level
    #[arg(long, value_name = "LEVEL", requires = "nodes")]
    level: Option<u8>,
    /// List only nodes that no higher node covers
    #[arg(long, requires = "nodes")]
    uncovered: bool,
    /// List the latest node first
    #[arg(long, requires = "nodes")]
    latest_first: bool,
    /// Show the embedding of each turn instead: the text, its hash, the model and, with --json,
    /// the vector
    #[arg(long, conflicts_with_all = ["tree", "nodes"])]
    embeddings: bool,
    /// Show only this thread
    #[arg(long, value_name = "NAME")]
    thread: Option<String>,
    /// Show texts and tool results in full
    #[arg(long)]
    full: bool,
    /// Show the earlier versions of a message, such as tidewatch#4
    #[arg(long, requires = "conversation", conflicts_with_all = ["tree", "nodes", "embeddings"])]
    history: bool,
}

impl Args {
    fn page(&self) -> PageRequest {
        PageRequest {
            from: self.from,
            limit: Some(self.limit),
            last: self.last,
            max_chars: self.max_chars,
            thread: self.thread.clone(),
        }
    }
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let engine = service.engine();
    if args.history {
        let reference = args.conversation.as_deref().unwrap_or_default();
        return history(reference, service, output);
    }
    if let Some(reference) = args.conversation.as_deref().filter(|it| Engine::is_node_reference(it))
    {
        return tree::node(reference, service, output);
    }
    // A key may contain this sign, too.
    let named = args.conversation.as_deref().filter(|it| engine.find(it).is_err());
    let message = named.and_then(message_reference);
    let name = message.map_or(args.conversation.as_deref(), |(name, _)| Some(name));
    let conversation = service.named_or_latest(name)?;
    if args.tree {
        return tree::tree(&conversation, service, output);
    }
    if args.nodes {
        let request = NodesRequest {
            level: args.level,
            uncovered: args.uncovered,
            latest_first: args.latest_first,
            limit: Some(args.limit),
        };
        return tree::nodes(&conversation, &request, service, output);
    }
    let request = match message {
        Some((_, idx)) => {
            let turn = service.message(&conversation, MessageIdx(idx))?.turn;
            PageRequest { from: turn.0, limit: Some(1), ..PageRequest::default() }
        }
        None => args.page(),
    };
    let (turns, next) = service.turns(&conversation, &request)?;
    let next = next.filter(|_| message.is_none());
    if args.embeddings {
        return embeddings::print(
            &engine.turn_embeddings(conversation.id, &turns)?,
            args.full,
            output,
        );
    }
    let threads = &conversation.threads;
    let page = ConversationPage {
        conversation: ConversationView::of(&conversation, None),
        threads: threads.iter().map(ThreadView::of).collect(),
        turns: turns.iter().map(TurnView::of).collect(),
        next,
    };
    output.show(&page, |out| {
        head(out, &conversation, threads)?;
        for turn in &turns {
            print_turn(out, turn, args.full)?;
        }
        match next {
            Some(next) => {
                let hint =
                    format!("More turns: `treering show {} --from {next}`", conversation.slug);
                print_dim(out, "", &hint)
            }
            None => Ok(()),
        }
    })?;
    Ok(())
}

pub(super) fn head(out: &mut dyn Write, it: &Conversation, threads: &[Thread]) -> io::Result<()> {
    let title = it.title.as_deref().unwrap_or(&it.slug);
    writeln!(out, "{}", paint(BOLD, preview(title, usize::MAX)))?;
    let totals = &it.totals;
    let mut facts = vec![
        it.slug.clone(),
        it.id.short(),
        count(u64::from(totals.turns), "turn"),
        count(u64::from(totals.messages), "message"),
        count(u64::from(totals.tool_calls), "tool call"),
        count(totals.tokens, "token"),
        it.state.to_string(),
    ];
    facts.extend(it.cwd.clone());
    facts.extend((!it.labels.is_empty()).then(|| it.labels.to_string()));
    print_dim(out, "", &facts.join(" · "))?;
    for thread in threads.iter().skip(1) {
        let fork = thread.fork.as_ref();
        let parent = fork.map_or("nothing", |fork| fork.parent.as_str());
        let after =
            fork.and_then(|fork| fork.after).map_or("its start".into(), |idx| idx.to_string());
        let fork = format!("thread {} forks from {parent} after {after}", thread.name);
        print_dim(out, "", &fork)?;
    }
    writeln!(out)
}

pub(super) fn print_turn(out: &mut dyn Write, turn: &WholeTurn, full: bool) -> io::Result<()> {
    let thread = match turn.turn.thread.is_main() {
        true => String::new(),
        false => format!(" · {}", turn.turn.thread),
    };
    let label = format!("── turn {}{thread} · {} ", turn.turn.no, local(turn.turn.started_at));
    let rule = "─".repeat(width().saturating_sub(label.chars().count()).min(60));
    writeln!(out, "{}", paint(DIM, format!("{label}{rule}")))?;
    for step in turn.items() {
        match step {
            TurnItem::Message(message) => print_message(out, message, full)?,
            TurnItem::ToolCall(call) => print_tool_call(out, call, full)?,
        }
    }
    writeln!(out)
}

pub(super) fn print_message(out: &mut dyn Write, message: &Message, full: bool) -> io::Result<()> {
    let body = &message.body;
    let style = match body.role {
        Role::User => USER,
        Role::Assistant => ASSISTANT,
        Role::System | Role::Tool => DIM,
    };
    let author = fit(body.author.as_deref().unwrap_or(body.role.as_str()), MAX_NAME);
    let author = author.as_str();
    let idx = paint(DIM, message.idx);
    if body.forgotten {
        return writeln!(out, "{} {idx} {}", paint(style, author), paint(DIM, "(forgotten)"));
    }
    if body.text.is_empty() {
        let parts = body.parts.as_ref().map_or(0, |parts| parts.as_str().len());
        return writeln!(
            out,
            "{} {idx} {}",
            paint(style, author),
            paint(DIM, format!("(no text; {parts} bytes of other content)"))
        );
    }
    let marks = marks(message).map(|mark| format!(" {}", paint(DIM, mark))).unwrap_or_default();
    writeln!(out, "{} {idx}{marks}", paint(style, author))?;
    let limit = if full || body.role != Role::System { usize::MAX } else { 3 };
    let lines = body.text.lines().count();
    for line in body.text.lines().take(limit) {
        print_text(out, "  ", line)?;
    }
    if lines > limit {
        writeln!(
            out,
            "  {}",
            paint(DIM, format!("… {} more lines; show them with --full", lines - limit))
        )?;
    }
    Ok(())
}

/// How a message was amended; `None` if it was not.
fn marks(message: &Message) -> Option<String> {
    let edited = message.body.edited_at.map(|at| format!("edited {}", local(at)));
    let wrong = message.body.correction.as_ref().map(|correction| match &correction.text {
        Some(text) => format!("wrong; correction: {text}"),
        None => "wrong".to_owned(),
    });
    let marks: Vec<String> = edited.into_iter().chain(wrong).collect();
    (!marks.is_empty()).then(|| format!("({})", marks.join("; ")))
}

/// Prints the earlier versions of a message, oldest first.
fn history(reference: &str, service: &Service, output: &Output) -> Result<(), CliError> {
    let (conversation, idx) = super::amend::message(reference).map_err(CliError::Usage)?;
    let view = service.history(&conversation, idx)?;
    Ok(output.show(&view, |out| {
        if view.versions.is_empty() {
            return writeln!(out, "{}#{idx} was never edited", view.slug);
        }
        for version in &view.versions {
            let until = format!("until {}", local_of(&version.replaced_at));
            writeln!(out, "{}", paint(DIM, until))?;
            version.text.lines().try_for_each(|line| print_text(out, "  ", line))?;
        }
        Ok(())
    })?)
}

fn print_tool_call(out: &mut dyn Write, it: &ToolCall, full: bool) -> io::Result<()> {
    let name = fit(&it.call.name, MAX_NAME);
    let max_width = width().saturating_sub(8 + name.chars().count());
    let args = it.call.args.to_text();
    let args = if full { args.into_owned() } else { fit(&args, max_width) };
    writeln!(out, "  {} {}", paint(TOOL, format!("⚙ {name}")), paint(DIM, args))?;
    let Some(outcome) = &it.call.outcome else {
        return writeln!(out, "    {}", paint(DIM, "no result yet"));
    };
    let duration = outcome.duration_ms.map_or(String::new(), |ms| format!(" {ms} ms"));
    let sign = match outcome.success {
        Some(false) => paint(BAD, format!("✗{duration}")),
        Some(true) => paint(DIM, format!("✓{duration}")),
        None => paint(DIM, format!("→{duration}")),
    };
    let result = outcome.result.to_text();
    if full {
        writeln!(out, "    {sign}")?;
        return result.lines().try_for_each(|line| writeln!(out, "    {line}"));
    }
    writeln!(out, "    {sign} {}", fit(&result, width().saturating_sub(12 + duration.len())))
}
