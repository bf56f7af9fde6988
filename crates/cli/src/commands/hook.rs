//! `treering hook`: captures what an agent's hook passes on standard input. Never fails the
//! agent.

use std::io::{self, Read as _, Write as _};

use treering_engine::{Error, SystemClock};

use super::output::Output;
use super::{CliError, Global};
use treering_server::agents::{CodingAgent, HookCapture, capture, reply, store};
use treering_server::service::ServiceError;

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  treering hook claude-code < hook-input.json

The hooks that `treering install` adds run this command and pass the conversation on standard input.
It always exits with 0, so that it never blocks the agent. If the store is unavailable, the capture
is kept in the spool folder and stored later.")]
pub(super) struct Args {
    /// The agent that runs the hook
    #[arg(value_enum)]
    agent: CodingAgent,
}

/// Captures the hook's input. Always succeeds: a failed capture is only a note.
pub(super) fn run(args: &Args, global: &Global, output: &Output) -> Result<(), CliError> {
    let mut input = String::new();
    let read = io::stdin().lock().read_to_string(&mut input);
    if let Some(reply) = reply(args.agent, &input) {
        // The agent waits for the reply, so it goes out before anything is stored.
        let mut out = io::stdout().lock();
        drop(writeln!(out, "{reply}").and_then(|()| out.flush()));
    }
    let captured = match read {
        Ok(_) => capture(args.agent, &input),
        Err(error) => Err(error.to_string()),
    };
    let kept = match captured {
        Ok(None) => Ok(()),
        Ok(Some(captured)) => keep(&captured, global),
        Err(error) => Err(error),
    };
    if let Err(error) = kept {
        output.note(&format!("treering did not capture this conversation: {error}"));
    }
    Ok(())
}

/// Stores the capture, or spools it if the store is unavailable.
fn keep(captured: &HookCapture, global: &Global) -> Result<(), String> {
    let loaded = global.load().map(|loaded| loaded.settings);
    let spool = global.spool(loaded.as_ref().ok()).map_err(|error| error.to_string())?;
    let open_error = match loaded.and_then(|settings| global.open_with(settings)) {
        Err(error) => error.to_string(),
        Ok(service) => match store(service.engine(), captured) {
            Ok(()) => return Ok(()),
            Err(ServiceError::Engine(error @ Error::Store(_))) => error.to_string(),
            Err(other) => return Err(other.to_string()),
        },
    };
    let spooled = spool.keep(captured, treering_core::Clock::now(&SystemClock));
    spooled.map_err(|error| format!("{open_error}; spooling failed too: {error}"))
}
