//! `treering mcp`: runs the MCP server on standard input and output.

use std::time::{Duration, Instant};

use tracing_subscriber::filter::LevelFilter;

use super::{CliError, Global};
use treering_server::mcp::{self, McpServer};
use treering_server::service::{Grant, RetentionTenants};

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  claude mcp add treering -- treering mcp

You rarely run this command yourself: agents start it. To configure an agent, run
`treering install`.

The server stops when the client disconnects, or on Ctrl-C or SIGTERM. It waits up to
serve.stop_timeout_ms for running jobs and then releases their leases.")]
pub(super) struct Args {}

pub(super) fn run(_: &Args, global: &Global) -> Result<(), CliError> {
    super::serve::log_to_stderr(LevelFilter::WARN);
    let service = global.open()?;
    let worker = service.engine().spawn_worker()?;
    let _retention = service.spawn_retention(RetentionTenants::Own);
    let stop_timeout = Duration::from_millis(service.settings().serve.stop_timeout_ms);
    let warmed = service.engine().clone();
    std::thread::spawn(move || warmed.prewarm());
    // Claude Code sets it for the servers that it starts.
    let session = std::env::var("CLAUDE_CODE_SESSION_ID").ok().filter(|id| !id.is_empty());
    let session = session.map(|id| mcp::claude_code_session(&id));
    let server = McpServer::of(Grant::full_access(service)).asked_by(session);
    let ended = super::serve::run_async(async {
        tokio::select! {
            ended = mcp::serve_stdio(server) => ended.map_err(CliError::Usage),
            () = super::serve::shutdown_signal() => Ok(()),
        }
    });
    let jobs = worker.stop_with_deadline(Instant::now() + stop_timeout)?;
    if jobs > 0 {
        tracing::warn!(jobs, "released jobs that were still running; another worker takes them");
    }
    ended
}
