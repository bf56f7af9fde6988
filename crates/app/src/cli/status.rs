//! `treering status`

use std::time::Duration;

use serde::Serialize;
use treering_core::gate::{GateStatus, Operation};
use treering_core::{ConversationId, ConversationState, JobState};
use treering_engine::Memory;

use super::Failure;
use super::output::{BAD, BOLD, DIM, GOOD, Output, count, paint};
use super::show::named_or_latest;
use super::spend::SpendView;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Slug, id, or the first digits of an id [default: the latest conversation]
    conversation: Option<String>,
    /// Does the work and waits for the gate, at most as long as `work.gate_timeout_ms` says
    #[arg(long)]
    wait: bool,
}

#[derive(Serialize)]
struct View {
    conversation: String,
    slug: String,
    open: bool,
    clear: bool,
    pending: Vec<OperationView>,
    failed: Vec<OperationView>,
    jobs_queued: u32,
    jobs_failed: u32,
    summarizer: String,
    /// The model whose vectors search goes by, and the one that is to follow.
    vectors: String,
    vectors_wanted: Option<String>,
    /// Nodes that a stand-in wrote and the model has to write yet.
    stand_ins: u32,
    spend: SpendView,
}

#[derive(Serialize)]
struct OperationView {
    kind: &'static str,
    hash: String,
    description: String,
    state: &'static str,
    since: String,
    age_ms: i64,
    error: Option<String>,
}

pub(super) fn run(args: &Args, memory: &Memory, output: &Output) -> Result<(), Failure> {
    let conversation = named_or_latest(args.conversation.as_deref(), memory)?;
    let gate = match args.wait {
        true => wait(memory, conversation.id)?,
        false => memory.gate(conversation.id)?,
    };
    let now = memory.clock().now();
    let view_of = |operation: &Operation| OperationView {
        kind: operation.kind,
        hash: operation.hash.to_string(),
        description: operation.description.clone(),
        state: operation.state,
        since: operation.since.to_string(),
        age_ms: (now.as_micros() - operation.since.as_micros()) / 1000,
        error: operation.error.clone(),
    };
    let jobs = memory.jobs(&treering_core::ports::JobFilter::of(conversation.id))?;
    let dead = jobs.iter().filter(|job| job.state == JobState::Dead).count();
    let view = View {
        conversation: conversation.id.to_string(),
        slug: conversation.slug.clone(),
        open: conversation.state == ConversationState::Open,
        clear: gate.is_clear(),
        pending: gate.pending.iter().map(view_of).collect(),
        failed: gate.failed.iter().map(view_of).collect(),
        jobs_queued: u32::try_from(jobs.len() - dead).unwrap_or(u32::MAX),
        jobs_failed: u32::try_from(dead).unwrap_or(u32::MAX),
        summarizer: memory.summarizer_name().to_owned(),
        vectors_wanted: memory.wants_reindexing()?.then(|| memory.embedder_name().to_owned()),
        vectors: memory.vector_index()?.model,
        stand_ins: memory.stand_ins(Some(conversation.id))?,
        spend: memory.spend(Some(conversation.id))?.into(),
    };
    output.show(&view, |out| {
        let mark = match (view.clear, view.jobs_failed) {
            (true, 0) => paint(GOOD, "✓"),
            (true, _) => paint(BAD, "✗"),
            (false, _) => paint(DIM, "…"),
        };
        writeln!(out, "{mark} {}", paint(BOLD, &view.slug))?;
        writeln!(out, "{}", gate.describe(now))?;
        let failed = match view.jobs_failed {
            0 => String::new(),
            failed => {
                format!(", {failed} failed: raw turns stand in; `treering jobs retry` tries them again")
            }
        };
        let queued = count(view.jobs_queued.into(), "job");
        writeln!(
            out,
            "{queued} waiting{failed}; summaries by {}, vectors by {}",
            view.summarizer, view.vectors
        )?;
        if let Some(wanted) = &view.vectors_wanted {
            writeln!(out, "vectors by {wanted} are wanted: `treering reindex` changes over")?;
        }
        if view.stand_ins > 0 {
            let nodes = count(view.stand_ins.into(), "node");
            writeln!(out, "{nodes} by a stand-in: `treering update` has {} write them", view.summarizer)?;
        }
        view.spend.print(out)
    })?;
    Ok(())
}

/// How the gate stands once it is clear, or once the timeout is over.
fn wait(memory: &Memory, id: ConversationId) -> Result<GateStatus, Failure> {
    let _worker = memory.work_in_background()?;
    let timeout = Duration::from_millis(memory.work().gate_timeout_ms);
    Ok(memory.wait(id, timeout)?.status)
}
