//! `treering verify`: checks that stored and derived data are consistent. Never changes a
//! message.

use serde::Serialize;
use treering_engine::{Engine, JobScope, RepairReport};

use super::output::{BAD, GOOD, Output, WARNING, count, paint};
use super::{CliError, work};
use treering_server::service::Service;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering verify
  treering verify --repair")]
pub(super) struct Args {
    /// Rebuild inconsistent derived data: counts, trees, jobs, vectors. Messages and tool calls
    /// are never changed
    #[arg(long)]
    repair: bool,
}

#[derive(Serialize)]
struct View {
    clean: bool,
    conversations: u32,
    messages: u64,
    tool_calls: u64,
    nodes: u64,
    /// Conversations whose trees were rebuilt.
    repaired: Vec<String>,
    /// Conversations whose missing vectors were computed.
    repaired_vectors: Vec<String>,
    /// Parts of the store that were rebuilt.
    repaired_store: Vec<String>,
    problems: Vec<ProblemView>,
    /// Harmless leftovers.
    leftovers: Vec<String>,
    /// Nodes that are stale because a message was edited.
    stale: Vec<String>,
    /// Warnings about data that may be missing.
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct ProblemView {
    conversation: Option<String>,
    description: String,
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let engine = service.engine();
    let repaired = match args.repair {
        true => repair(engine, output)?,
        false => RepairReport::default(),
    };
    let total = engine.stats().map_or(0, |stats| u64::from(stats.totals.messages));
    let bar = output.progress(total, "verifying");
    let report = engine.verify(|messages| bar.set_position(messages))?;
    bar.finish_and_clear();
    let clean = report.is_clean();
    let view = View {
        clean,
        conversations: report.conversations,
        messages: report.messages,
        tool_calls: report.tool_calls,
        nodes: report.nodes,
        repaired: repaired.trees,
        repaired_vectors: repaired.vectors,
        repaired_store: repaired.store,
        stale: report.stale.iter().map(ToString::to_string).collect(),
        leftovers: report.leftovers.iter().map(|leftover| leftover.description.clone()).collect(),
        problems: report
            .problems
            .into_iter()
            .map(|problem| ProblemView {
                conversation: problem.conversation,
                description: problem.description,
            })
            .collect(),
        warnings: report.warnings,
    };
    output.show(&view, |out| {
        let read = format!(
            "{}, {}, {}, {}",
            count(view.conversations.into(), "conversation"),
            count(view.messages, "message"),
            count(view.tool_calls, "tool call"),
            count(view.nodes, "node")
        );
        for repaired in &view.repaired_store {
            writeln!(out, "{} {repaired}", paint(GOOD, "✓"))?;
        }
        for slug in &view.repaired {
            writeln!(out, "{} {slug}: rebuilt the tree", paint(GOOD, "✓"))?;
        }
        for slug in &view.repaired_vectors {
            writeln!(out, "{} {slug}: computed the missing vectors", paint(GOOD, "✓"))?;
        }
        for leftover in &view.leftovers {
            writeln!(out, "  {leftover} (harmless; remove with --repair)")?;
        }
        for stale in &view.stale {
            writeln!(out, "  {stale}; regenerate it with `treering update`")?;
        }
        for warning in &view.warnings {
            writeln!(out, "{} store: {warning}", paint(WARNING, "!"))?;
        }
        if clean {
            return writeln!(out, "{} {read}: no problems found", paint(GOOD, "✓"));
        }
        for problem in &view.problems {
            let location = problem.conversation.as_deref().unwrap_or("store");
            writeln!(out, "{} {location}: {}", paint(BAD, "✗"), problem.description)?;
        }
        writeln!(out, "{}: {}", read, count(view.problems.len() as u64, "problem"))
    })?;
    if clean { Ok(()) } else { Err(CliError::Reported) }
}

/// Rebuilds inconsistent derived data and runs the jobs this creates.
fn repair(engine: &Engine, output: &Output) -> Result<RepairReport, CliError> {
    let repaired = engine.repair()?;
    if !repaired.trees.is_empty() || !repaired.vectors.is_empty() {
        work::run_all(engine, &JobScope::default(), output)?;
    }
    Ok(repaired)
}
