//! `treering search`: prints the hits of a query.

use std::io::{self, Write};

use treering_core::{Label, Timestamp};

use super::CliError;
use super::label::of_flags;
use super::local_time::{self, local_of};
use super::output::{
    BOLD, DIM, MATCH, MAX_NAME, Output, fit, paint, print_dim, print_text, short_path,
};
use treering_server::service::Service;
use treering_server::service::requests::{RoleName, SearchRequest, StateName};
use treering_server::views::{FoundView, HitView};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering search \"which port does staging use\"
  treering search \"what about the sill\" --in tidewatch --role user --explain
  treering search decisions --level 2 --since 2026-03-01
  treering search \"how do we deploy\" --semantic --no-turns")]
pub(super) struct Args {
    /// A question or keywords
    #[arg(required = true)]
    text: Vec<String>,
    /// Search only this conversation; can be repeated
    #[arg(long = "in", value_name = "CONVERSATION")]
    conversations: Vec<String>,
    /// Search only conversations in this folder or below it [default with no value: the current
    /// folder]
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, default_missing_value = ".")]
    cwd: Option<String>,
    /// Search only conversations of this project: in this folder or below it, or with such a
    /// project path [default with no value: the current folder]
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, default_missing_value = ".")]
    project: Option<String>,
    /// Search only conversations with this label, such as source=codex; can be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    label: Vec<Label>,
    /// Search only conversations in this state; can be repeated [default: open and closed]
    #[arg(long, value_enum, value_name = "STATE")]
    state: Vec<StateName>,
    /// Search archived conversations too
    #[arg(long)]
    archived: bool,
    /// Leave out this conversation, or messages of it, such as tidewatch#40..55; can be repeated
    #[arg(long, value_name = "CONVERSATION[#A..B]")]
    exclude: Vec<String>,
    /// Leave out messages with this role; `tool` includes tool calls; can be repeated
    #[arg(long, value_enum, value_name = "ROLE")]
    exclude_role: Vec<RoleName>,
    /// Search only this thread
    #[arg(long, value_name = "NAME")]
    thread: Option<String>,
    /// Search only messages by this author
    #[arg(long, value_name = "NAME")]
    author: Option<String>,
    /// Search only messages with this role
    #[arg(long, value_enum, value_name = "ROLE")]
    role: Option<RoleName>,
    /// Search only this level: 0 for messages, 1 and above for nodes; can be repeated
    #[arg(long, value_name = "LEVEL")]
    level: Vec<u8>,
    /// Search only summaries, and no messages or tool calls
    #[arg(long, alias = "summaries-only")]
    no_turns: bool,
    /// Search only summaries with this topic, entity or tag, and the messages under them; can be
    /// repeated
    #[arg(long, value_name = "NAME")]
    topic: Vec<String>,
    /// Rank by meaning alone: the similarity of embeddings instead of words
    #[arg(long)]
    semantic: bool,
    /// Search only messages from this date on
    #[arg(long, value_name = "DATE", value_parser = local_time::parse)]
    since: Option<Timestamp>,
    /// Search only messages before this date
    #[arg(long, value_name = "DATE", value_parser = local_time::parse)]
    until: Option<Timestamp>,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 10)]
    limit: usize,
    /// Minimum score of a result, from 0 to 1 [default: 0.02, or 0 with --semantic]
    #[arg(long, value_name = "SCORE")]
    min_score: Option<f32>,
    /// Show each message and tool call, instead of one result per turn
    #[arg(long)]
    each_item: bool,
    /// Show how each score is composed
    #[arg(long)]
    explain: bool,
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let request = SearchRequest {
        query: args.text.join(" "),
        conversations: args.conversations.clone(),
        cwd: args.cwd.clone(),
        project_path: args.project.clone(),
        labels: of_flags(&args.label)?,
        states: args.state.clone(),
        archived: args.archived,
        exclude: args.exclude.clone(),
        exclude_roles: args.exclude_role.clone(),
        asked_by: None,
        each_item: args.each_item,
        thread: args.thread.clone(),
        author: args.author.clone(),
        role: args.role,
        levels: args.level.clone(),
        include_turns: args.no_turns.then_some(false),
        topics: args.topic.clone(),
        semantic: args.semantic,
        since: args.since.map(|at| at.to_string()),
        until: args.until.map(|at| at.to_string()),
        limit: Some(args.limit),
        min_score: args.min_score,
    };
    let answer = service.search(&request)?;
    if let Some(reason) = &answer.words_only {
        output.remark(&format!("searched by words only, not by meaning: {reason}"));
    }
    output.show(&answer, |out| {
        if answer.hits.is_empty() {
            return writeln!(out, "nothing found");
        }
        answer.hits.iter().try_for_each(|hit| print(out, hit, args.explain))
    })?;
    Ok(())
}

/// Prints a hit: its position, the matching excerpt and, on request, the signals of its score.
pub(super) fn print(out: &mut dyn Write, hit: &HitView, explain: bool) -> io::Result<()> {
    const INDENT: &str = "     ";
    let kind = match &hit.item {
        FoundView::Node { node, .. } => format!("level {} {}", hit.level, short_node(node)),
        item => name_of(item),
    };
    let project = hit.project.as_deref().map(short_path);
    let origin = [hit.source.clone(), project].into_iter().flatten();
    let location: Vec<String> =
        [hit.slug.clone(), local_of(&hit.at)].into_iter().chain(origin).collect();
    let location = location.join(" · ");
    let score = paint(DIM, format!("{:.2}", hit.score));
    let weak = if hit.weak { " · weak" } else { "" };
    let superseded = hit.superseded_by.as_ref();
    let superseded = superseded.map_or_else(String::new, |by| format!(" · superseded by {by}"));
    let location = format!("{location}{weak}{superseded}");
    writeln!(out, "{score} {} {}", paint(BOLD, kind), paint(DIM, location))?;
    print_text(out, INDENT, &hit.marked_snippet(&MATCH.to_string(), &format!("{MATCH:#}")))?;
    if !hit.same_turn.is_empty() {
        let others = hit.same_turn.iter().map(|other| name_of(&other.item));
        print_dim(out, INDENT, &format!("also {}", others.collect::<Vec<_>>().join(", ")))?;
    }
    if explain {
        let parts: Vec<String> =
            hit.parts.iter().map(|part| format!("{} {:.2}", part.signal, part.score)).collect();
        print_dim(out, INDENT, &parts.join(" + "))?;
        if !hit.up.is_empty() {
            let up: Vec<String> = hit.up.iter().map(|id| short_node(id)).collect();
            print_dim(out, INDENT, &format!("under {}", up.join(" › ")))?;
        }
    }
    Ok(())
}

/// The speaker and position of a message, or the name and turn of a tool call.
fn name_of(item: &FoundView) -> String {
    match item {
        FoundView::Message { idx, role, author, .. } => {
            format!("{} #{idx}", fit(author.as_deref().unwrap_or(role), MAX_NAME))
        }
        FoundView::Call { call, turn, .. } => format!("{} (turn {turn})", fit(call, MAX_NAME)),
        FoundView::Node { node, .. } => short_node(node),
    }
}

/// The start of a node's id, which is enough to name it.
fn short_node(id: &str) -> String {
    id.chars().take(11).collect()
}
