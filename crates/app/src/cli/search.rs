//! `treering search`

use std::io::{self, Write};

use serde::Serialize;
use treering_core::{ConversationState, Covers, MessageIdx, Role, Timestamp};
use treering_engine::{Answer, Found, Hit, Memory, Query, normalise_cwd};

use super::Failure;
use super::jobs::slug;
use super::output::{BOLD, DIM, MATCH, Output, paint};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering search \"which port does staging use\"
  treering search \"what did I say about the sill\" --in tidewatch --role user --explain
  treering search decisions --level 2 --since 2026-03-01")]
pub(super) struct Args {
    /// A question, or words
    #[arg(required = true)]
    text: Vec<String>,
    /// Only in this conversation; may be given several times
    #[arg(long = "in", value_name = "CONVERSATION")]
    conversations: Vec<String>,
    /// Only in conversations of a folder [default with no value: the current one]
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, default_missing_value = ".")]
    cwd: Option<String>,
    /// Only in conversations that are open, closed or archived
    #[arg(long, value_name = "STATE", value_parser = |text: &str| text.parse::<ConversationState>())]
    state: Vec<ConversationState>,
    /// Only in this thread
    #[arg(long, value_name = "NAME")]
    thread: Option<String>,
    /// Only what this author said
    #[arg(long, value_name = "NAME")]
    author: Option<String>,
    /// Only what was said in this role
    #[arg(long, value_name = "ROLE", value_parser = |text: &str| text.parse::<Role>())]
    role: Option<Role>,
    /// Only this level: 0 for messages, 1 and above for nodes; may be given several times
    #[arg(long, value_name = "LEVEL")]
    level: Vec<u8>,
    /// Only what was said from this date on
    #[arg(long, value_name = "DATE", value_parser = |text: &str| text.parse::<Timestamp>())]
    since: Option<Timestamp>,
    /// Only what was said before this date
    #[arg(long, value_name = "DATE", value_parser = |text: &str| text.parse::<Timestamp>())]
    until: Option<Timestamp>,
    /// At most so many hits
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 10)]
    limit: usize,
    /// Only hits with at least this score
    #[arg(long, value_name = "SCORE")]
    min_score: Option<f32>,
    /// Shows where each score comes from
    #[arg(long)]
    explain: bool,
}

#[derive(Serialize)]
struct View {
    conversation: String,
    slug: String,
    level: u8,
    score: f32,
    parts: Vec<Part>,
    snippet: String,
    matches: Vec<(usize, usize)>,
    at: String,
    #[serde(flatten)]
    what: What,
    /// The nodes over it, from the lowest up.
    up: Vec<String>,
    /// What a node was written from: nodes, or positions of messages.
    down: Vec<String>,
}

#[derive(Serialize)]
struct Part {
    signal: &'static str,
    score: f32,
}

