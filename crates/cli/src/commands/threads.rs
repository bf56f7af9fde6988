//! `treering threads`: lists the threads of a conversation, or creates one.

use super::CliError;
use super::output::{BOLD, DIM, Output, paint};
use treering_server::service::Service;
use treering_server::service::requests::ForkRequest;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering threads my-chat
  treering threads my-chat --fork retry --at 12   branch off after message 12
  treering append my-chat --thread retry --user \"And with port 7410?\"")]
pub(super) struct Args {
    /// Slug, key, id, or the first digits of an id
    conversation: String,
    /// Create a thread with this name
    #[arg(long, value_name = "NAME")]
    fork: Option<String>,
    /// The thread that it branches off [default: main]
    #[arg(long, value_name = "NAME", requires = "fork")]
    parent: Option<String>,
    /// The last message that both threads share [default: the last one of the parent]
    #[arg(long, value_name = "MESSAGE", requires = "fork")]
    at: Option<u32>,
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let list = match &args.fork {
        None => service.threads(&args.conversation)?,
        Some(thread) => {
            let (thread, parent) = (thread.clone(), args.parent.clone());
            let request = ForkRequest { thread, parent, fork_at: args.at };
            service.fork(&args.conversation, &request)?
        }
    };
    output.show(&list, |out| {
        for thread in &list.threads {
            let from = match (&thread.parent, thread.fork_idx) {
                (Some(parent), Some(idx)) => format!("from {parent} after #{idx}"),
                (Some(parent), None) => format!("from the start of {parent}"),
                (None, _) => String::new(),
            };
            writeln!(out, "{} {}", paint(BOLD, &thread.name), paint(DIM, from))?;
        }
        Ok(())
    })?;
    Ok(())
}
