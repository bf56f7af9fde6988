//! `treering rename`, `close`, `archive` and `reopen`: change a conversation, never its messages.

use treering_core::{Conversation, ConversationState};
use treering_engine::Engine;

use super::CliError;
use super::output::{BOLD, Output, paint};
use super::work::catch_up;
use treering_server::views::ConversationView;

#[derive(clap::Args)]
pub(super) struct ConversationArg {
    /// Slug, id, or the first digits of an id
    conversation: String,
}

#[derive(clap::Args)]
pub(super) struct Rename {
    /// Slug, id, or the first digits of an id
    conversation: String,
    /// The new title; the slug is derived from it
    title: String,
}

pub(super) fn rename(args: &Rename, memory: &Engine, output: &Output) -> Result<(), CliError> {
    let found = memory.find(&args.conversation)?;
    let renamed = memory.rename(found.id, &args.title)?;
    say(&renamed, "was renamed from", &found.slug, output)
}

pub(super) fn set(
    args: &ConversationArg,
    state: ConversationState,
    memory: &Engine,
    output: &Output,
) -> Result<(), CliError> {
    let found = memory.find(&args.conversation)?;
    let changed = memory.set_state(found.id, state)?;
    catch_up(memory, Some(changed.id), output)?;
    say(&changed, "is now", state.as_str(), output)
}

fn say(conversation: &Conversation, is: &str, what: &str, output: &Output) -> Result<(), CliError> {
    let view = ConversationView::of(conversation, None);
    output.show(&view, |out| writeln!(out, "{} {is} {what}", paint(BOLD, &conversation.slug)))?;
    Ok(())
}
