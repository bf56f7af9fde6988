//! `treering mcp`: runs the MCP server on standard input and output.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing_subscriber::filter::LevelFilter;

use super::{CliError, Global};
use treering_server::mcp::{self, McpServer};
use treering_server::service::{Grant, Service};

#[derive(clap::Args)]
#[command(after_help = "\
Speaks the Model Context Protocol on standard input and output; agents start it by themselves.
`treering install claude-code` (or cursor, codex, opencode, claude-desktop) tells them how.
It ends when the client hangs up, at Ctrl-C or SIGTERM, after the jobs at hand; jobs that take too long
(serve.stop_timeout_ms) are given back.")]
pub(super) struct Args {}

pub(super) fn run(_: &Args, global: &Global) -> Result<(), CliError> {
    super::serve::log_to_stderr(LevelFilter::WARN);
    let settings = global.load()?.settings;
    let memory = global.open()?;
    let worker = memory.spawn_worker()?;
    let patience = Duration::from_millis(settings.serve.stop_timeout_ms);
    let warmed = memory.clone();
    std::thread::spawn(move || warmed.prewarm());
    let server = McpServer::of(Grant::full_access(Service::new(memory, Arc::new(settings))));
    let ended = super::serve::run_async(async {
        tokio::select! {
            ended = mcp::serve_stdio(server) => ended.map_err(CliError::Usage),
            () = super::serve::shutdown_signal() => Ok(()),
        }
    });
    let jobs = worker.stop_with_deadline(Instant::now() + patience)?;
    if jobs > 0 {
        tracing::warn!(jobs, "jobs were still at hand; another worker takes them");
    }
    ended
}
