//! Jobs: durable units of background work. What a job does is decided when it is planned, and
//! its exact span is its identity, so that planning or running it twice changes nothing. The
//! ways from one state to the next are all here.

use std::fmt;

use crate::error::{ProviderError, RetryAdvice};
use crate::hash::ContentHash;
use crate::ids::{ConversationId, TurnNo};
use crate::node::{Coverage, Level, NodeId, NodeSpec, style_key};
use crate::time::Timestamp;

/// How long a worker has a job before another may take it; a worker at work renews in time.
pub const LEASE_MS: u64 = 10_000;

/// Identity of a job, from its kind and exactly what it works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub ContentHash);

impl JobId {
    /// The first digits, enough to tell jobs apart.
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

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum JobKind {
    /// Give a turn its vector.
    EmbedTurn(TurnNo),
    /// Write the node of a sealed window or group.
    Summarize(NodeSpec),
    /// Give a node its vector: the one of a level with this number and id.
    EmbedNode(Level, u32, NodeId),
}

impl JobKind {
    /// What the name and the description of a job begin with that writes a node.
    pub const SUMMARISE: &str = "summarise";

    /// The word for it in every interface.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::EmbedTurn(_) => "embed-turn",
            Self::Summarize(_) => Self::SUMMARISE,
            Self::EmbedNode(..) => "embed-node",
        }
    }

    /// The height of what it works on: 0 for turns.
    #[must_use]
    pub const fn height(&self) -> u8 {
        match self {
            Self::EmbedTurn(_) => 0,
            Self::Summarize(task) => task.level.number(),
            Self::EmbedNode(level, ..) => level.number(),
        }
    }

    /// Where what it works on lies among all that is as high: the number of the turn or of the node.
    #[must_use]
    pub const fn place(&self) -> u32 {
        match self {
            Self::EmbedTurn(turn) => turn.0,
            Self::Summarize(task) => task.ordinal,
            Self::EmbedNode(_, ordinal, _) => *ordinal,
        }
    }

    /// Whether the next context of the conversation waits for it: turns and level 1 do, what
    /// lies above never does.
    #[must_use]
    pub const fn is_critical(&self) -> bool {
        self.height() <= Level::FIRST.number()
    }

    fn id(&self, conversation: ConversationId) -> JobId {
        let number = |number: u32| number.to_le_bytes().to_vec();
        let mut fields = vec![self.as_str().as_bytes().to_vec(), conversation.as_bytes().to_vec()];
        match self {
            Self::EmbedTurn(turn) => fields.push(number(turn.0)),
            Self::EmbedNode(level, _, node) => {
                fields.extend([vec![level.number()], node.as_str().as_bytes().to_vec()]);
            }
            Self::Summarize(task) => {
                fields.extend([
                    vec![task.level.number()],
                    number(task.ordinal),
                    style_key(&task.manner),
                ]);
                match &task.covers {
                    Coverage::Messages(window) => fields.push(
                        format!("{}/{}/{}", window.thread, window.from, window.until).into_bytes(),
                    ),
                    Coverage::Nodes(children) => {
                        fields.extend(
                            children.iter().map(|child| child.as_str().as_bytes().to_vec()),
                        );
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
            Self::Summarize(task) => match &task.covers {
                Coverage::Messages(window) => {
                    write!(f, "{} messages {window} (level 1)", Self::SUMMARISE)
                }
                Coverage::Nodes(children) => {
                    write!(f, "{} {} nodes (level {})", Self::SUMMARISE, children.len(), task.level)
                }
            },
        }
    }
}

/// How many due jobs a worker takes at once. A model embeds many texts in one call, but writes one summary at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSizes {
    /// Turns to embed.
    pub turns: usize,
    /// Other jobs.
    pub others: usize,
}

impl BatchSizes {
    /// The batch to take from the front of the due jobs: turns to embed, or else a few others.
    #[must_use]
    pub fn take(self, mut due: Vec<Job>) -> Vec<Job> {
        let turns = due.iter().take_while(|job| job.kind.height() == 0).count();
        due.truncate(if turns > 0 { turns.min(self.turns) } else { self.others });
        due
    }

    /// The most jobs that one batch can have.
    #[must_use]
    pub fn largest(self) -> usize {
        self.turns.max(self.others)
    }
}

/// Where a job stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum JobState {
    /// It can run from that moment on.
    Waiting {
        /// Not before this moment.
        not_before: Timestamp,
    },
    /// A worker has it until its lease ends.
    Leased {
        /// Who has it.
        worker: String,
        /// When the lease ends and another may take it.
        until: Timestamp,
    },
    /// It was given up.
    Dead,
}

