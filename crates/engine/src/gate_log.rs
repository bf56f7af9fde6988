//! The gate in the job log. The events of a commit get the number of critical jobs that the
//! conversation then has, so that the log alone tells what the next context waits for.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use treering_core::ports::{JobFilter, StoreResult};
use treering_core::{
    ConversationId, Job, JobEvent, JobEventKind, JobId, JobState, Level, Reader, Timestamp, Write,
};

/// Maximum number of critical jobs that are counted exactly.
const MAX_COUNTED: usize = 100;

/// Completes the job events of a commit. A critical job that is planned gets the number of jobs
/// pending; one that ends gets its duration and the number remaining. The commit that ends the
/// last one gets an event of its own. A job that exists already is not announced again.
pub(crate) fn with_gate_events(
    reader: &dyn Reader,
    now: Timestamp,
    writes: Vec<Write>,
) -> StoreResult<Vec<Write>> {
    let mut log = GateLog { reader, gates: BTreeMap::new(), changes: HashMap::new() };
    let mut completed = Vec::with_capacity(writes.len() + 1);
    for mut write in writes {
        if log.follow(&mut write)? {
            completed.push(write);
        }
    }
    for (id, gate) in log.gates {
        let Some((job, at)) = gate.last_end.filter(|_| gate.is_clear()) else { continue };
        completed.push(Write::AddJobEvent(JobEvent {
            at: at.unwrap_or(now),
            conversation: Some(id),
            job,
            kind: JobEventKind::Clear,
            text: "all critical operations complete".to_owned(),
            took_ms: None,
        }));
    }
    Ok(completed)
}

/// How an event of a planned critical job ends.
const PENDING: &str = " pending)";

/// The times from storing a turn to the end of its last critical job, in the order of the log: the
/// turn is then found by meaning, and its window is summarized. A turn without such jobs is found
/// at once and has no entry.
pub(crate) fn recall_lags(lines: &[JobEvent]) -> Vec<Duration> {
    let mut since: HashMap<Option<ConversationId>, Timestamp> = HashMap::new();
    let mut lags = Vec::new();
    for line in lines {
        match line.kind {
            JobEventKind::Acquire if line.text.ends_with(PENDING) => {
                since.entry(line.conversation).or_insert(line.at);
            }
            JobEventKind::Clear => {
                let Some(start) = since.remove(&line.conversation) else { continue };
                let micros = line.at.as_micros().saturating_sub(start.as_micros());
                lags.push(Duration::from_micros(u64::try_from(micros).unwrap_or(0)));
            }
            _ => {}
        }
    }
    lags
}

/// The critical jobs of a conversation, as of a write in a commit.
struct CriticalJobs {
    open: Vec<(JobId, u8)>,
    /// Whether there are more jobs than `open` holds.
    is_truncated: bool,
    /// The lowest height whose jobs the commit dropped.
    dropped_from: Option<u8>,
    /// The last job that ended in the commit, with the time of its event.
    last_end: Option<(JobId, Option<Timestamp>)>,
}

impl CriticalJobs {
    fn read(reader: &dyn Reader, id: ConversationId) -> StoreResult<Self> {
        let heights = Some((0, Level::FIRST.number()));
        let filter = JobFilter { heights, limit: MAX_COUNTED + 1, ..JobFilter::of(id) };
        let jobs = reader.jobs(&filter)?;
        let is_truncated = jobs.len() > MAX_COUNTED;
        let live_jobs = jobs.iter().filter(|job| job.state != JobState::Dead);
        let open = live_jobs.map(|job| (job.id, job.kind.height())).collect();
        Ok(Self { open, is_truncated, dropped_from: None, last_end: None })
    }

    fn is_clear(&self) -> bool {
        self.open.is_empty() && !self.is_truncated
    }

    fn count(&self) -> String {
        let counted = self.open.len().min(MAX_COUNTED);
        let more = self.is_truncated || self.open.len() > MAX_COUNTED;
        if more { format!("more than {MAX_COUNTED}") } else { counted.to_string() }
    }

    fn add(&mut self, job: JobId, height: u8) {
        if !self.open.iter().any(|(open, _)| *open == job) {
            self.open.push((job, height));
        }
    }
}

/// The change that a commit makes to a job.
enum JobChange {
    /// The job exists already.
    Repeated,
    Planned,
    /// The state of an existing job changed.
    Put {
        height: u8,
    },
    Ended {
        planned_at: Timestamp,
    },
}

struct GateLog<'a> {
    reader: &'a dyn Reader,
    gates: BTreeMap<ConversationId, CriticalJobs>,
    /// The changes, each with whether its job is critical.
    changes: HashMap<JobId, (JobChange, bool)>,
}

