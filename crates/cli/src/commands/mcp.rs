//! `treering mcp`

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing_subscriber::filter::LevelFilter;

use super::{Failure, Global};
use treering_server::mcp::{self, McpServer};
use treering_server::service::{Grant, Service};

#[derive(clap::Args)]
#[command(after_help = "\
Speaks the Model Context Protocol on standard input and output; agents start it by themselves.
`treering install claude-code` (or cursor, codex, opencode, claude-desktop) tells them how.
It ends when the client hangs up, at Ctrl-C or SIGTERM, after the jobs at hand; jobs that take too long
(serve.stop_timeout_ms) are given back.")]
pub(super) struct Args {}

pub(super) fn run(_: &Args, global: &Global) -> Result<(), Failure> {
    super::serve::log_to_stderr(LevelFilter::WARN);
    let settings = global.load()?.settings;
    let memory = global.open()?;
    let worker = memory.work_in_background()?;
    let patience = Duration::from_millis(settings.serve.stop_timeout_ms);
    let warmed = memory.clone();
    std::thread::spawn(move || warmed.warm_up());
    let server = McpServer::of(Grant::of_everything(Service::new(memory, Arc::new(settings))));
    let ended = super::serve::run_to_the_end(async {
        tokio::select! {
            ended = mcp::speak(server) => ended.map_err(Failure::Usage),
            () = super::serve::told_to_stop() => Ok(()),
        }
    });
    let jobs = worker.stop_by(Instant::now() + patience)?;
    if jobs > 0 {
        tracing::warn!(jobs, "jobs were still at hand; another worker takes them");
    }
    ended
}
