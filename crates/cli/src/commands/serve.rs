//! `treering serve`: runs the HTTP server until it is asked to stop.

use std::io::{self, IsTerminal as _, Write as _};
use std::net::SocketAddr;

use serde::Serialize;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::output::{BOLD, Output, paint};
use super::{CliError, Global};
use treering_server::http::Server;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering serve    listen on 127.0.0.1:7411, reachable from this machine only
  treering token create --name phone && treering serve --address 0.0.0.0:7411

GET / lists the operations, /openapi.json describes them, and /mcp serves MCP.

Ctrl-C or SIGTERM stops the server. It waits up to serve.stop_timeout_ms for running requests and
jobs and then releases the leases of unfinished jobs.")]
pub(super) struct Args {
    /// The address and port to listen on [default: the setting serve.address]
    #[arg(long, value_name = "ADDRESS")]
    address: Option<SocketAddr>,
    /// Print the OpenAPI document and exit
    #[arg(long)]
    openapi: bool,
}

#[derive(Serialize)]
struct View {
    address: String,
}

pub(super) fn run(args: &Args, global: &Global, output: &Output) -> Result<(), CliError> {
    if args.openapi {
        return Ok(writeln!(io::stdout(), "{}", treering_server::http::openapi())?);
    }
    let service = global.open()?;
    let address = match args.address {
        Some(address) => address,
        None => service.settings().serve.address.parse().map_err(|_| {
            CliError::Usage("serve.address: expected an address like 127.0.0.1:7411".into())
        })?,
    };
    let home = global.home()?;
    log_to_stderr(LevelFilter::INFO);
    run_async(async {
        let server = Server::bind(service, &home, address).await?;
        let view = View { address: format!("http://{}", server.address()?) };
        output.show(&view, |out| writeln!(out, "listening on {}", paint(BOLD, &view.address)))?;
        io::stdout().flush()?;
        server.run(shutdown_signal()).await;
        Ok(())
    })
}

/// Runs an async server to completion. Blocking calls that are still running, to a provider or on
/// standard input, are abandoned.
pub(super) fn run_async(edge: impl Future<Output = Result<(), CliError>>) -> Result<(), CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(edge);
    runtime.shutdown_background();
    ended
}

/// Logs to standard error: text on a terminal, JSON lines elsewhere.
pub(super) fn log_to_stderr(level: LevelFilter) {
    let targets = Targets::new().with_default(LevelFilter::WARN).with_target("treering", level);
    let registry = tracing_subscriber::registry().with(targets);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    // `try_init` fails if a subscriber is already installed, and then that one stays.
    drop(match io::stderr().is_terminal() {
        true => registry.with(lines.with_target(false)).try_init(),
        false => registry.with(lines.json().flatten_event(true)).try_init(),
    });
}

/// Completes when the process receives Ctrl-C or SIGTERM.
pub(super) async fn shutdown_signal() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        let terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
        if let Ok(mut terminate) = terminate {
            tokio::select! {
                _ = interrupt => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    drop(interrupt.await);
}
