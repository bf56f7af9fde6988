//! Jobs: durable units of background work, and all their state transitions. A job is fully
//! determined when it is planned, and its id is derived from its exact input, so that planning
//! or running it twice changes nothing.

use std::fmt;

use crate::error::{ProviderError, RetryAdvice};
use crate::hash::ContentHash;
use crate::ids::{ConversationId, TurnNo};
use crate::node::{Coverage, Level, NodeId, NodeSpec};
use crate::node_hash::style_key;
use crate::time::Timestamp;

/// How long a lease lasts before another worker may take the job. A running worker renews it in
/// time.
pub const LEASE_MS: u64 = 10_000;

/// The id of a job, derived from its kind and its exact input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub ContentHash);

impl JobId {
    /// The first digits, enough to distinguish jobs.
    #[must_use]
    pub fn short(&self) -> String {
        self.0.to_string()[..12].to_owned()
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The work to do.
#[derive(Debug, Clone, PartialEq)]
pub enum JobKind {
    /// Embed a turn.
    EmbedTurn(TurnNo),
    /// Write the node of a sealed window or group, or of a whole closed conversation.
    Summarize(NodeSpec),
    /// Embed the node with this level, ordinal and id.
    EmbedNode(Level, u32, NodeId),
    /// Bring the tree of the conversation's project up to date, after everything else of the
    /// conversation is done.
    PlanProject,
}

impl JobKind {
    /// The prefix of the name and description of a summary job.
    pub(crate) const SUMMARIZE: &str = "summarize";
    /// The prefix in logs of earlier versions.
    const SUMMARIZE_BEFORE: &str = "summarise";

    /// Whether the description of a job is that of a summary job.
    pub(crate) fn is_summary(description: &str) -> bool {
        description.starts_with(Self::SUMMARIZE) || description.starts_with(Self::SUMMARIZE_BEFORE)
    }

    /// The name used in every interface.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::EmbedTurn(_) => "embed-turn",
            Self::Summarize(_) => Self::SUMMARIZE,
            Self::EmbedNode(..) => "embed-node",
            Self::PlanProject => "plan-project",
        }
    }

    /// The level that the job works on; 0 for turns, the maximum for projects.
    #[must_use]
    pub const fn height(&self) -> u8 {
        match self {
            Self::EmbedTurn(_) => 0,
            Self::Summarize(task) => task.level.number(),
            Self::EmbedNode(level, ..) => level.number(),
            Self::PlanProject => u8::MAX,
        }
    }

    /// The position of the job's input within its level: the number of the turn or the ordinal
    /// of the node.
    #[must_use]
    pub const fn position(&self) -> u32 {
        match self {
            Self::EmbedTurn(turn) => turn.0,
            Self::Summarize(task) => task.ordinal,
            Self::EmbedNode(_, ordinal, _) => *ordinal,
            Self::PlanProject => 0,
        }
    }

    /// Whether the conversation's next context waits for the job: true for turns and level 1
    /// only.
    #[must_use]
    pub const fn is_critical(&self) -> bool {
        self.height() <= Level::FIRST.number()
    }