impl GateLog<'_> {
    /// Follows a write and completes it. Returns false if it is superfluous.
    fn follow(&mut self, write: &mut Write) -> StoreResult<bool> {
        match write {
            Write::AddJob(job) => self.plan(job)?,
            Write::RemoveJob(job) => self.end(job)?,
            Write::PutJob(job) if job.state == JobState::Dead => self.end(job)?,
            Write::PutJob(job) => {
                let change = JobChange::Put { height: job.kind.height() };
                self.changes.insert(job.id, (change, job.kind.is_critical()));
            }
            Write::DropTree(id, level) => {
                let (gate, height) = (self.gate(*id)?, level.number());
                gate.open.retain(|(_, open)| *open < height);
                gate.dropped_from = Some(gate.dropped_from.map_or(height, |from| from.min(height)));
            }
            Write::AddJobEvent(line) => return self.complete(line),
            _ => {}
        }
        Ok(true)
    }

    fn gate(&mut self, id: ConversationId) -> StoreResult<&mut CriticalJobs> {
        let gate = match self.gates.remove(&id) {
            Some(gate) => gate,
            None => CriticalJobs::read(self.reader, id)?,
        };
        Ok(self.gates.entry(id).or_insert(gate))
    }

    fn plan(&mut self, job: &Job) -> StoreResult<()> {
        let height = job.kind.height();
        let is_dropped = self.gates.get(&job.conversation).and_then(|gate| gate.dropped_from);
        let exists = match self.changes.get(&job.id) {
            Some((JobChange::Ended { .. }, _)) => false,
            Some(_) => true,
            None if is_dropped.is_some_and(|from| from <= height) => false,
            None => self.reader.job(job)?.is_some(),
        };
        let is_critical = job.kind.is_critical();
        if is_critical && !exists {
            self.gate(job.conversation)?.add(job.id, height);
        }
        let change = if exists { JobChange::Repeated } else { JobChange::Planned };
        self.changes.insert(job.id, (change, is_critical));
        Ok(())
    }

    fn end(&mut self, job: &Job) -> StoreResult<()> {
        let is_critical = job.kind.is_critical();
        if is_critical {
            let gate = self.gate(job.conversation)?;
            gate.open.retain(|(open, _)| *open != job.id);
            gate.last_end = Some((job.id, None));
        }
        let ended = JobChange::Ended { planned_at: job.planned_at };
        self.changes.insert(job.id, (ended, is_critical));
        Ok(())
    }

    /// Adds the counts to an event. Returns false if the event announces a job that exists.
    fn complete(&mut self, line: &mut JobEvent) -> StoreResult<bool> {
        let Some(id) = line.conversation else { return Ok(true) };
        match (line.kind, self.changes.get(&line.job)) {
            (JobEventKind::Acquire, Some((JobChange::Repeated, _))) => return Ok(false),
            (JobEventKind::Acquire, Some((JobChange::Planned, true))) => {
                let pending = self.gate(id)?.count();
                line.text.push_str(&format!(" ({pending}{PENDING}"));
            }
            (JobEventKind::Retry, Some((JobChange::Put { height }, true))) => {
                let height = *height;
                let gate = self.gate(id)?;
                gate.add(line.job, height);
                line.text.push_str(&format!(" ({}{PENDING}", gate.count()));
            }
            (
                JobEventKind::Release | JobEventKind::Dead,
                Some((JobChange::Ended { planned_at }, is_critical)),
            ) => {
                let ms = line.at.as_micros().saturating_sub(planned_at.as_micros()).max(0) / 1000;
                if !is_critical {
                    line.text.push_str(&format!(" ({ms} ms)"));
                    return Ok(true);
                }
                let gate = self.gate(id)?;
                gate.last_end = Some((line.job, Some(line.at)));
                let remaining = gate.count();
                line.text.push_str(&format!(" ({ms} ms, {remaining} remaining)"));
            }
            _ => {}
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use treering_core::ContentHash;

    use super::*;

    #[test]
    fn the_lag_lasts_from_the_first_pending_job_until_the_gate_is_clear() {
        use JobEventKind::{Acquire, Clear, Release};
        let line = |second: i64, of: u8, kind: JobEventKind, text: &str| JobEvent {
            at: Timestamp::from_micros(second * 1_000_000),
            conversation: Some(ConversationId::from_bytes([of; 16])),
            job: JobId(ContentHash::of_fields(&[text.as_bytes()])),
            kind,
            text: text.to_owned(),
            took_ms: None,
        };
        let lines = [
            line(1, 1, Acquire, "embed turn 0 planned (1 pending)"),
            line(2, 2, Acquire, "embed turn 0 planned (1 pending)"),
            line(3, 1, Acquire, "summarize messages #0–#1 (level 1) planned: full (2 pending)"),
            line(5, 1, Release, "embed turn 0 done (4000 ms, 0 remaining)"),
            line(5, 1, Clear, "all critical operations complete"),
            line(6, 1, Acquire, "summarize nodes (level 3) planned: full"),
            line(8, 2, Clear, "all critical operations complete"),
            line(9, 1, Acquire, "embed turn 1 planned (1 pending)"),
            line(10, 1, Clear, "all critical operations complete"),
        ];
        let seconds: Vec<u64> = recall_lags(&lines).iter().map(Duration::as_secs).collect();
        assert_eq!(seconds, [4, 6, 1]);
    }
}
