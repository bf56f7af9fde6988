//! Views of background work: gate status, jobs and the job log.

use std::collections::HashMap;

use serde::Serialize;
use treering_core::ports::JobFilter;
use treering_core::{
    Conversation, ConversationId, ConversationState, GateOperation, GateStatus, Job, JobEvent,
    JobState, Timestamp,
};
use treering_engine::{Engine, Result};

use super::SpendView;

/// The gate status of a conversation: the work its next context waits for.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct StatusView {
    /// The conversation's id.
    pub conversation: String,
    /// The conversation's slug.
    pub slug: String,
    /// Whether the conversation is open.
    pub open: bool,
    /// Whether no critical work is pending.
    pub clear: bool,
    /// Pending critical work.
    pub pending: Vec<OperationView>,
    /// Failed critical work; contexts use raw turns instead.
    pub failed: Vec<OperationView>,
    /// Jobs waiting or running.
    pub jobs_queued: u32,
    /// Failed jobs.
    pub jobs_failed: u32,
    /// The summarizer.
    pub summarizer: String,
    /// The embedding model of the current index.
    pub vectors: String,
    /// The embedding model that a reindex will switch to.
    pub vectors_configured: Option<String>,
    /// Characters of the messages that no summary covers yet.
    pub raw_chars: u64,
    /// Nodes written by the fallback, to be rewritten by a model.
    pub fallback_nodes: u32,
    /// Model usage and cost.
    pub spend: SpendView,
    /// The reason this process refuses all writes until restart, and the remedy.
    pub writes_refused: Option<String>,
    /// Whether live capture is paused.
    pub capture_paused: bool,
    /// The end of the pause, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture_paused_until: Option<String>,
}

/// A critical operation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct OperationView {
    /// The kind of operation.
    pub kind: &'static str,
    /// Hash of the input.
    pub hash: String,
    /// A description in words.
    pub description: String,
    /// The operation's state.
    pub state: &'static str,
    /// Time the operation was planned.
    pub since: String,
    /// Milliseconds since it was planned.
    pub age_ms: i64,
    /// The last error.
    pub error: Option<String>,
}

impl OperationView {
    fn of(operation: &GateOperation, now: Timestamp) -> Self {
        Self {
            kind: operation.kind,
            hash: operation.hash.to_string(),
            description: operation.description.clone(),
            state: operation.state,
            since: operation.since.to_string(),
            age_ms: (now.as_micros() - operation.since.as_micros()) / 1000,
            error: operation.error.clone(),
        }
    }
}

impl StatusView {
    /// Reads the status of a conversation.
    pub fn of(conversation: &Conversation, gate: &GateStatus, engine: &Engine) -> Result<Self> {
        let now = engine.clock().now();
        let jobs = engine.jobs(&JobFilter::of(conversation.id))?;
        let dead = jobs.iter().filter(|job| job.state == JobState::Dead).count();
        Ok(Self {
            conversation: conversation.id.to_string(),
            slug: conversation.slug.clone(),
            open: conversation.state == ConversationState::Open,
            clear: gate.is_clear(),
            pending: gate
                .pending
                .iter()
                .map(|operation| OperationView::of(operation, now))
                .collect(),
            failed: gate.failed.iter().map(|operation| OperationView::of(operation, now)).collect(),
            jobs_queued: u32::try_from(jobs.len() - dead).unwrap_or(u32::MAX),
            jobs_failed: u32::try_from(dead).unwrap_or(u32::MAX),
            summarizer: engine.summarizer_name().to_owned(),
            vectors_configured: engine.needs_reindex()?.then(|| engine.embedder_name().to_owned()),
            vectors: engine.vector_index()?.model,
            raw_chars: engine.raw_history_chars(conversation.id)?,
            fallback_nodes: engine.fallback_node_count(Some(conversation.id))?,
            spend: engine.spend(Some(conversation.id))?.into(),
            writes_refused: super::stats::writes_refused(engine),
            capture_paused: false,
            capture_paused_until: None,
        })
    }
}

/// An unfinished job.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct JobView {
    /// The id. A unique prefix is accepted.
    pub id: String,
    /// The conversation's id.
    pub conversation: String,
    /// The conversation's slug.
    pub slug: String,
    /// The kind of job.
    pub kind: &'static str,
    /// The tree level; 0 for turns.
    pub level: u8,
    /// A description in words.
    pub description: String,
    /// Whether the next context waits for it.
    pub critical: bool,
    /// `pending`, `generating` or `failed`.
    pub state: &'static str,
    /// Number of failed attempts.
    pub failures: u32,
    /// Time the job was planned.
    pub planned_at: String,
    /// Earliest time it can run.
    pub not_before: Option<String>,
    /// The worker that holds the lease.
    pub worker: Option<String>,
    /// The last error.
    pub error: Option<String>,
}

impl JobView {
    /// Builds the views of jobs.
    #[must_use]
    pub fn all(jobs: &[Job], engine: &Engine) -> Vec<Self> {
        let mut slugs = Slugs::of(engine);
        jobs.iter().map(|job| Self::of(job, &mut slugs)).collect()
    }

    fn of(job: &Job, slugs: &mut Slugs<'_>) -> Self {
        let (not_before, worker) = match &job.state {
            JobState::Waiting { not_before } => (Some(not_before.to_string()), None),
            JobState::Leased { worker, .. } => (None, Some(worker.clone())),
            JobState::Dead => (None, None),
        };
        Self {
            id: job.id.to_string(),
            conversation: job.conversation.to_string(),
            slug: slugs.get(job.conversation),
            kind: job.kind.as_str(),
            level: job.kind.height(),
            description: job.kind.to_string(),
            critical: job.kind.is_critical(),
            state: job.state.as_str(),
            failures: job.failures,
            planned_at: job.planned_at.to_string(),
            not_before,
            worker,
            error: job.error.clone(),
        }
    }
}

/// A cache of conversation slugs. Reads each conversation once.
pub struct Slugs<'a> {
    engine: &'a Engine,
    known: HashMap<ConversationId, Option<Conversation>>,
}

impl<'a> Slugs<'a> {
    /// An empty cache over an engine.
    #[must_use]
    pub fn of(engine: &'a Engine) -> Self {
        Self { engine, known: HashMap::new() }
    }

    /// The slug of a conversation, or its short id if it no longer exists.
    pub fn get(&mut self, id: ConversationId) -> String {
        self.conversation(id).map_or_else(|| id.short(), |found| found.slug.clone())
    }

    /// A conversation; `None` if it no longer exists.
    pub fn conversation(&mut self, id: ConversationId) -> Option<&Conversation> {
        let find = || self.engine.find(&id.to_string()).ok();
        self.known.entry(id).or_insert_with(find).as_ref()
    }
}

/// A job log line.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct LogView {
    /// Time of the event.
    pub at: String,
    /// The conversation's id; null if the line concerns none in particular.
    pub conversation: Option<String>,
    /// The job, or the update that planned it.
    pub job: String,
    /// `acquire`, `release`, `fail`, `dead`, `retry`, `update` or `ask`.
    pub event: &'static str,
    /// A description in words.
    pub text: String,
    /// Duration in milliseconds.
    pub took_ms: Option<u64>,
}

impl LogView {
    /// Builds the view of a job event.
    #[must_use]
    pub fn of(line: &JobEvent) -> Self {
        Self {
            at: line.at.to_string(),
            conversation: line.conversation.map(|id| id.to_string()),
            job: line.job.to_string(),
            event: line.kind.as_str(),
            text: line.text.clone(),
            took_ms: line.took_ms,
        }
    }
}
