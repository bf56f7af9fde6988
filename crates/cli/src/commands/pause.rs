//! `treering pause` and `treering resume`: stop capturing what agents say, and go on.

use std::path::Path;

use serde::Serialize;
use treering_core::{Clock as _, Pause, Timestamp, parse_duration_ms};
use treering_engine::SystemClock;
use treering_server::agents;

use super::output::Output;
use super::{CliError, Global};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering pause
  treering pause --for 1h

What agents say during a pause is not captured, and neither a hook nor `treering import` brings it in
later. `treering append` and requests of programs are stored as usual.")]
pub(super) struct Args {
    /// How long, such as 30min, 1h or 2d [default: until `treering resume`]
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    duration_ms: Option<u64>,
}

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  treering resume")]
pub(super) struct ResumeArgs {}

/// Whether capture is paused.
#[derive(Serialize)]
struct View {
    paused: bool,
    /// The end of the pause, if it has one.
    until: Option<String>,
}

fn duration(text: &str) -> Result<u64, String> {
    let parsed = parse_duration_ms(text).ok().flatten().filter(|ms| *ms > 0);
    parsed.ok_or_else(|| "expected a duration such as 30min, 1h or 2d".to_owned())
}

pub(super) fn run(args: &Args, global: &Global, output: &Output) -> Result<(), CliError> {
    let now = SystemClock.now();
    let micros = |ms: u64| i64::try_from(ms.saturating_mul(1000)).unwrap_or(i64::MAX / 2);
    let until = args.duration_ms.map(|ms| now.plus_micros(micros(ms)));
    agents::pause(&global.home()?, now, until)
        .map_err(|error| CliError::Usage(error.to_string()))?;
    let view = View { paused: true, until: until.map(|until| until.to_string()) };
    Ok(output.show(&view, |out| writeln!(out, "{}", describe(until)))?)
}

pub(super) fn resume(_: &ResumeArgs, global: &Global, output: &Output) -> Result<(), CliError> {
    let was_paused = agents::resume(&global.home()?, SystemClock.now())
        .map_err(|error| CliError::Usage(error.to_string()))?;
    let view = View { paused: false, until: None };
    let text = if was_paused { "capture goes on" } else { "capture was not paused" };
    Ok(output.show(&view, |out| writeln!(out, "{text}"))?)
}

/// All pauses so far.
pub(super) fn pauses(home: &Path) -> Result<Vec<Pause>, CliError> {
    agents::read_pauses(home).map_err(CliError::Usage)
}

/// A note about the running pause; `None` if there is none.
pub(super) fn running(home: &Path) -> Result<Option<String>, CliError> {
    let now = SystemClock.now();
    let running = pauses(home)?.into_iter().find(|pause| pause.contains(now));
    Ok(running.map(|pause| describe(pause.until)))
}

fn describe(until: Option<Timestamp>) -> String {
    match until {
        Some(until) => format!("capture is paused until {}", super::local_time::local(until)),
        None => "capture is paused until `treering resume`".to_owned(),
    }
}