impl JobState {
    /// The word for it in every interface.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Waiting { .. } => "pending",
            Self::Leased { .. } => "generating",
            Self::Dead => "failed",
        }
    }
}

/// When a failed job is tried again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// How often it is tried again.
    pub retries: u32,
    /// How long after the first failure, in milliseconds.
    pub base_delay_ms: u64,
    /// How much longer after each further one.
    pub factor: f64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { retries: 3, base_delay_ms: 30_000, factor: 2.0 }
    }
}

/// A job and how far it is. A finished job is gone: what it made is its trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its identity.
    pub id: JobId,
    /// The conversation it works for.
    pub conversation: ConversationId,
    /// What is to be done.
    pub kind: JobKind,
    /// Where it stands.
    pub state: JobState,
    /// How often it has failed.
    pub failures: u32,
    /// When it was planned.
    pub planned_at: Timestamp,
    /// Why it failed last.
    pub error: Option<String>,
}

impl Job {
    /// A job that can run at once.
    #[must_use]
    pub fn plan(conversation: ConversationId, kind: JobKind, now: Timestamp) -> Self {
        let id = kind.id(conversation);
        let state = JobState::Waiting { not_before: now };
        Self { id, conversation, kind, state, failures: 0, planned_at: now, error: None }
    }

    /// Whether a worker may take it. A lease that ends impossibly late was given under a clock
    /// that has been set back since, and counts as ended.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        match &self.state {
            JobState::Waiting { not_before } => *not_before <= now || self.failures == 0,
            JobState::Leased { until, .. } => *until <= now || *until > lease_end(lease_end(now)),
            JobState::Dead => false,
        }
    }

    /// Whoever has it waits for an answer that does not come.
    pub fn mark_stalled(&mut self, why: &str) {
        self.error.get_or_insert_with(|| why.to_owned());
    }

    /// A worker takes it, or renews its lease.
    pub fn lease(&mut self, worker: &str, now: Timestamp) {
        self.state = JobState::Leased { worker: worker.to_owned(), until: lease_end(now) };
    }

    /// Whether this worker has it.
    #[must_use]
    pub fn is_leased_by(&self, name: &str) -> bool {
        matches!(&self.state, JobState::Leased { worker, .. } if worker == name)
    }

    /// A worker gives it back untried.
    pub fn release(&mut self, now: Timestamp) {
        self.state = JobState::Waiting { not_before: now };
    }

    /// It failed: tried again later when the error says that this can help, given up otherwise.
    pub fn fail(&mut self, error: &ProviderError, now: Timestamp, policy: &RetryPolicy) {
        self.error = Some(error.reason.clone());
        if let RetryAdvice::Throttled(_) = error.advice {
            return self.release(now);
        }
        self.failures += 1;
        let least = if let RetryAdvice::RetryAfter(least) = error.advice { least } else { 0 };
        let delay =
            (!is_over(error, self.failures, policy)).then(|| self.backoff_ms(policy).max(least));
        self.state = match delay {
            None => JobState::Dead,
            Some(delay) => {
                let micros = i64::try_from(delay.saturating_mul(1000)).unwrap_or(i64::MAX);
                JobState::Waiting { not_before: now.plus_micros(micros) }
            }
        };
    }

    /// Whether it would be given up for another failure like that.
    #[must_use]
    pub fn would_give_up(&self, error: &ProviderError, policy: &RetryPolicy) -> bool {
        is_over(error, self.failures + 1, policy)
    }

    /// Somebody asks for another try.
    pub fn retry(&mut self, now: Timestamp) {
        (self.failures, self.error) = (0, None);
        self.state = JobState::Waiting { not_before: now };
    }

    /// The delay before the next try, up to a fifth off either way so that jobs which failed
    /// together do not come back together.
    fn backoff_ms(&self, policy: &RetryPolicy) -> u64 {
        let power = i32::try_from(self.failures.saturating_sub(1)).unwrap_or(i32::MAX);
        let delay = policy.base_delay_ms as f64 * policy.factor.powi(power);
        let seed = ContentHash::of_fields(&[self.id.0.as_bytes(), &self.failures.to_le_bytes()]);
        let jitter = f64::from(seed.as_bytes()[0]) / 255.0;
        (delay * (0.8 + 0.4 * jitter)) as u64
    }
}

/// Whether nothing is to be hoped for from another try after so many failures.
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
