//! `treering sessions`: lists conversations.

use std::io::{self, Write};

use treering_core::ConversationState;
use treering_core::ports::ConversationFilter;
use treering_engine::{Engine, ListedConversation, normalize_cwd};

use super::CliError;
use super::output::{BOLD, DIM, Output, count, fit, pad, paint, width};
use treering_server::views::ConversationView;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Show only conversations in this folder [default with no value: the current folder]
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, default_missing_value = ".")]
    cwd: Option<String>,
    /// Include archived conversations
    #[arg(long)]
    all: bool,
    /// Maximum number of conversations
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 20)]
    limit: usize,
}

pub(super) fn run(args: &Args, memory: &Engine, output: &Output) -> Result<(), CliError> {
    let states = match args.all {
        true => Vec::new(),
        false => vec![ConversationState::Open, ConversationState::Closed],
    };
    let cwd = args.cwd.as_deref().map(normalize_cwd);
    // One extra row shows whether there are more.
    let filter =
        ConversationFilter { cwd, states, after: None, limit: args.limit.saturating_add(1) };
    let mut sessions = memory.listed_conversations(&filter)?;
    let more = sessions.len() > args.limit;
    sessions.truncate(args.limit);
    let views: Vec<ConversationView> = sessions
        .iter()
        .map(|s| ConversationView::of(&s.conversation, s.last_message.as_ref()))
        .collect();
    output.show(&views, |out| {
        if sessions.is_empty() {
            return nothing(out, filter.cwd.as_deref());
        }
        table(out, &sessions)?;
        if more {
            let hint = format!("Show more with --limit {}.", args.limit * 5);
            writeln!(out, "{}", paint(DIM, hint))?;
        }
        Ok(())
    })?;
    Ok(())
}

fn nothing(out: &mut dyn Write, cwd: Option<&str>) -> io::Result<()> {
    match cwd {
        Some(cwd) => writeln!(out, "No conversations in {cwd}."),
        None => writeln!(out, "No conversations yet. Import transcripts with `treering import`."),
    }
}

/// Prints one line per conversation: slug, number of turns, last activity, last message.
pub(super) fn table(out: &mut dyn Write, sessions: &[ListedConversation]) -> io::Result<()> {
    let names = sessions.iter().map(|session| session.conversation.slug.chars().count());
    let name = names.max().unwrap_or(0).clamp(8, 34);
    for session in sessions {
        let it = &session.conversation;
        let slug = pad(&fit(&it.slug, name), name);
        let turns = format!("{:>12}", count(u64::from(it.totals.turns), "turn"));
        let when = it.last_activity.to_minute();
        let state = match it.state {
            ConversationState::Open => String::new(),
            other => format!("[{other}] "),
        };
        let room = width().saturating_sub(name + 12 + 16 + 8 + 8 + state.len()).max(12);
        let last = session.last_message.as_ref().map(|message| fit(&message.body.text, room));
        let id = it.id.short();
        let tail = format!("{id}  {state}{}", last.unwrap_or_default());
        writeln!(out, "{}  {turns}  {when}  {}", paint(BOLD, slug), paint(DIM, tail.trim_end()))?;
    }
    Ok(())
}
