//! `treering policy`: shows and sets the policy parameters of one conversation.

use serde::Serialize;
use treering_core::Assignment;

use super::CliError;
use super::output::{BOLD, Output, paint, print_dim};
use treering_server::service::Service;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering policy my-chat preset=turns
  treering policy my-chat window_chars=4000 length@2=0.2
  treering policy my-chat --reset

docs/config.md lists the parameters. A new policy does not change sealed windows; to apply it
to them, rebuild the tree with `treering update --full`.")]
pub(super) struct Args {
    /// Slug, id, or the first digits of an id
    conversation: String,
    /// Parameters for this conversation; they replace all earlier ones
    #[arg(value_name = "NAME=VALUE", value_parser = |text: &str| text.parse::<Assignment>())]
    parameters: Vec<Assignment>,
    /// Remove the parameters set for this conversation
    #[arg(long, conflicts_with = "parameters")]
    reset: bool,
}

#[derive(Serialize)]
struct View {
    conversation: String,
    slug: String,
    parameters: Vec<String>,
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let engine = service.engine();
    let mut conversation = engine.find(&args.conversation)?;
    if args.reset || !args.parameters.is_empty() {
        conversation = engine.set_policy(conversation.id, args.parameters.clone())?;
    }
    let view = View {
        conversation: conversation.id.to_string(),
        slug: conversation.slug,
        parameters: conversation.policy.iter().map(ToString::to_string).collect(),
    };
    output.show(&view, |out| {
        writeln!(out, "{}", paint(BOLD, &view.slug))?;
        if view.parameters.is_empty() {
            return print_dim(out, "", "no parameters set; the settings apply");
        }
        view.parameters.iter().try_for_each(|parameter| writeln!(out, "  {parameter}"))
    })?;
    Ok(())
}
