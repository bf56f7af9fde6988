//! `treering create`: creates a conversation without turns.

use super::CliError;
use super::output::{BOLD, Output, paint};
use treering_server::service::Service;
use treering_server::service::requests::CreateRequest;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering create --title \"Ports of staging\"
  treering create --key support:42 --project ~/code/tidewatch")]
pub(super) struct Args {
    /// Your own key for the conversation; if it exists, it is printed instead
    #[arg(long, value_name = "ID")]
    key: Option<String>,
    /// The title
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The folder of the conversation [default: the current folder]
    #[arg(long, value_name = "FOLDER")]
    cwd: Option<String>,
    /// The project that the folder belongs to
    #[arg(long, value_name = "FOLDER")]
    project: Option<String>,
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let request = CreateRequest {
        key: args.key.clone(),
        title: args.title.clone(),
        cwd: Some(args.cwd.clone().unwrap_or_else(|| ".".into())),
        project_path: args.project.clone(),
    };
    let view = service.create(&request)?;
    output.show(&view, |out| writeln!(out, "{} {}", paint(BOLD, &view.slug), view.id))?;
    Ok(())
}
