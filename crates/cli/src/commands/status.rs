//! `treering status`: shows the gate of a conversation, its jobs and its spending.

use std::time::Duration;

use treering_core::{ConversationId, GateStatus};
use treering_engine::Engine;

use super::output::{BAD, BOLD, DIM, GOOD, Output, count, paint, print_text};
use super::{CliError, spend};
use treering_server::service::Service;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering status              the latest conversation
  treering status tidewatch --wait")]
pub(super) struct Args {
    /// Slug, id, or the first digits of an id [default: the latest conversation]
    conversation: Option<String>,
    /// Run the jobs and wait for the gate, at most `work.gate_timeout_ms`
    #[arg(long)]
    wait: bool,
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let engine = service.engine();
    let conversation = service.named_or_latest(args.conversation.as_deref())?;
    let gate = match args.wait {
        true => wait(engine, conversation.id)?,
        false => engine.gate(conversation.id)?,
    };
    let view = service.status_of(&conversation, &gate)?;
    output.show(&view, |out| {
        let sign = match (view.clear, view.jobs_failed) {
            _ if view.writes_refused.is_some() => paint(BAD, "✗"),
            (true, 0) => paint(GOOD, "✓"),
            (true, _) => paint(BAD, "✗"),
            (false, _) => paint(DIM, "…"),
        };
        writeln!(out, "{sign} {}", paint(BOLD, &view.slug))?;
        print_text(out, "", &gate.describe(engine.clock().now()))?;
        let failed = match view.jobs_failed {
            0 => String::new(),
            failed => {
                format!(", {failed} failed (contexts use raw turns; run `treering jobs retry`)")
            }
        };
        let queued = count(view.jobs_queued.into(), "job");
        let models = format!("summaries by {}, vectors by {}", view.summarizer, view.vectors);
        print_text(out, "", &format!("{queued} queued{failed}; {models}"))?;
        if let Some(configured) = &view.vectors_configured {
            let hint =
                format!("{configured} is configured: run `treering reindex` to switch to it");
            print_text(out, "", &hint)?;
        }
        if view.fallback_nodes > 0 {
            let nodes = count(view.fallback_nodes.into(), "node");
            let hint = "run `treering update` to rewrite them with";
            print_text(out, "", &format!("{nodes} by the fallback: {hint} {}", view.summarizer))?;
        }
        if let Some(reason) = &view.writes_refused {
            print_text(out, "", reason)?;
        }
        spend::print(out, &view.spend)
    })?;
    Ok(())
}

/// Runs a worker until the gate is clear or the timeout has passed.
fn wait(engine: &Engine, id: ConversationId) -> Result<GateStatus, CliError> {
    let _worker = engine.spawn_worker()?;
    let timeout = Duration::from_millis(engine.work().gate_timeout_ms);
    Ok(engine.wait(id, timeout)?.status)
}
