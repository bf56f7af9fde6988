//! `treering create`: creates a conversation without turns.

use treering_core::Label;

use super::CliError;
use super::label::of_flags;
use super::output::{BOLD, Output, paint};
use treering_server::service::Service;
use treering_server::service::requests::CreateRequest;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering create --title \"Ports of staging\"
  treering create --key support:42 --project ~/code/tidewatch --label user=42")]
pub(super) struct Args {
    /// Your own key for the conversation; if it exists, it is printed instead
    #[arg(long, value_name = "ID")]
    key: Option<String>,
    #[command(flatten)]
    new: NewConversationArgs,
}

/// The properties of a new conversation.
#[derive(clap::Args)]
pub(super) struct NewConversationArgs {
    /// The title of a new conversation
    #[arg(long, value_name = "TEXT")]
    pub(super) title: Option<String>,
    /// The folder of a new conversation [default: the current folder]
    #[arg(long, value_name = "FOLDER")]
    cwd: Option<String>,
    /// The project of a new conversation
    #[arg(long, value_name = "FOLDER")]
    pub(super) project: Option<String>,
    /// Set a label of the conversation, such as user=42; can be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub(super) label: Vec<Label>,
}

impl NewConversationArgs {
    pub(super) fn cwd(&self) -> String {
        self.cwd.clone().unwrap_or_else(|| ".".into())
    }
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let request = CreateRequest {
        key: args.key.clone(),
        title: args.new.title.clone(),
        cwd: Some(args.new.cwd()),
        project_path: args.new.project.clone(),
        labels: of_flags(&args.new.label)?,
    };
    let view = service.create(&request)?;
    output.show(&view, |out| writeln!(out, "{} {}", paint(BOLD, &view.slug), view.id))?;
    Ok(())
}
