//! `treering label`: sets, removes and lists the labels of a conversation.

use std::collections::BTreeMap;

use treering_core::{Label, Labels};

use super::CliError;
use super::output::{BOLD, DIM, Output, paint};
use treering_server::service::Service;
use treering_server::service::requests::ChangeRequest;
use treering_server::views::ConversationView;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering label tidewatch user=42 team=harbor
  treering label tidewatch --remove team
  treering label tidewatch            list the labels
  treering sessions --label user=42   list the conversations with a label")]
pub(super) struct Args {
    /// Slug, key, id, or the first digits of an id
    conversation: String,
    /// Labels to set
    #[arg(value_name = "NAME=VALUE")]
    labels: Vec<Label>,
    /// Remove the label with this name; can be repeated
    #[arg(long, value_name = "NAME")]
    remove: Vec<String>,
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let before = service.engine().find(&args.conversation)?;
    let missing = args.remove.iter().find(|name| before.labels.get(name).is_none());
    if let Some(name) = missing {
        let message = format!("{} has no label {name:?}", before.slug);
        return Err(CliError::Usage(message));
    }
    let set = of_flags(&args.labels)?;
    let set = set.iter().map(|(name, value)| (name.to_owned(), Some(value.to_owned())));
    let removed = args.remove.iter().map(|name| (name.clone(), None));
    let labels: BTreeMap<_, _> = removed.chain(set).collect();
    let view = match labels.is_empty() {
        true => ConversationView::of(&before, None),
        false => {
            service.change(&args.conversation, &ChangeRequest { labels, ..Default::default() })?
        }
    };
    output.show(&view, |out| {
        let labels = match view.labels.is_empty() {
            true => "no labels".to_owned(),
            false => view.labels.to_string(),
        };
        writeln!(out, "{} {}", paint(BOLD, &view.slug), paint(DIM, labels))
    })?;
    Ok(())
}

/// The labels of repeated flags. Refuses a name that occurs twice.
pub(super) fn of_flags(labels: &[Label]) -> Result<Labels, CliError> {
    let texts: Vec<String> = labels.iter().map(ToString::to_string).collect();
    Ok(Labels::parse(texts.iter().map(String::as_str))?)
}
