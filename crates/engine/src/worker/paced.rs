//! Runs the jobs of an update at its own pace, and logs its end.

use std::time::{Duration, Instant};

use treering_core::ports::JobFilter;
use treering_core::{ConversationKey, Job, JobEvent, JobEventKind, JobKind, JobState, Write};

use super::{JobOutcome, Worker};
use crate::engine::Engine;
use crate::error::Result;
use crate::pacing::FinishedUpdate;

impl Worker {
    /// Runs jobs. If an update of their conversation is running in this process, keeps to its pace
    /// and returns the pause after them.
    pub(super) fn run_paced(
        &self,
        engine: &Engine,
        jobs: &[Job],
    ) -> Result<(Vec<JobOutcome>, Duration)> {
        let [Job { kind: JobKind::Summarize(task), conversation, .. }] = jobs else {
            let outcomes = self.run_jobs(engine, jobs)?;
            end_updates_of(engine, jobs)?;
            return Ok((outcomes, Duration::ZERO));
        };
        let (key, updates) = (engine.key(*conversation), engine.running_updates());
        let Some(pause) = updates.enter(&key) else {
            let outcomes = self.run_jobs(engine, jobs)?;
            // An update may have begun while the job ran.
            end_updates_of(engine, jobs)?;
            return Ok((outcomes, Duration::ZERO));
        };
        let started = Instant::now();
        let outcomes = self.run_jobs(engine, jobs);
        let is_done = matches!(outcomes.as_deref(), Ok([JobOutcome::Done]));
        let has_failed = matches!(outcomes.as_deref(), Err(_) | Ok([JobOutcome::Failed(_)]));
        let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let level = task.level.number();
        updates.leave(&key, is_done.then_some((level, ms)), has_failed);
        let outcomes = outcomes?;
        engine.end_finished_update(&key)?;
        Ok((outcomes, pause))
    }
}

/// Logs the end of the updates whose last jobs these were.
fn end_updates_of(engine: &Engine, jobs: &[Job]) -> Result<()> {
    jobs.iter().try_for_each(|job| engine.end_finished_update(&engine.key(job.conversation)))
}

impl Engine {
    /// Logs the end of an update if all jobs of its conversation are finished or given up.
    pub(crate) fn end_finished_update(&self, key: &ConversationKey) -> Result<()> {
        if !self.running_updates().contains(key) {
            return Ok(());
        }
        let jobs = self.jobs(&JobFilter::of(key.id))?;
        if jobs.iter().any(|job| job.state != JobState::Dead) {
            return Ok(());
        }
        let Some(update) = self.running_updates().end(key) else { return Ok(()) };
        let queue = self.tree_stats(None)?.queued;
        let dirty = self.tree_stats(Some(key.id))?.dirty_ratio();
        let event = JobEvent {
            at: self.clock().now(),
            conversation: Some(key.id),
            job: update.id,
            kind: JobEventKind::Updated,
            text: describe(&update, queue, dirty),
            took_ms: Some(u64::try_from(update.elapsed.as_millis()).unwrap_or(u64::MAX)),
        };
        self.commit_with(self.scope_of(key.id), move |_| {
            Ok((vec![Write::AddJobEvent(event.clone())], ()))
        })
    }
}

fn describe(update: &FinishedUpdate, queue: u32, dirty: f64) -> String {
    let levels = update.written.iter().enumerate().filter(|(_, (nodes, _))| *nodes > 0);
    let levels: Vec<String> = levels
        .map(|(index, (nodes, ms))| {
            format!("{nodes} at level {} ({} ms each)", index + 1, ms / u64::from(*nodes))
        })
        .collect();
    let written = if levels.is_empty() { "none".to_owned() } else { levels.join(", ") };
    format!(
        "update ended: nodes written: {written}; {} failed, queue depth {queue}, dirty ratio \
         {dirty:.2}",
        update.failed
    )
}
