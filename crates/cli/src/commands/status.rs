//! `treering status`: shows the gate of a conversation, its jobs and its spending.

use std::time::Duration;

use treering_core::{ConversationId, GateStatus};
use treering_engine::Engine;

use super::CliError;
use super::output::{BAD, BOLD, DIM, GOOD, Output, count, paint};
use super::show::named_or_latest;
use super::spend;
use treering_server::views::StatusView;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Slug, id, or the first digits of an id [default: the latest conversation]
    conversation: Option<String>,
    /// Run the jobs and wait for the gate, at most `work.gate_timeout_ms`
    #[arg(long)]
    wait: bool,
}

pub(super) fn run(args: &Args, memory: &Engine, output: &Output) -> Result<(), CliError> {
    let conversation = named_or_latest(args.conversation.as_deref(), memory)?;
    let gate = match args.wait {
        true => wait(memory, conversation.id)?,
        false => memory.gate(conversation.id)?,
    };
    let view = StatusView::of(&conversation, &gate, memory)?;
    output.show(&view, |out| {
        let mark = match (view.clear, view.jobs_failed) {
            _ if view.writes_refused.is_some() => paint(BAD, "✗"),
            (true, 0) => paint(GOOD, "✓"),
            (true, _) => paint(BAD, "✗"),
            (false, _) => paint(DIM, "…"),
        };
        writeln!(out, "{mark} {}", paint(BOLD, &view.slug))?;
        writeln!(out, "{}", gate.describe(memory.clock().now()))?;
        let failed = match view.jobs_failed {
            0 => String::new(),
            failed => {
                format!(", {failed} failed (contexts use raw turns; run `treering jobs retry`)")
            }
        };
        let queued = count(view.jobs_queued.into(), "job");
        writeln!(
            out,
            "{queued} queued{failed}; summaries by {}, vectors by {}",
            view.summarizer, view.vectors
        )?;
        if let Some(wanted) = &view.vectors_wanted {
            writeln!(out, "{wanted} is configured: run `treering reindex` to switch to it")?;
        }
        if view.stand_ins > 0 {
            let nodes = count(view.stand_ins.into(), "node");
            writeln!(
                out,
                "{nodes} by the fallback: run `treering update` to rewrite them with {}",
                view.summarizer
            )?;
        }
        if let Some(why) = &view.writes_refused {
            writeln!(out, "{why}")?;
        }
        spend::print(out, &view.spend)
    })?;
    Ok(())
}

/// Runs a worker until the gate is clear or the timeout has passed.
fn wait(memory: &Engine, id: ConversationId) -> Result<GateStatus, CliError> {
    let _worker = memory.spawn_worker()?;
    let timeout = Duration::from_millis(memory.work().gate_timeout_ms);
    Ok(memory.wait(id, timeout)?.status)
}
