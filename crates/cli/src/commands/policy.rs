//! `treering policy`: shows the policy in force for a conversation and the origin of each parameter,
//! and sets its own parameters.

use treering_core::Assignment;

use super::CliError;
use super::output::{BOLD, DIM, Output, pad, paint};
use treering_server::service::Service;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering policy my-chat                 every parameter and its origin
  treering policy my-chat preset=turns
  treering policy my-chat window_chars=4000 length@2=0.2
  treering policy my-chat enabled=false   stop summarizing this conversation
  treering policy my-chat --reset

docs/config.md lists the parameters. A new policy does not change sealed windows; to apply it
to them, rebuild the tree with `treering update --full`.")]
pub(super) struct Args {
    /// Slug, key, id, or the first digits of an id
    conversation: String,
    /// Parameters for this conversation; they replace all earlier ones
    #[arg(value_name = "NAME=VALUE", value_parser = |text: &str| text.parse::<Assignment>())]
    parameters: Vec<Assignment>,
    /// Remove the parameters set for this conversation
    #[arg(long, conflicts_with = "parameters")]
    reset: bool,
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let engine = service.engine();
    let mut conversation = engine.find(&args.conversation)?;
    if args.reset || !args.parameters.is_empty() {
        conversation = engine.set_policy(conversation.id, args.parameters.clone())?;
    }
    let view = service.policy_of(&conversation)?;
    output.show(&view, |out| {
        writeln!(out, "{}", paint(BOLD, &view.slug))?;
        let name = view.in_force.iter().map(|it| it.name.len()).max().unwrap_or(0);
        let value = view.in_force.iter().map(|it| it.value.len()).max().unwrap_or(0);
        for it in &view.in_force {
            let origin = paint(DIM, &it.origin);
            writeln!(out, "  {} {} {origin}", pad(&it.name, name), pad(&it.value, value))?;
        }
        Ok(())
    })?;
    Ok(())
}
