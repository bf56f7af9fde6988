//! `treering mcp`

use std::sync::Arc;

use rmcp::ServiceExt as _;
use tracing_subscriber::filter::LevelFilter;

use super::{Failure, Global};
use crate::mcp::McpServer;
use crate::service::{Grant, Service};

#[derive(clap::Args)]
#[command(after_help = "\
Speaks the Model Context Protocol on standard input and output; agents start it by themselves.
`treering install claude-code` (or cursor, codex, opencode, claude-desktop) tells them how.")]
pub(super) struct Args {}

pub(super) fn run(_: &Args, global: &Global) -> Result<(), Failure> {
    super::serve::log_to_stderr(LevelFilter::WARN);
    let settings = global.load()?.settings;
    let memory = global.open()?;
    // Held until the client is gone: jobs at hand are finished then.
    let _worker = memory.work_in_background()?;
    let warmed = memory.clone();
    std::thread::spawn(move || warmed.warm_up());
    let server = McpServer::of(Grant::of_everything(Service::new(memory, Arc::new(settings))));
    super::serve::runtime()?.block_on(async {
        let running = server.serve(rmcp::transport::stdio()).await;
        let running =
            running.map_err(|error| Failure::Usage(format!("the client does not speak MCP: {error}")))?;
        tokio::select! {
            ended = running.waiting() => {
                ended.map(drop).map_err(|error| Failure::Usage(format!("the service broke off: {error}")))
            }
            () = super::serve::told_to_stop() => Ok(()),
        }
    })
}
