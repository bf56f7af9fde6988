//! `treering search`: prints the hits of a query.

use std::io::{self, Write};

use treering_core::{ConversationState, Role, Timestamp};
use treering_engine::{Engine, Hit, HitItem, Query, SearchOutcome, normalize_cwd};

use super::CliError;
use super::output::{BOLD, DIM, MATCH, Output, paint};
use treering_server::views::HitView;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering search \"which port does staging use\"
  treering search \"what did I say about the sill\" --in tidewatch --role user --explain
  treering search decisions --level 2 --since 2026-03-01")]
pub(super) struct Args {
    /// A question or keywords
    #[arg(required = true)]
    text: Vec<String>,
    /// Search only this conversation; can be repeated
    #[arg(long = "in", value_name = "CONVERSATION")]
    conversations: Vec<String>,
    /// Search only conversations in this folder [default with no value: the current folder]
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, default_missing_value = ".")]
    cwd: Option<String>,
    /// Search only conversations in this state: open, closed or archived; can be repeated
    #[arg(long, value_name = "STATE", value_parser = |text: &str| text.parse::<ConversationState>())]
    state: Vec<ConversationState>,
    /// Search only this thread
    #[arg(long, value_name = "NAME")]
    thread: Option<String>,
    /// Search only messages by this author
    #[arg(long, value_name = "NAME")]
    author: Option<String>,
    /// Search only messages with this role
    #[arg(long, value_name = "ROLE", value_parser = |text: &str| text.parse::<Role>())]
    role: Option<Role>,
    /// Search only this level: 0 for messages, 1 and above for nodes; can be repeated
    #[arg(long, value_name = "LEVEL")]
    level: Vec<u8>,
    /// Search only messages from this date on
    #[arg(long, value_name = "DATE", value_parser = |text: &str| text.parse::<Timestamp>())]
    since: Option<Timestamp>,
    /// Search only messages before this date
    #[arg(long, value_name = "DATE", value_parser = |text: &str| text.parse::<Timestamp>())]
    until: Option<Timestamp>,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 10)]
    limit: usize,
    /// Minimum score of a result
    #[arg(long, value_name = "SCORE")]
    min_score: Option<f32>,
    /// Show how each score is composed
    #[arg(long)]
    explain: bool,
}

pub(super) fn run(args: &Args, memory: &Engine, output: &Output) -> Result<(), CliError> {
    let mut conversations = Vec::new();
    for reference in &args.conversations {
        conversations.push(memory.find(reference)?.id);
    }
    let query = Query {
        text: args.text.join(" "),
        conversations,
        cwd: args.cwd.as_deref().map(normalize_cwd),
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
    let SearchOutcome { hits, lexical_only_reason: words_only } = memory.search(&query)?;
    if let Some(why) = words_only {
        output.note(&format!("searched by words only, not by meaning: {why}"));
    }
    let views = HitView::all(&hits, memory)?;
    output.show(&views, |out| {
        if hits.is_empty() {
            return writeln!(out, "no results");
        }
        hits.iter().zip(&views).try_for_each(|(hit, view)| print(out, hit, view, args.explain))
    })?;
    Ok(())
}

fn print(out: &mut dyn Write, hit: &Hit, view: &HitView, explain: bool) -> io::Result<()> {
    let (what, at) = match &hit.item {
        HitItem::Message(message) => {
            let author = message.body.author.as_deref().unwrap_or(message.body.role.as_str());
            (format!("{author} {}", message.idx), message.body.at)
        }
        HitItem::ToolCall(call) => {
            (format!("{} (turn {})", call.call.name, call.turn), call.call.at)
        }
        HitItem::Node(node) => {
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
