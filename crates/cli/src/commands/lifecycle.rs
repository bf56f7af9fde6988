//! `treering rename`, `close`, `archive` and `reopen`: change a conversation, never its messages.

use treering_core::ConversationState;

use super::CliError;
use super::output::{BOLD, Output, paint};
use super::work::catch_up;
use treering_server::service::Service;
use treering_server::service::requests::ChangeRequest;
use treering_server::views::ConversationView;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering close tidewatch
  treering archive tidewatch && treering sessions --all
  treering reopen tidewatch")]
pub(super) struct ConversationArg {
    /// Slug, key, id, or the first digits of an id
    conversation: String,
}

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  treering rename which-port-does-staging-use \"Ports of staging\"")]
pub(super) struct Rename {
    /// Slug, key, id, or the first digits of an id
    conversation: String,
    /// The new title; the slug is derived from it
    title: String,
}

pub(super) fn rename(args: &Rename, service: &Service, output: &Output) -> Result<(), CliError> {
    let before = service.engine().find(&args.conversation)?;
    let request = ChangeRequest { title: Some(args.title.clone()), ..Default::default() };
    let renamed = service.change(&args.conversation, &request)?;
    show(&renamed, &format!("was renamed from {}", before.slug), output)
}

pub(super) fn set(
    args: &ConversationArg,
    state: ConversationState,
    service: &Service,
    output: &Output,
) -> Result<(), CliError> {
    let request = ChangeRequest { state: Some(state.into()), ..Default::default() };
    let changed = service.change(&args.conversation, &request)?;
    catch_up(service.engine(), changed.id.parse().ok(), output)?;
    show(&changed, &format!("is now {state}"), output)
}

fn show(view: &ConversationView, change: &str, output: &Output) -> Result<(), CliError> {
    output.show(view, |out| writeln!(out, "{} {change}", paint(BOLD, &view.slug)))?;
    Ok(())
}
