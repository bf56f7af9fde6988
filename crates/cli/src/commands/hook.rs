//! `treering hook`: captures what an agent's hook passes on standard input, and gives the agent a
//! context when a session starts. Never fails the agent, and never lets it wait for a write.

use std::io::{self, Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use treering_core::{Clock as _, Timestamp};
use treering_engine::SystemClock;

use super::output::Output;
use super::{CliError, Global};
use treering_server::agents::{
    CodingAgent, HookCapture, HookFailure, RecallRequest, RecallTrigger, Spool, capture,
    read_pauses, reply,
};

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  treering hook claude-code < hook-input.json

The hooks that `treering install` adds run this command and pass the conversation on standard input.
It always exits with 0. It writes what is new to the spool folder, and a second process in the
background stores it, so that the agent does not wait. While capture is paused, nothing is stored.
When a session starts, it prints a context of the project for the agent.")]
pub(super) struct Args {
    /// The agent that runs the hook
    #[arg(value_enum)]
    agent: CodingAgent,
    /// Store what is in the spool; the hook itself runs this in the background
    #[arg(long, hide = true)]
    store: bool,
}

/// Captures the hook's input. Always succeeds: a failed capture is only a note.
pub(super) fn run(args: &Args, global: &Global, output: &Output) -> Result<(), CliError> {
    let outcome = match args.store {
        true => store(global).map(|()| HookProgress::Done),
        false => hook(args.agent, global, output),
    };
    let failure = match outcome {
        // The process in the background reports how it ends.
        Ok(HookProgress::InBackground) => return Ok(()),
        Ok(HookProgress::Done) => None,
        Err(error) => {
            output.remark(&format!("treering did not capture this conversation: {error}"));
            Some(HookFailure { at: SystemClock.now(), error })
        }
    };
    if let Ok(home) = global.home() {
        HookFailure::record(&home, args.agent, failure.as_ref());
    }
    Ok(())
}

enum HookProgress {
    Done,
    InBackground,
}

fn hook(agent: CodingAgent, global: &Global, output: &Output) -> Result<HookProgress, String> {
    let mut input = String::new();
    let read = io::stdin().lock().read_to_string(&mut input);
    if let Some(reply) = reply(agent, &input) {
        // The agent waits for the reply, so it goes out before anything is stored.
        print(reply);
    }
    read.map_err(|error| error.to_string())?;
    if let Some(reply) = recall(agent, &input, global, output) {
        print(&reply);
    }
    let now = SystemClock.now();
    match capture(agent, &input, now)? {
        Some(captured) => keep(agent, &captured, now, global),
        None => Ok(HookProgress::Done),
    }
}

/// Writes a reply for the agent. An agent that does not read it misses nothing else.
fn print(reply: &str) {
    let mut out = io::stdout().lock();
    drop(writeln!(out, "{reply}").and_then(|()| out.flush()));
}

/// The reply that gives the agent a context, if the event triggers a recall. After a failure, or if
/// the store is slow, the agent gets none.
fn recall(agent: CodingAgent, input: &str, global: &Global, output: &Output) -> Option<String> {
    let request = RecallRequest::of(agent, input)?;
    let settings = global.load().ok()?.settings;
    if !settings.recall.is_on(matches!(request.trigger, RecallTrigger::Prompt(_))) {
        return None;
    }
    let timeout = Duration::from_millis(settings.recall.timeout_ms);
    let (done, waiting) = mpsc::channel();
    let (global, asked) = (global.clone(), request.clone());
    std::thread::spawn(move || {
        let text = global.open_with(settings).and_then(|service| Ok(service.recall(&asked)?));
        // The main thread may have stopped waiting.
        let _ = done.send(text.map_err(|error| error.to_string()));
    });
    match waiting.recv_timeout(timeout) {
        Ok(Ok(text)) => text.map(|text| request.reply(&text)),
        Ok(Err(error)) => {
            output.remark(&format!("treering did not recall anything: {error}"));
            None
        }
        Err(_) => None,
    }
}

/// Spools the capture, and stores it in the background.
fn keep(
    agent: CodingAgent,
    captured: &HookCapture,
    now: Timestamp,
    global: &Global,
) -> Result<HookProgress, String> {
    let home = global.home().map_err(|error| error.to_string())?;
    if read_pauses(&home)?.iter().any(|pause| pause.contains(now)) {
        return Ok(HookProgress::Done);
    }
    let spool = spool(global)?;
    spool.keep(captured, now).map_err(|error| format!("it cannot be spooled: {error}"))?;
    if spool.is_empty() {
        return Ok(HookProgress::Done);
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(global.repeated()).args(["hook", &agent.to_string(), "--store"]);
    for (key, value) in &global.settings {
        command.args(["--set", &format!("{key}={value}")]);
    }
    // An agent waits until its pipes close, and ends the process group of a slow hook.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    match command.spawn() {
        Ok(_) => Ok(HookProgress::InBackground),
        Err(error) => Err(format!("it is spooled, but cannot be stored now: {error}")),
    }
}

/// Stores what is in the spool, one process at a time.
fn store(global: &Global) -> Result<(), String> {
    let spool = spool(global)?;
    let _lock = spool.lock().map_err(|error| error.to_string())?;
    if spool.is_empty() {
        return Ok(());
    }
    // Opening the store replays the spool.
    let service = global.open().map_err(|error| error.to_string())?;
    let report = spool.replay(service.engine()).map_err(|error| error.to_string())?;
    report.refused.into_iter().next().map_or(Ok(()), Err)
}

fn spool(global: &Global) -> Result<Spool, String> {
    let loaded = global.load().map(|loaded| loaded.settings);
    global.spool(loaded.as_ref().ok()).map_err(|error| error.to_string())
}
