//! Background work: how the gate stands, jobs, the log, and what everything comes to.

use std::collections::HashMap;

use serde::Serialize;
use treering_core::commit::JobEvent;
use treering_core::gate::{GateStatus, Operation};
use treering_core::ports::JobFilter;
use treering_core::{Conversation, ConversationId, ConversationState, Job, JobState, Timestamp};
use treering_engine::{Engine, Result};

use super::SpendView;

/// What the next context of a conversation would wait for.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct StatusView {
    /// The id of the conversation.
    pub conversation: String,
    /// The slug of the conversation.
    pub slug: String,
    /// Whether it is open.
    pub open: bool,
    /// Whether nothing critical is to be done.
    pub clear: bool,
    /// What is to be done first.
    pub pending: Vec<OperationView>,
    /// What was given up; raw turns stand in for it.
    pub failed: Vec<OperationView>,
    /// Jobs that wait or run.
    pub jobs_queued: u32,
    /// Jobs that were given up.
    pub jobs_failed: u32,
    /// Who writes the summaries.
    pub summarizer: String,
    /// The model whose vectors search goes by.
    pub vectors: String,
    /// The model whose vectors are to follow.
    pub vectors_wanted: Option<String>,
    /// Nodes that a stand-in wrote and a model has to write yet.
    pub stand_ins: u32,
    /// What was spent on models.
    pub spend: SpendView,
    /// Why this process can store nothing until it is restarted, and what to do about it.
    pub writes_refused: Option<String>,
}

/// A piece of critical work.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct OperationView {
    /// What it is.
    pub kind: &'static str,
    /// The hash of what it works on.
    pub hash: String,
    /// What it does, in words.
    pub description: String,
    /// How it stands.
    pub state: &'static str,
    /// When it was planned.
    pub since: String,
    /// How long ago that is.
    pub age_ms: i64,
    /// Why it failed last.
    pub error: Option<String>,
}

impl OperationView {
    fn of(operation: &Operation, now: Timestamp) -> Self {
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
    /// How a conversation stands.
    pub fn of(conversation: &Conversation, gate: &GateStatus, memory: &Engine) -> Result<Self> {
        let now = memory.clock().now();
        let jobs = memory.jobs(&JobFilter::of(conversation.id))?;
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
            summarizer: memory.summarizer_name().to_owned(),
            vectors_wanted: memory.needs_reindex()?.then(|| memory.embedder_name().to_owned()),
            vectors: memory.vector_index()?.model,
            stand_ins: memory.fallback_node_count(Some(conversation.id))?,
            spend: memory.spend(Some(conversation.id))?.into(),
            writes_refused: super::stats::writes_refused(memory),
        })
    }
}

/// A job that is not done.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct JobView {
    /// Its id; the first digits will do.
    pub id: String,
    /// The id of its conversation.
    pub conversation: String,
    /// The slug of its conversation.
    pub slug: String,
    /// What it is.
    pub kind: &'static str,
    /// The level it works for; 0 for turns.
    pub level: u8,
    /// What it does, in words.
    pub description: String,
    /// Whether the next context waits for it.
    pub critical: bool,
    /// `pending`, `generating` or `failed`.
    pub state: &'static str,
    /// How often it failed.
    pub failures: u32,
    /// When it was planned.
    pub planned_at: String,
    /// When it can run at the earliest.
    pub not_before: Option<String>,
    /// Who is at it.
    pub worker: Option<String>,
    /// Why it failed last.
    pub error: Option<String>,
}

impl JobView {
    /// The views of jobs.
    #[must_use]
    pub fn all(jobs: &[Job], memory: &Engine) -> Vec<Self> {
        let mut slugs = Slugs::of(memory);
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

/// What conversations are called, for people; each is looked up once.
pub struct Slugs<'a> {
    memory: &'a Engine,
    known: HashMap<ConversationId, String>,
}

impl<'a> Slugs<'a> {
    /// Slugs read from a memory.
    #[must_use]
    pub fn of(memory: &'a Engine) -> Self {
        Self { memory, known: HashMap::new() }
    }

    /// The slug of a conversation; its id where it is gone.
    pub fn get(&mut self, id: ConversationId) -> String {
        let find =
            || self.memory.find(&id.to_string()).map_or_else(|_| id.short(), |found| found.slug);
        self.known.entry(id).or_insert_with(find).clone()
    }
}

/// A line of the log of background work.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct LogView {
    /// When.
    pub at: String,
    /// The id of the conversation; none where it is about no single one.
    pub conversation: Option<String>,
    /// The job it is about, or the update that planned it.
    pub job: String,
    /// `acquire`, `release`, `fail`, `dead`, `retry`, `update` or `ask`.
    pub event: &'static str,
    /// What happened, in words.
    pub text: String,
    /// How long it took.
    pub took_ms: Option<u64>,
}

impl LogView {
    /// The view of a line.
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