    fn id(&self, conversation: ConversationId) -> JobId {
        let number = |number: u32| number.to_le_bytes().to_vec();
        let mut fields = vec![self.as_str().as_bytes().to_vec(), conversation.as_bytes().to_vec()];
        match self {
            Self::PlanProject => {}
            Self::EmbedTurn(turn) => fields.push(number(turn.0)),
            Self::EmbedNode(level, _, node) => {
                fields.extend([vec![level.number()], node.as_str().as_bytes().to_vec()]);
            }
            Self::Summarize(task) => {
                fields.extend([
                    vec![task.level.number()],
                    number(task.ordinal),
                    style_key(&task.style),
                ]);
                match &task.covers {
                    Coverage::Messages(window) => fields.push(
                        format!("{}/{}/{}", window.thread, window.from, window.until).into_bytes(),
                    ),
                    Coverage::Nodes(children) | Coverage::Whole(children) => {
                        fields.extend(
                            children.iter().map(|child| child.as_str().as_bytes().to_vec()),
                        );
                    }
                    Coverage::Sessions(sessions) => {
                        fields.extend(sessions.iter().map(|it| it.content.as_bytes().to_vec()));
                    }
                }
            }
        }
        JobId(ContentHash::of_fields(&fields.iter().map(Vec::as_slice).collect::<Vec<_>>()))
    }
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmbedTurn(turn) => write!(f, "embed turn {turn}"),
            Self::EmbedNode(_, _, node) => write!(f, "embed node {node}"),
            Self::PlanProject => f.write_str("update the tree of the project"),
            Self::Summarize(task) => match &task.covers {
                Coverage::Messages(window) => {
                    write!(f, "{} messages {window}", Self::SUMMARIZE)?;
                    match task.turns {
                        Some(1) => write!(f, " of 1 turn")?,
                        Some(turns) => write!(f, " of {turns} turns")?,
                        None => {}
                    }
                    write!(f, " (level 1)")
                }
                Coverage::Nodes(children) => {
                    write!(f, "{} {} nodes (level {})", Self::SUMMARIZE, children.len(), task.level)
                }
                Coverage::Whole(_) => {
                    write!(f, "{} the whole conversation (level {})", Self::SUMMARIZE, task.level)
                }
                Coverage::Sessions(sessions) => {
                    let (verb, number, level) = (Self::SUMMARIZE, sessions.len(), task.level);
                    write!(f, "{verb} {number} sessions (level {level})")
                }
            },
        }
    }
}

/// How many due jobs a worker leases at once. A model embeds many texts in one call, but writes
/// one summary at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSizes {
    /// Turns to embed.
    pub turns: usize,
    /// Other jobs.
    pub others: usize,
}

impl BatchSizes {
    /// Takes a batch from the front of the due jobs: either turns to embed or a few others.
    #[must_use]
    pub fn take(self, mut due: Vec<Job>) -> Vec<Job> {
        let turns = due.iter().take_while(|job| job.kind.height() == 0).count();
        due.truncate(if turns > 0 { turns.min(self.turns) } else { self.others });
        due
    }

    /// The largest possible batch.
    #[must_use]
    pub fn largest(self) -> usize {
        self.turns.max(self.others)
    }
}

/// The state of a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum JobState {
    /// The job can run from a given time on.
    Waiting {
        /// The earliest time to run.
        not_before: Timestamp,
    },
    /// A worker holds the job until its lease expires.
    Leased {
        /// The worker's name.
        worker: String,
        /// The expiry of the lease.
        until: Timestamp,
    },
    /// The job was given up.
    Dead,
}

impl JobState {
    /// The name used in every interface.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Waiting { .. } => "pending",
            Self::Leased { .. } => "generating",
            Self::Dead => "failed",
        }
    }
}

/// The retry schedule of failed jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// Maximum number of retries.
    pub retries: u32,
    /// The delay after the first failure, in milliseconds.
    pub base_delay_ms: u64,
    /// The growth of the delay with each further failure.
    pub factor: f64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { retries: 3, base_delay_ms: 30_000, factor: 2.0 }
    }
}

/// An unfinished job and its state. A finished job is deleted; its result and events remain.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The job's id.
    pub id: JobId,
    /// The conversation that the job belongs to.
    pub conversation: ConversationId,
    /// The work to do.
    pub kind: JobKind,
    /// The current state.
    pub state: JobState,
    /// Number of failures.
    pub failures: u32,
    /// The time of planning.
    pub planned_at: Timestamp,
    /// The last error.
    pub error: Option<String>,
}

impl Job {
    /// Plans a job that can run immediately.
    #[must_use]
    pub fn plan(conversation: ConversationId, kind: JobKind, now: Timestamp) -> Self {
        let id = kind.id(conversation);
        let state = JobState::Waiting { not_before: now };
        Self { id, conversation, kind, state, failures: 0, planned_at: now, error: None }
    }

