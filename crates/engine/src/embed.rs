//! Embedding: which turns and nodes need vectors that are kept, and having them made in batches.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use treering_core::commit::{LogEvent, LogLine};
use treering_core::index::{VectorIndex, Vectors};
use treering_core::ports::{JobFilter, NodeFilter, Reader, Span, StoreResult};
use treering_core::{
    Advice, Commit, ContentHash, ConversationId, ConversationKey, Embedder, Job, JobKind, Node,
    ProviderError, Timestamp, TurnNo, Write,
};

use crate::error::Result;
use crate::memory::Memory;
use crate::purse::Purse;
use crate::search::{call_text, content_hash, embedded_part, node_text};
use crate::worker::Ran;

/// A text to be embedded, under the hash that its vector is kept under.
pub(crate) type Wanted = (ContentHash, String);

impl Memory {
    /// The index whose vectors are kept, where it is such a one.
    fn kept_index(&self, reader: &dyn Reader) -> StoreResult<Option<VectorIndex>> {
        let index = self.index_in_use(reader)?;
        let instant = self.embedder_named(&index.model).is_some_and(Embedder::is_instant);
        Ok((!instant).then_some(index))
    }

    /// Whether this is the first of a tenant, and the configured embedder's vectors are to be kept.
    fn begins_with_kept_vectors(&self, reader: &dyn Reader) -> StoreResult<bool> {
        let tenant = self.tenant();
        Ok(!self.embedder().is_instant()
            && reader.vector_index(tenant)?.is_none()
            && reader.totals(tenant)?.0 == 0)
    }
}

