//! Embedding: plans jobs for the turns and nodes whose vectors are stored, and runs them in
//! batches.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use treering_core::ports::{JobFilter, NodeFilter, Span, StoreResult};
use treering_core::{
    ContentHash, ContentVectors, ConversationId, ConversationKey, EmbeddedItem, Embedder, Job,
    JobEvent, JobEventKind, JobKind, Node, NodeId, ProviderError, Reader, RetryAdvice, Timestamp,
    TurnNo, VectorIndex, Write, embedding_text,
};

use crate::engine::Engine;
use crate::error::Result;
use crate::history::whole_turns;
use crate::search::{content_hash, embedded_call_text};
use crate::spend_meter::SpendMeter;
use crate::worker::JobOutcome;

/// Settings of the texts that are embedded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbedTextOptions {
    /// Maximum length of an embedded text, in characters. The rest is replaced by an ellipsis.
    pub max_chars: usize,
    /// Whether the job of a turn also embeds the text of the whole turn. It applies to models
    /// whose vectors are stored; those of an instant model are computed when they are needed.
    pub turns: bool,
}

impl Default for EmbedTextOptions {
    fn default() -> Self {
        Self { max_chars: embedding_text::MAX_CHARS, turns: false }
    }
}

/// Which texts of a turn its job embeds.
#[derive(Debug, Clone, Copy)]
struct TurnTextSelection {
    max_chars: usize,
    /// The text of the whole turn.
    turns: bool,
    /// Each message and tool call. The vectors of an instant model are computed when they are
    /// needed.
    items: bool,
}

/// A text to embed, with the content hash that keys its vector.
pub(crate) type TextToEmbed = (ContentHash, String);

impl Engine {
    /// The active index, if its vectors are stored.
    fn kept_index(&self, reader: &dyn Reader) -> StoreResult<Option<VectorIndex>> {
        let index = self.active_vector_index(reader)?;
        let computed = self.embedder_named(&index.model).is_some_and(|it| self.computes(it));
        Ok((!computed).then_some(index))
    }

    /// Whether the vectors of a model are computed when they are needed, and not stored.
    fn computes(&self, embedder: &dyn Embedder) -> bool {
        embedder.is_instant() && !self.store().keeps_embeddings()
    }

    /// The texts that the job of a turn embeds.
    fn turn_text_selection(&self, model: &str) -> TurnTextSelection {
        let EmbedTextOptions { max_chars, turns } = self.embed_text_options();
        let instant = self.embedder_named(model).is_some_and(Embedder::is_instant);
        let turns = turns || self.store().keeps_embeddings();
        TurnTextSelection { max_chars, turns, items: !instant }
    }

    /// Whether the vectors of the configured embedder will be stored from now on: the tenant is
    /// empty, or nothing but the store needs them.
    fn begins_with_kept_vectors(&self, reader: &dyn Reader) -> StoreResult<bool> {
        Ok(!self.computes(self.embedder())
            && reader.vector_index()?.is_none()
            // Search computes the vectors of an instant model, so it needs none of the stored ones.
            && (self.embedder().is_instant() || reader.totals()?.0 == 0))
    }
}

/// Plans jobs for the turns that a commit adds to.
pub(crate) fn plan_turn_jobs(
    engine: &Engine,
    reader: &dyn Reader,
    id: ConversationId,
    writes: &[Write],
    now: Timestamp,
) -> StoreResult<Vec<Write>> {
    if writes.is_empty() {
        return Ok(Vec::new());
    }
    let mut planned_writes = Vec::new();
    if engine.begins_with_kept_vectors(reader)? {
        planned_writes.push(Write::PutVectorIndex(VectorIndex::of(engine.embedder().name())));
    } else if engine.kept_index(reader)?.is_none() {
        return Ok(Vec::new());
    }
    let touched = writes.iter().filter_map(|write| match write {
        Write::AddMessage(_, message) => Some(message.turn),
        Write::AddToolCall(_, call) => Some(call.turn),
        Write::FinishToolCall(_, turn, ..) => Some(*turn),
        _ => None,
    });
    let mut turns: Vec<TurnNo> = touched.collect();
    turns.dedup();
    planned_writes
        .extend(turns.into_iter().flat_map(|turn| job_writes(id, JobKind::EmbedTurn(turn), now)));
    Ok(planned_writes)
}

/// Plans jobs for turns that lost a message or tool call.
pub(crate) fn plan_turns(
    engine: &Engine,
    reader: &dyn Reader,
    id: ConversationId,
    turns: impl IntoIterator<Item = TurnNo>,
    now: Timestamp,
) -> StoreResult<Vec<Write>> {
    if engine.kept_index(reader)?.is_none() {
        return Ok(Vec::new());
    }
    let job = |turn| job_writes(id, JobKind::EmbedTurn(turn), now);
    Ok(turns.into_iter().flat_map(job).collect())
}