    /// Whether a worker may lease the job. A lease that expires implausibly late was granted
    /// before the clock was set back, and counts as expired.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        match &self.state {
            JobState::Waiting { not_before } => *not_before <= now || self.failures == 0,
            JobState::Leased { until, .. } => *until <= now || *until > lease_end(lease_end(now)),
            JobState::Dead => false,
        }
    }

    /// Records that the worker is waiting for an overdue reply.
    pub fn mark_stalled(&mut self, reason: &str) {
        self.error.get_or_insert_with(|| reason.to_owned());
    }

    /// Grants or renews a worker's lease.
    pub fn lease(&mut self, worker: &str, now: Timestamp) {
        self.state = JobState::Leased { worker: worker.to_owned(), until: lease_end(now) };
    }

    /// Whether this worker holds the lease.
    #[must_use]
    pub fn is_leased_by(&self, name: &str) -> bool {
        matches!(&self.state, JobState::Leased { worker, .. } if worker == name)
    }

    /// Returns the job to the queue without counting a failure.
    pub fn release(&mut self, now: Timestamp) {
        self.state = JobState::Waiting { not_before: now };
    }

    /// Records a failure: schedules a retry if the error allows one, otherwise gives up.
    pub fn fail(&mut self, error: &ProviderError, now: Timestamp, policy: &RetryPolicy) {
        self.error = Some(error.reason.clone());
        if let RetryAdvice::Throttled(_) = error.advice {
            return self.release(now);
        }
        self.failures += 1;
        let min_delay_ms =
            if let RetryAdvice::RetryAfter(min_delay_ms) = error.advice { min_delay_ms } else { 0 };
        let delay = (!is_over(error, self.failures, policy))
            .then(|| self.backoff_ms(policy).max(min_delay_ms));
        self.state = match delay {
            None => JobState::Dead,
            Some(delay) => {
                let micros = i64::try_from(delay.saturating_mul(1000)).unwrap_or(i64::MAX);
                JobState::Waiting { not_before: now.plus_micros(micros) }
            }
        };
    }

    /// Whether another failure with this error would give the job up.
    #[must_use]
    pub fn would_give_up(&self, error: &ProviderError, policy: &RetryPolicy) -> bool {
        is_over(error, self.failures + 1, policy)
    }

    /// Resets the job for a retry on request.
    pub fn retry(&mut self, now: Timestamp) {
        (self.failures, self.error) = (0, None);
        self.state = JobState::Waiting { not_before: now };
    }

    /// The backoff before the next attempt, with 20 % jitter either way so that jobs that
    /// failed together do not retry together.
    fn backoff_ms(&self, policy: &RetryPolicy) -> u64 {
        let power = i32::try_from(self.failures.saturating_sub(1)).unwrap_or(i32::MAX);
        let delay = policy.base_delay_ms as f64 * policy.factor.powi(power);
        let seed = ContentHash::of_fields(&[self.id.0.as_bytes(), &self.failures.to_le_bytes()]);
        let jitter = f64::from(seed.as_bytes()[0]) / 255.0;
        (delay * (0.8 + 0.4 * jitter)) as u64
    }
}

/// Whether a job is given up after this many failures, the last one with this error.
fn is_over(error: &ProviderError, failures: u32, policy: &RetryPolicy) -> bool {
    match error.advice {
        RetryAdvice::GiveUp | RetryAdvice::UseFallback => true,
        RetryAdvice::Throttled(_) => false,
        RetryAdvice::Retry | RetryAdvice::RetryAfter(_) => failures > policy.retries,
    }
}

fn lease_end(now: Timestamp) -> Timestamp {
    now.plus_micros(LEASE_MS as i64 * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MessageIdx, Policy, SealCause, TextPosition, ThreadName, Window};

    #[test]
    fn the_job_of_a_window_names_its_turns() {
        let until = TextPosition { idx: MessageIdx(6), offset: 0 };
        let from = TextPosition { idx: MessageIdx(0), offset: 0 };
        let spec = NodeSpec {
            level: Level::FIRST,
            ordinal: 0,
            covers: Coverage::Messages(Window { thread: ThreadName::main(), from, until }),
            style: Policy::default().style(Level::FIRST),
            cause: SealCause::Window(crate::windowing::SealReason::Full),
            sealed_by: None,
            turns: Some(3),
            overrides: Vec::new(),
            replaces: None,
        };
        let describe = |turns| JobKind::Summarize(NodeSpec { turns, ..spec.clone() }).to_string();
        assert_eq!(describe(Some(3)), "summarize messages #0–#5 of 3 turns (level 1)");
        assert_eq!(describe(Some(1)), "summarize messages #0–#5 of 1 turn (level 1)");
        assert_eq!(describe(None), "summarize messages #0–#5 (level 1)");
    }
}
