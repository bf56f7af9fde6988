//! `treering work`: runs background jobs in the foreground.

use std::time::{Duration, Instant};

use serde::Serialize;
use treering_core::ports::JobFilter;
use treering_core::{ConversationId, JobState};
use treering_engine::{Engine, JobOutcome, JobScope, WorkStats, Worker};

use super::CliError;
use super::output::{Output, count};
use treering_server::service::{RetentionTenants, Service};

/// The interval between checks for a changed embedder.
const CHANGE_EVERY: Duration = Duration::from_secs(30);

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering work              run the jobs that are due
  treering work --watch      keep running")]
pub(super) struct Args {
    /// Run only the jobs of this conversation
    conversation: Option<String>,
    /// Keep waiting for new jobs until interrupted
    #[arg(long)]
    watch: bool,
}

#[derive(Serialize)]
struct View {
    done: u32,
    failed: u32,
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let engine = service.engine();
    let conversation = args.conversation.as_deref().map(|it| engine.find(it)).transpose()?;
    let scope = JobScope { conversation: conversation.map(|it| it.id), ..JobScope::default() };
    let report = run_all(engine, &scope, output)?;
    if args.watch {
        let _retention = service.spawn_retention(RetentionTenants::Own);
        let mut next_change = Instant::now();
        loop {
            std::thread::sleep(Duration::from_millis(500));
            run_all(engine, &scope, output)?;
            if scope.conversation.is_none() && Instant::now() >= next_change {
                if let Err(error) = change_over(engine) {
                    output.remark(&format!(
                        "cannot switch to the vectors of {} yet: {error}",
                        engine.embedder_name()
                    ));
                }
                next_change = Instant::now() + CHANGE_EVERY;
            }
        }
    }
    let view = View { done: report.done, failed: report.failed };
    output.show(&view, |out| match (view.done, view.failed) {
        (0, 0) => writeln!(out, "nothing to do"),
        (done, 0) => writeln!(out, "{} done", count(done.into(), "job")),
        (done, failed) => {
            writeln!(
                out,
                "{} done, {failed} failed; run `treering jobs` to see why",
                count(done.into(), "job")
            )
        }
    })?;
    Ok(())
}

/// Reindexes if search still uses the vectors of another embedder.
fn change_over(engine: &Engine) -> treering_engine::Result<()> {
    if engine.needs_reindex()? {
        engine.reindex(&mut |_| ())?;
    }
    Ok(())
}

/// Runs every job that is due, with a progress bar.
pub(super) fn run_all(
    engine: &Engine,
    scope: &JobScope,
    output: &Output,
) -> Result<WorkStats, CliError> {
    let filter = JobFilter { conversation: scope.conversation, ..JobFilter::all(usize::MAX) };
    let waiting = engine.jobs(&filter)?.iter().filter(|job| job.state != JobState::Dead).count();
    if waiting == 0 {
        return Ok(WorkStats::default());
    }
    let bar = output.progress(waiting as u64, "summarizing");
    let worker = Worker::new(engine.clone())?;
    let report = worker.run(scope, &|_, outcome| {
        if *outcome == JobOutcome::Done {
            bar.inc(1);
        }
    })?;
    bar.finish_and_clear();
    Ok(report)
}

/// Runs the jobs that are due in a conversation if no remote provider is involved, because then
/// they take only moments.
pub(super) fn catch_up(
    engine: &Engine,
    id: Option<ConversationId>,
    output: &Output,
) -> Result<(), CliError> {
    if engine.is_local() {
        run_all(engine, &JobScope { conversation: id, ..JobScope::default() }, output)?;
    }
    Ok(())
}