/// Plans the job for a node written in the same commit.
pub(crate) fn plan_node_job(
    engine: &Engine,
    reader: &dyn Reader,
    id: ConversationId,
    node: &Node,
    now: Timestamp,
) -> StoreResult<Vec<Write>> {
    match engine.kept_index(reader)?.filter(|_| engine.search_settings().embed_nodes) {
        None => Ok(Vec::new()),
        Some(_) => Ok(job_writes(id, of_node(node), now).into()),
    }
}

fn of_node(node: &Node) -> JobKind {
    JobKind::EmbedNode(node.level(), node.ordinal(), node.id.clone())
}

fn job_writes(id: ConversationId, kind: JobKind, now: Timestamp) -> [Write; 2] {
    let job = Job::plan(id, kind, now);
    let line = JobEvent {
        at: now,
        conversation: Some(id),
        job: job.id,
        kind: JobEventKind::Acquire,
        text: format!("{} planned", job.kind),
        took_ms: None,
    };
    [Write::AddJob(job), Write::AddJobEvent(line)]
}

/// The texts that a job embeds.
fn texts(
    reader: &dyn Reader,
    key: &ConversationKey,
    kind: &JobKind,
    options: TurnTextSelection,
) -> StoreResult<Vec<TextToEmbed>> {
    let texts: Vec<String> = match kind {
        JobKind::EmbedTurn(turn) => {
            let span = Span::between(*turn, TurnNo(turn.0.saturating_add(1)));
            let mut texts: Vec<String> = Vec::new();
            for turn in whole_turns(reader, key.id, span)? {
                // Before the answer the text of the turn is not final.
                let turn_text =
                    (options.turns && turn.turn.answered).then(|| turn.embedding_text());
                if options.items {
                    let messages = turn.messages.iter();
                    texts.extend(messages.map(|message| message.recalled_text().into_owned()));
                    texts.extend(turn.tool_calls.iter().map(embedded_call_text));
                }
                texts.extend(turn_text);
            }
            texts
        }
        JobKind::EmbedNode(level, _, id) => {
            let filter = NodeFilter { id: Some(id.clone()), ..NodeFilter::at(*level) };
            let nodes = reader.nodes(key.id, &filter)?;
            nodes.iter().map(|node| embedding_text::of_node(&node.content)).collect()
        }
        JobKind::Summarize(_) | JobKind::PlanProject => Vec::new(),
    };
    Ok(texts_to_embed(texts.iter().map(String::as_str), options.max_chars))
}

/// The embedded parts of texts, with their content hashes.
pub(crate) fn texts_to_embed<'a>(
    texts: impl Iterator<Item = &'a str>,
    max_chars: usize,
) -> Vec<TextToEmbed> {
    let parts = texts.map(|text| embedding_text::embedded_part(text, max_chars));
    let parts = parts.filter(|part| !part.is_empty());
    parts.map(|part| (content_hash(&part), part.into_owned())).collect()
}

/// The texts without a vector of the model, deduplicated.
pub(crate) fn without_vectors(
    reader: &dyn Reader,
    model: &str,
    texts: Vec<TextToEmbed>,
) -> StoreResult<Vec<TextToEmbed>> {
    let hashes: Vec<ContentHash> = texts.iter().map(|(hash, _)| *hash).collect();
    let stored = reader.vectors(model, &hashes)?;
    let mut seen = HashSet::new();
    let missing = texts
        .into_iter()
        .zip(stored)
        .filter(|((hash, _), vector)| vector.is_none() && seen.insert(*hash));
    Ok(missing.map(|(text, _)| text).collect())
}

/// Embeds texts. A panic and a malformed result both count as a failure of the embedder and
/// affect nothing else.
pub(crate) fn embed_texts(
    embedder: &dyn Embedder,
    texts: &[TextToEmbed],
    meter: &SpendMeter,
) -> std::result::Result<ContentVectors, ProviderError> {
    if texts.is_empty() {
        return Ok(Vec::new());
    }
    let parts: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
    let result = catch_unwind(AssertUnwindSafe(|| embedder.embed_metered(&parts, meter)));
    let vectors = result.unwrap_or_else(|_| {
        Err(ProviderError::permanent(format!("the embedder {:?} panicked", embedder.name())))
    })?;
    let (dims, name) = (embedder.dims(), embedder.name());
    if vectors.len() != texts.len() {
        let (actual, expected) = (vectors.len(), texts.len());
        return Err(ProviderError::transient(format!(
            "{name:?} returned {actual} vectors for {expected} texts"
        )));
    }
    if let Some(wrong_length) = vectors.iter().find(|vector| vector.len() != dims) {
        let actual = wrong_length.len();
        return Err(ProviderError::permanent(format!(
            "{name:?} returned a vector with {actual} dimensions instead of {dims}"
        )));
    }
    if vectors.iter().flatten().any(|number| !number.is_finite()) {
        return Err(ProviderError::transient(format!(
            "{name:?} returned a vector with a value that is not finite"
        )));
    }
    Ok(texts.iter().map(|(hash, _)| *hash).zip(vectors).collect())
}