#[derive(Serialize)]
#[serde(untagged)]
enum What {
    Message { idx: u32, turn: u32, thread: String, role: &'static str, author: Option<String> },
    Call { call: String, turn: u32, order: u32, thread: String, success: Option<bool> },
    Node { node: String, covers_from: u32, covers_until: u32, parent: Option<u32> },
}

pub(super) fn run(args: &Args, memory: &Memory, output: &Output) -> Result<(), Failure> {
    let mut conversations = Vec::new();
    for reference in &args.conversations {
        conversations.push(memory.find(reference)?.id);
    }
    let query = Query {
        text: args.text.join(" "),
        conversations,
        cwd: args.cwd.as_deref().map(normalise_cwd),
        states: args.state.clone(),
        thread: args.thread.as_deref().map(str::parse).transpose()?,
        author: args.author.clone(),
        role: args.role,
        levels: args.level.clone(),
        since: args.since,
        until: args.until,
        limit: args.limit,
        min_score: args.min_score,
    };
    let Answer { hits, words_only } = memory.search(&query)?;
    if let Some(why) = words_only {
        output.note(&format!("only the words were looked at, not their meaning: {why}"));
    }
    let views: Vec<View> = hits.iter().map(|hit| view(hit, memory)).collect::<Result<_, _>>()?;
    output.show(&views, |out| {
        if hits.is_empty() {
            return writeln!(out, "nothing was found");
        }
        hits.iter().zip(&views).try_for_each(|(hit, view)| print(out, hit, view, args.explain))
    })?;
    Ok(())
}

fn view(hit: &Hit, memory: &Memory) -> Result<View, Failure> {
    let (at, what) = match &hit.found {
        Found::Message(message) => (
            message.said.at,
            What::Message {
                idx: message.idx.0,
                turn: message.turn.0,
                thread: message.thread.to_string(),
                role: message.said.role.as_str(),
                author: message.said.author.clone(),
            },
        ),
        Found::Call(call) => (
            call.call.at,
            What::Call {
                call: call.call.name.clone(),
                turn: call.turn.0,
                order: call.order,
                thread: call.thread.to_string(),
                success: call.call.outcome.as_ref().and_then(|outcome| outcome.success),
            },
        ),
        Found::Node(node) => (
            node.range_end,
            What::Node {
                node: node.id.to_string(),
                covers_from: node.source.from,
                covers_until: node.source.until,
                parent: node.parent,
            },
        ),
    };
    let parts = hit.parts().into_iter().filter(|(_, score)| score.abs() > 0.0005);
    let (up, down) = path(hit, memory)?;
    Ok(View {
        conversation: hit.conversation.to_string(),
        slug: slug(memory, hit.conversation),
        level: hit.level(),
        score: hit.score,
        parts: parts.map(|(signal, score)| Part { signal, score }).collect(),
        snippet: hit.snippet.text.clone(),
        matches: hit.snippet.matches.clone(),
        at: at.to_string(),
        what,
        up,
        down,
    })
}

/// The nodes over a hit, and what a node was written from.
fn path(hit: &Hit, memory: &Memory) -> Result<(Vec<String>, Vec<String>), Failure> {
    let first = match &hit.found {
        Found::Message(message) => message.idx,
        Found::Call(call) => MessageIdx(call.before.0.saturating_sub(1)),
        Found::Node(node) => MessageIdx(node.source.from),
    };
    let over = memory.ancestors_of(hit.conversation, first)?;
    let up = over.iter().filter(|node| node.level().number() > hit.level());
    let down = match &hit.found {
        Found::Node(node) => match &node.task.covers {
            Covers::Nodes(children) => children.iter().map(ToString::to_string).collect(),
            Covers::Messages(_) => (node.source.from..node.source.until).map(|idx| idx.to_string()).collect(),
        },
        Found::Message(_) | Found::Call(_) => Vec::new(),
    };
    Ok((up.map(|node| node.id.to_string()).collect(), down))
}

fn print(out: &mut dyn Write, hit: &Hit, view: &View, explain: bool) -> io::Result<()> {
    let (what, at) = match &hit.found {
        Found::Message(message) => {
            let author = message.said.author.as_deref().unwrap_or(message.said.role.as_str());
            (format!("{author} {}", message.idx), message.said.at)
        }
        Found::Call(call) => (format!("{} (turn {})", call.call.name, call.turn), call.call.at),
        Found::Node(node) => {
            let id: String = node.id.as_str().chars().take(11).collect();
            (format!("level {} {id}", node.level()), node.range_end)
        }
    };
    let score = paint(DIM, format!("{:.2}", view.score));
    writeln!(
        out,
        "{score} {} {}",
        paint(BOLD, what),
        paint(DIM, format!("{} · {}", view.slug, at.to_minute()))
    )?;
    let marked = hit.snippet.marked(&format!("{MATCH}"), &format!("{MATCH:#}"));
    writeln!(out, "     {marked}")?;
    if explain {
        let parts: Vec<String> =
            view.parts.iter().map(|part| format!("{} {:.2}", part.signal, part.score)).collect();
        writeln!(out, "     {}", paint(DIM, parts.join(" + ")))?;
        if !view.up.is_empty() {
            let up: Vec<String> = view.up.iter().map(|id| id.chars().take(11).collect()).collect();
            writeln!(out, "     {}", paint(DIM, format!("under {}", up.join(" › "))))?;
        }
    }
    Ok(())
}