/// Plans jobs for the turns that a commit adds to.
pub(crate) fn turns(
    memory: &Memory,
    reader: &dyn Reader,
    id: ConversationId,
    writes: &[Write],
    now: Timestamp,
) -> StoreResult<Vec<Write>> {
    if writes.is_empty() {
        return Ok(Vec::new());
    }
    let mut planned_writes = Vec::new();
    if memory.begins_with_kept_vectors(reader)? {
        planned_writes.push(Write::PutVectorIndex(VectorIndex::of(memory.embedder().name())));
    } else if memory.kept_index(reader)?.is_none() {
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
    planned_writes.extend(turns.into_iter().flat_map(|turn| planned(id, JobKind::EmbedTurn(turn), now)));
    Ok(planned_writes)
}

/// Plans the job for a node that is written in the same commit.
pub(crate) fn node(
    memory: &Memory,
    reader: &dyn Reader,
    id: ConversationId,
    node: &Node,
    now: Timestamp,
) -> StoreResult<Vec<Write>> {
    match memory.kept_index(reader)? {
        None => Ok(Vec::new()),
        Some(_) => Ok(planned(id, of_node(node), now).into()),
    }
}

fn of_node(node: &Node) -> JobKind {
    JobKind::EmbedNode(node.level(), node.ordinal(), node.id.clone())
}

fn planned(id: ConversationId, kind: JobKind, now: Timestamp) -> [Write; 2] {
    let job = Job::plan(id, kind, now);
    let line = LogLine {
        at: now,
        conversation: Some(id),
        job: job.id,
        event: LogEvent::Acquire,
        text: format!("{} planned", job.kind),
        took_ms: None,
    };
    [Write::AddJob(job), Write::AddLog(line)]
}

/// The texts of what a job works on.
fn texts(reader: &dyn Reader, key: &ConversationKey, kind: &JobKind) -> StoreResult<Vec<Wanted>> {
    let texts: Vec<String> = match kind {
        JobKind::EmbedTurn(turn) => {
            let span = Span::between(*turn, TurnNo(turn.0.saturating_add(1)));
            let mut texts: Vec<String> = Vec::new();
            for turn in reader.turns(key, span)? {
                let messages = reader.messages(key, Span::between(turn.from, turn.until))?;
                let own = messages.into_iter().filter(|message| message.turn == turn.no);
                texts.extend(own.map(|message| message.said.text));
            }
            texts.extend(reader.tool_calls(key, span)?.iter().map(call_text));
            texts
        }
        JobKind::EmbedNode(level, _, id) => {
            let filter = NodeFilter { id: Some(id.clone()), ..NodeFilter::at(*level) };
            reader.nodes(key, &filter)?.iter().map(node_text).collect()
        }
        JobKind::Summarise(_) => Vec::new(),
    };
    Ok(wanted(texts.iter().map(String::as_str)))
}

/// The parts of texts that are embedded, with what their vectors are kept under.
pub(crate) fn wanted<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<Wanted> {
    let parts = texts.map(embedded_part).filter(|part| !part.is_empty());
    parts.map(|part| (content_hash(part), part.to_owned())).collect()
}

/// Those of the texts that a model has no vectors for yet, each once.
pub(crate) fn missing(
    memory: &Memory,
    reader: &dyn Reader,
    model: &str,
    texts: Vec<Wanted>,
) -> StoreResult<Vec<Wanted>> {
    let hashes: Vec<ContentHash> = texts.iter().map(|(hash, _)| *hash).collect();
    let there = reader.vectors(memory.tenant(), model, &hashes)?;
    let mut seen = HashSet::new();
    let lacking =
        texts.into_iter().zip(there).filter(|((hash, _), vector)| vector.is_none() && seen.insert(*hash));
    Ok(lacking.map(|(text, _)| text).collect())
}

/// Has texts embedded. An embedder that panics or gives something else than a vector for each has
/// failed, and harms nothing else.
pub(crate) fn vectors_of(
    embedder: &dyn Embedder,
    texts: &[Wanted],
    purse: &Purse,
) -> std::result::Result<Vectors, ProviderError> {
    if texts.is_empty() {
        return Ok(Vec::new());
    }
    let parts: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
    let asked = catch_unwind(AssertUnwindSafe(|| embedder.embed_metered(&parts, purse)));
    let vectors = asked.unwrap_or_else(|_| {
        Err(ProviderError::lasting(format!("the embedder {:?} broke down", embedder.name())))
    })?;
    let (dims, name) = (embedder.dims(), embedder.name());
    if vectors.len() != texts.len() {
        let (had, wanted) = (vectors.len(), texts.len());
        return Err(ProviderError::passing(format!("{name:?} gave {had} vectors for {wanted} texts")));
    }
    if let Some(odd) = vectors.iter().find(|vector| vector.len() != dims) {
        let had = odd.len();
        return Err(ProviderError::lasting(format!("{name:?} gave a vector of {had} numbers, not {dims}")));
    }
    if vectors.iter().flatten().any(|number| !number.is_finite()) {
        return Err(ProviderError::passing(format!(
            "{name:?} gave a vector with something that is no number"
        )));
    }
    Ok(texts.iter().map(|(hash, _)| *hash).zip(vectors).collect())
}

/// Runs embedding jobs: those of a conversation together, with one call of the embedder and one commit. An embedder
/// that costs nothing takes those of several. Says what became of each.
pub(crate) fn run(memory: &Memory, jobs: &[Job]) -> Result<Vec<Ran>> {
    let is_remote = memory.embedders().any(Embedder::is_remote);
    let together = |a: &Job, b: &Job| !is_remote || a.conversation == b.conversation;
    let mut ran = Vec::with_capacity(jobs.len());
    for jobs in jobs.chunk_by(together) {
        ran.extend(run_together(memory, jobs)?);
    }
    Ok(ran)
}

fn run_together(memory: &Memory, jobs: &[Job]) -> Result<Vec<Ran>> {
    let reader = memory.store().reader()?;
    let Some(index) = memory.kept_index(&*reader)? else {
        drop(reader);
        return finish(memory, jobs, None, "");
    };
    let Some(embedder) = memory.embedder_named(&index.model) else {
        drop(reader);
        let why =
            format!("the model {:?}, whose vectors search goes by, is not configured here", index.model);
        return Ok(jobs.iter().map(|_| Ran::Failed(ProviderError::lasting(why.clone()))).collect());
    };
    let mut texts_of_all = Vec::new();
    for job in jobs {
        texts_of_all.extend(texts(&*reader, &memory.key(job.conversation), &job.kind)?);
    }
    let lacking = missing(memory, &*reader, &index.model, texts_of_all)?;
    drop(reader);
    let purse = memory.purse(jobs.first().map(|job| job.conversation));
    match memory.asking(&index.model, || vectors_of(embedder, &lacking, &purse)) {
        Ok(vectors) => finish(memory, jobs, Some((index.model, vectors)), &purse.note()),
        // One text may be what is wrong: each job stands for itself then. Not where nobody is there to ask.
        Err(error) if jobs.len() > 1 && error.advice == Advice::GiveUp => {
            let each = jobs.iter().map(|job| run_together(memory, std::slice::from_ref(job)));
            Ok(each.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
        }
        Err(error) => {
            let error = ProviderError { reason: format!("{}{}", error.reason, purse.note()), ..error };
            Ok(jobs.iter().map(|_| Ran::Failed(error.clone())).collect())
        }
    }
}

/// Keeps vectors and takes the jobs away that are done with them. What came to a turn meanwhile has
/// its job run again. The note about the call that all of them made stands in the line of the first.
fn finish(memory: &Memory, jobs: &[Job], made: Option<(String, Vectors)>, note: &str) -> Result<Vec<Ran>> {
    let (owner, jobs, now, note) = (memory.clone(), jobs.to_vec(), memory.clock().now(), note.to_owned());
    memory.commit_with(move |reader| {
        let mut commit = Commit { tenant: owner.tenant().clone(), writes: Vec::new() };
        let mut fresh: HashSet<ContentHash> = HashSet::new();
        if let Some((model, vectors)) = &made {
            fresh.extend(vectors.iter().map(|(hash, _)| *hash));
            commit.writes.push(Write::PutVectors(model.clone(), vectors.clone()));
        }
        let mut ran = Vec::with_capacity(jobs.len());
        for job in &jobs {
            let key = owner.key(job.conversation);
            let Some(mut stored) = reader.job(&key.tenant, job)? else {
                ran.push(Ran::Moot);
                continue;
            };
            if let Some((model, _)) = &made {
                let now_wanted = texts(reader, &key, &job.kind)?;
                let lacking = missing(&owner, reader, model, now_wanted)?;
                if lacking.iter().any(|(hash, _)| !fresh.contains(hash)) {
                    stored.release(now);
                    commit.writes.push(Write::PutJob(stored));
                    ran.push(Ran::Moot);
                    continue;
                }
            }
            commit.writes.push(Write::RemoveJob(stored));
            let note = if ran.contains(&Ran::Done) { "" } else { note.as_str() };
            commit.writes.push(Write::AddLog(released(job, now, note)));
            ran.push(Ran::Done);
        }
        Ok((commit, ran))
    })
}

fn released(job: &Job, now: Timestamp, note: &str) -> LogLine {
    let after = now.as_micros().saturating_sub(job.planned_at.as_micros()).max(0) / 1000;
    LogLine {
        at: now,
        conversation: Some(job.conversation),
        job: job.id,
        event: LogEvent::Release,
        text: format!("{} done, {after} ms after planning{note}", job.kind),
        took_ms: None,
    }
}

/// Whether a job is for an embedder.
pub(crate) const fn is_embedding(job: &Job) -> bool {
    matches!(job.kind, JobKind::EmbedTurn(_) | JobKind::EmbedNode(..))
}

/// The turns and nodes of a conversation that lack a kept vector and have no job for it: the jobs
/// that are missing.
pub(crate) fn gaps(memory: &Memory, reader: &dyn Reader, id: ConversationId) -> StoreResult<Vec<JobKind>> {
    let Some(index) = memory.kept_index(reader)? else { return Ok(Vec::new()) };
    let key = memory.key(id);
    let planned = reader.jobs(memory.tenant(), &JobFilter::of(id))?;
    let turns = reader.turns(&key, Span::starting(TurnNo(0), usize::MAX))?;
    let nodes = reader.nodes(&key, &NodeFilter::default())?;
    let kinds = turns.iter().map(|turn| JobKind::EmbedTurn(turn.no));
    let kinds = kinds.chain(nodes.iter().map(of_node));
    let mut gaps = Vec::new();
    for kind in kinds.filter(|kind| planned.iter().all(|job| job.kind != *kind)) {
        if !missing(memory, reader, &index.model, texts(reader, &key, &kind)?)?.is_empty() {
            gaps.push(kind);
        }
    }
    Ok(gaps)
}

/// Plans the jobs that are missing in a conversation, and says how many.
pub(crate) fn fill_gaps(memory: &Memory, id: ConversationId) -> Result<usize> {
    let (owner, now) = (memory.clone(), memory.clock().now());
    memory.commit_with(move |reader| {
        let gaps = gaps(&owner, reader, id)?;
        let number = gaps.len();
        let writes = gaps.into_iter().flat_map(|kind| planned(id, kind, now)).collect();
        Ok((Commit { tenant: owner.tenant().clone(), writes }, number))
    })
}