/// Runs embedding jobs and returns their outcomes. Jobs of a conversation share one call and one
/// commit; a local embedder also combines several conversations.
pub(crate) fn run(engine: &Engine, jobs: &[Job]) -> Result<Vec<JobOutcome>> {
    let is_remote = engine.embedders().any(Embedder::is_remote);
    let same_batch = |a: &Job, b: &Job| !is_remote || a.conversation == b.conversation;
    let mut outcomes = Vec::with_capacity(jobs.len());
    for jobs in jobs.chunk_by(same_batch) {
        outcomes.extend(run_batch(engine, jobs)?);
    }
    Ok(outcomes)
}

fn run_batch(engine: &Engine, jobs: &[Job]) -> Result<Vec<JobOutcome>> {
    let reader = engine.reader()?;
    let revision = reader.audit().revision()?;
    let Some(index) = engine.kept_index(&*reader)? else {
        drop(reader);
        return finish(engine, jobs, revision, None, "");
    };
    let Some(embedder) = engine.embedder_named(&index.model) else {
        drop(reader);
        let reason =
            format!("the model {:?}, whose vectors search uses, is not configured", index.model);
        return Ok(jobs
            .iter()
            .map(|_| JobOutcome::Failed(ProviderError::permanent(reason.clone())))
            .collect());
    };
    let mut texts_of_all = Vec::new();
    for job in jobs {
        let key = engine.key(job.conversation);
        let selection = engine.turn_text_selection(&index.model);
        texts_of_all.extend(texts(&*reader, &key, &job.kind, selection)?);
    }
    let missing = without_vectors(&*reader, &index.model, texts_of_all)?;
    drop(reader);
    let meter = engine.spend_meter(jobs.first().map(|job| job.conversation));
    match engine.with_circuit_breaker(&index.model, || embed_texts(embedder, &missing, &meter)) {
        Ok(vectors) => finish(engine, jobs, revision, Some((index.model, vectors)), &meter.note()),
        // A single text may cause a permanent error, so each job is tried alone. Other errors
        // affect all jobs.
        Err(error) if jobs.len() > 1 && error.advice == RetryAdvice::GiveUp => {
            let each = jobs.iter().map(|job| run_batch(engine, std::slice::from_ref(job)));
            Ok(each.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
        }
        Err(error) => {
            let error =
                ProviderError { reason: format!("{}{}", error.reason, meter.note()), ..error };
            Ok(jobs.iter().map(|_| JobOutcome::Failed(error.clone())).collect())
        }
    }
}

/// Stores the vectors and removes the finished jobs. A job whose turn has grown in the meantime
/// runs again, and so do all of them if something was forgotten since `revision`, when the texts
/// were read. The note about the shared call goes into the event of the first job.
fn finish(
    engine: &Engine,
    jobs: &[Job],
    revision: u64,
    embedded: Option<(String, ContentVectors)>,
    note: &str,
) -> Result<Vec<JobOutcome>> {
    let (owner, jobs, now, note) =
        (engine.clone(), jobs.to_vec(), engine.clock().now(), note.to_owned());
    engine.commit_with(engine.tenant_scope(), move |reader| {
        let mut writes = Vec::new();
        if reader.audit().revision()? != revision {
            for job in &jobs {
                let Some(mut stored) = reader.job(job)? else { continue };
                stored.release(now);
                writes.push(Write::PutJob(stored));
            }
            return Ok((writes, vec![JobOutcome::Stale; jobs.len()]));
        }
        let mut new_hashes: HashSet<ContentHash> = HashSet::new();
        if let Some((model, vectors)) = &embedded {
            new_hashes.extend(vectors.iter().map(|(hash, _)| *hash));
            writes.push(Write::PutVectors(model.clone(), vectors.clone()));
        }
        let mut outcomes = Vec::with_capacity(jobs.len());
        for job in &jobs {
            let key = owner.key(job.conversation);
            let Some(mut stored) = reader.job(job)? else {
                outcomes.push(JobOutcome::Stale);
                continue;
            };
            if let Some((model, _)) = &embedded {
                let selection = owner.turn_text_selection(model);
                let now_wanted = texts(reader, &key, &job.kind, selection)?;
                if owner.store().keeps_embeddings() {
                    let whole = TurnTextSelection { items: false, ..selection };
                    let of_item = embedding_of(&job.kind, &texts(reader, &key, &job.kind, whole)?);
                    writes.extend(
                        of_item.map(|item| Write::SetEmbeddings(key.id, model.clone(), vec![item])),
                    );
                }
                let missing = without_vectors(reader, model, now_wanted)?;
                if missing.iter().any(|(hash, _)| !new_hashes.contains(hash)) {
                    stored.release(now);
                    writes.push(Write::PutJob(stored));
                    outcomes.push(JobOutcome::Stale);
                    continue;
                }
            }
            writes.push(Write::RemoveJob(stored));
            let note = if outcomes.contains(&JobOutcome::Done) { "" } else { note.as_str() };
            writes.push(Write::AddJobEvent(released(job, now, note)));
            outcomes.push(JobOutcome::Done);
        }
        Ok((writes, outcomes))
    })
}

/// The embedding of the item of a job: the vector of its whole text.
fn embedding_of(kind: &JobKind, texts: &[TextToEmbed]) -> Option<(EmbeddedItem, ContentHash)> {
    let item = match kind {
        JobKind::EmbedTurn(turn) => EmbeddedItem::Turn(*turn),
        JobKind::EmbedNode(level, ordinal, _) => EmbeddedItem::Node(*level, *ordinal),
        JobKind::Summarize(_) | JobKind::PlanProject => return None,
    };
    texts.last().map(|(hash, _)| (item, *hash))
}

fn released(job: &Job, now: Timestamp, note: &str) -> JobEvent {
    JobEvent {
        at: now,
        conversation: Some(job.conversation),
        job: job.id,
        kind: JobEventKind::Release,
        text: format!("{} done{note}", job.kind),
        took_ms: None,
    }
}

pub(crate) const fn is_embedding(job: &Job) -> bool {
    matches!(job.kind, JobKind::EmbedTurn(_) | JobKind::EmbedNode(..))
}

/// The missing jobs of a conversation: turns and nodes that lack a stored vector and have no job.
pub(crate) fn missing_jobs(
    engine: &Engine,
    reader: &dyn Reader,
    id: ConversationId,
) -> StoreResult<Vec<JobKind>> {
    let Some(index) = engine.kept_index(reader)? else { return Ok(Vec::new()) };
    let key = engine.key(id);
    let planned = reader.jobs(&JobFilter::of(id))?;
    let turns = reader.turns(key.id, Span::starting(TurnNo(0), usize::MAX))?;
    let nodes = reader.nodes(key.id, &NodeFilter::default())?;
    let kinds = turns.iter().map(|turn| JobKind::EmbedTurn(turn.no));
    let embedded = nodes.iter().filter(|_| engine.search_settings().embed_nodes);
    let kinds = kinds.chain(embedded.map(of_node));
    let planned: HashSet<(u8, u32, Option<&NodeId>)> =
        planned.iter().filter_map(|job| identity(&job.kind)).collect();
    let is_planned =
        |kind: &JobKind| identity(kind).is_some_and(|identity| planned.contains(&identity));
    let mut gaps = Vec::new();
    for kind in kinds.filter(|kind| !is_planned(kind)) {
        let texts = texts(reader, &key, &kind, engine.turn_text_selection(&index.model))?;
        if !without_vectors(reader, &index.model, texts)?.is_empty() {
            gaps.push(kind);
        }
    }
    Ok(gaps)
}

/// The identity of an embedding job within its conversation.
fn identity(kind: &JobKind) -> Option<(u8, u32, Option<&NodeId>)> {
    match kind {
        JobKind::EmbedTurn(turn) => Some((0, turn.0, None)),
        JobKind::EmbedNode(level, ordinal, node) => Some((level.number(), *ordinal, Some(node))),
        JobKind::Summarize(_) | JobKind::PlanProject => None,
    }
}

/// Plans the missing jobs of a conversation, and returns their number.
pub(crate) fn plan_missing_jobs(engine: &Engine, id: ConversationId) -> Result<usize> {
    let (owner, now) = (engine.clone(), engine.clock().now());
    engine.commit_with(engine.scope_of(id), move |reader| {
        let gaps = missing_jobs(&owner, reader, id)?;
        let number = gaps.len();
        let writes = gaps.into_iter().flat_map(|kind| job_writes(id, kind, now)).collect();
        Ok((writes, number))
    })
}
