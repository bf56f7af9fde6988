//! Forgets: erases messages, turns, threads, conversations, authors, projects or a whole tenant,
//! with everything that was derived from them.
//!
//! One commit erases the rows and plans the summaries to regenerate. Vectors without an owner and
//! the bytes in the files of the store follow; until they are erased, `verify` reports them.

mod plan;
mod selection;

use std::path::PathBuf;

use treering_core::ports::{NodeFilter, ScrubReport, Span};
use treering_core::text::preview;
use treering_core::{
    AuditRecord, AuditedConversation, ContentHash, ConversationId, ForgetTarget, Invalid, Level,
    MessageIdx, NodeId, Reader, RetentionRule, TombstoneSet, Write,
};

use crate::engine::Engine;
use crate::error::Result;
use crate::kill_points::{self, KillPoint};
use crate::orphaned_vectors;
use crate::worker::{JobScope, Worker};
use plan::ForgetPlanner;

/// Maximum number of messages that a preview quotes.
const MAX_SAMPLES: usize = 10;
/// Maximum length of a quotation, in characters.
const SAMPLE_CHARS: usize = 120;

/// A request to forget.
#[derive(Debug, Clone)]
pub struct Forget {
    /// The target.
    pub target: ForgetTarget,
    /// Whether a later import may bring it back, because no tombstones are left.
    pub allow_return: bool,
    /// Whether the bytes in the files of the store are erased later.
    pub fast: bool,
    /// The token of a preview. If the target has changed since, nothing is forgotten.
    pub token: Option<String>,
}

impl Forget {
    /// A request to forget everything about a target, for good and at once.
    #[must_use]
    pub const fn new(target: ForgetTarget) -> Self {
        Self { target, allow_return: false, fast: false, token: None }
    }
}

/// The effect that a forget would have.
#[derive(Debug, Clone)]
pub struct ForgetPreview {
    /// The record that would be added to the audit, without its id.
    pub record: AuditRecord,
    /// The slug of each conversation of the record.
    pub slugs: Vec<String>,
    /// The beginnings of the first messages that would go.
    pub samples: Vec<ForgetSample>,
    /// The copies of the store in its folder and below it, which would be deleted.
    pub copies: Vec<PathBuf>,
    /// Confirms exactly this preview.
    pub token: String,
}

/// The beginning of a message that would go, so that a person recognizes it. Its secrets are masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgetSample {
    /// The slug of the conversation.
    pub slug: String,
    /// The position of the message.
    pub idx: MessageIdx,
    /// The author, or the role without one.
    pub speaker: String,
    /// The beginning of the text, on one line.
    pub text: String,
}

/// The result of forgetting.
#[derive(Debug, Clone)]
pub struct ForgetReport {
    /// The record in the audit.
    pub record: AuditRecord,
    /// The number of vectors removed.
    pub vectors: usize,
    /// The current id of each regenerated node of the record, in order; `None` until it is written.
    pub new_ids: Vec<Option<NodeId>>,
    /// The erased bytes; `None` if that was postponed.
    pub scrub: Option<ScrubReport>,
}

impl Engine {
    /// The effect that a request would have. Forgets nothing.
    pub fn preview_forget(&self, request: &Forget) -> Result<ForgetPreview> {
        let planner = self.forget_planner(request, String::new());
        let reader = self.reader()?;
        let (_, record) = planner.plan(&*reader)?;
        let mut slugs = Vec::new();
        for conversation in &record.conversations {
            let found = reader.conversation(conversation.id.parse()?)?;
            slugs.push(found.map_or_else(String::new, |it| it.slug));
        }
        let samples = samples(&*reader, &record, &slugs)?;
        drop(reader);
        let copies = self.store().maintenance().copies();
        Ok(ForgetPreview { token: token_of(&record), record, slugs, samples, copies })
    }

    /// Forgets. The rows are erased when this returns, and so are the bytes unless the request
    /// postpones that. A local summarizer also regenerates the changed summaries.
    pub fn forget(&self, request: &Forget) -> Result<ForgetReport> {
        let planner = self.forget_planner(request, random_record_id()?);
        let token = request.token.clone();
        let record = self.commit_with(self.tenant_scope(), move |reader| {
            let (writes, record) = planner.plan(reader)?;
            if token.as_ref().is_some_and(|token| *token != token_of(&record)) {
                let reason = "what would be forgotten has changed since the preview; preview again";
                return Err(Invalid::new("token", reason).into());
            }
            Ok((writes, record))
        })?;
        kill_points::check(KillPoint::Forgotten);
        self.finish_forget(record, request.fast)
    }

    /// Completes a forget after its commit.
    fn finish_forget(&self, record: AuditRecord, fast: bool) -> Result<ForgetReport> {
        self.long_message_cache().clear();
        self.context_cache().clear();
        if self.is_local() {
            self.rewrite(&record)?;
        }
        let vectors = orphaned_vectors::remove_orphaned_vectors(self)?;
        let scrub = match fast {
            true => None,
            false => {
                self.discard_index()?;
                Some(self.erase_bytes()?)
            }
        };
        let new_ids = self.new_ids(&record)?;
        Ok(ForgetReport { record, vectors, new_ids, scrub })
    }

    /// Runs the jobs that regenerate the changed summaries.
    fn rewrite(&self, record: &AuditRecord) -> Result<()> {
        let worker = Worker::new(self.clone())?;
        for conversation in record.conversations.iter().filter(|it| !it.rewritten.is_empty()) {
            let id: ConversationId = conversation.id.parse()?;
            let scope = JobScope { conversation: Some(id), ..JobScope::default() };
            worker.run(&scope, &|_, _| {})?;
        }
        Ok(())
    }

    /// The current ids of the nodes that a record lists; `None` for those that are not written.
    pub fn new_ids(&self, record: &AuditRecord) -> Result<Vec<Option<NodeId>>> {
        let reader = self.reader()?;
        let mut ids = Vec::new();
        for conversation in &record.conversations {
            let id: ConversationId = conversation.id.parse()?;
            for node in &conversation.rewritten {
                let ordinals = Some(Span::between(node.ordinal, node.ordinal + 1));
                let filter = Level::new(node.level)
                    .map(|level| NodeFilter { ordinals, ..NodeFilter::at(level) });
                let found = filter.map(|filter| reader.nodes(id, &filter)).transpose()?;
                let current = found.and_then(|mut found| found.pop()).filter(|node| !node.dirty);
                ids.push(current.map(|node| node.id));
            }
        }
        Ok(ids)
    }

    /// Completes earlier forgets of all tenants that were postponed or interrupted: removes the
    /// vectors and erases the bytes that they left in the files of the store.
    pub fn scrub(&self) -> Result<ScrubReport> {
        for tenant in self.tenants()? {
            let engine = self.for_tenant(tenant);
            orphaned_vectors::remove_orphaned_vectors(&engine)?;
            engine.discard_index()?;
        }
        self.erase_bytes()
    }

    fn erase_bytes(&self) -> Result<ScrubReport> {
        kill_points::check(KillPoint::Scrubbing);
        Ok(self.store().maintenance().scrub()?)
    }

    /// The number of forgets whose bytes may still be in the files of the store.
    pub fn pending_scrubs(&self) -> Result<u32> {
        Ok(self.store().maintenance().pending_scrubs()?)
    }

    /// The audit records whose ids start with `prefix`, oldest first; at most the latest `limit`.
    pub fn audit(&self, prefix: &str, limit: usize) -> Result<Vec<AuditRecord>> {
        Ok(self.reader()?.audit().records(prefix, limit)?)
    }

    /// Lets an import bring back what an audit record lists. Nothing is restored.
    pub fn allow_return(&self, record: &str) -> Result<AuditRecord> {
        let unknown = || Invalid::new(format!("audit record {record:?}"), "it does not exist");
        let found = self.audit(record, 2)?.into_iter().find(|it| it.id == record);
        let found = found.ok_or_else(unknown)?;
        let id = found.id.clone();
        self.commit_with(self.tenant_scope(), move |_| {
            Ok((vec![Write::RemoveTombstones(id.clone())], ()))
        })?;
        Ok(found)
    }

    /// Whether one of these rules says that a conversation is too old to keep.
    pub fn has_expired(&self, rules: &[RetentionRule]) -> Result<bool> {
        Ok(!rules.is_empty()
            && !plan::expired(&*self.reader()?, rules, self.clock().now())?.is_empty())
    }

    /// All tombstones, for an export.
    pub fn tombstones(&self) -> Result<TombstoneSet> {
        Ok(self.reader()?.audit().tombstones()?)
    }

    /// Takes over the tombstones of an export, so that an older copy of the same conversations does
    /// not bring back what was forgotten there. Returns how many are new. What is stored already
    /// stays.
    pub fn take_over_tombstones(&self, from: &TombstoneSet) -> Result<usize> {
        let (from, id, now) = (from.clone(), random_record_id()?, self.clock().now());
        self.commit_with(self.tenant_scope(), move |reader| {
            let known = reader.audit().tombstones()?.hashes;
            let mut from = from.clone();
            from.hashes.retain(|hash| known.binary_search(hash).is_err());
            let new = from.hashes.len();
            let record = AuditRecord {
                id: id.clone(),
                at: now.as_micros(),
                target: "tombstones".to_owned(),
                conversations: Vec::new(),
                tombstones: u32::try_from(new).unwrap_or(u32::MAX),
            };
            let write = Write::TakeOverTombstones(record, from);
            Ok(((new > 0).then_some(write).into_iter().collect(), new))
        })
    }

    fn forget_planner(&self, request: &Forget, id: String) -> ForgetPlanner {
        ForgetPlanner {
            engine: self.clone(),
            target: request.target.clone(),
            leaves_tombstones: !request.allow_return,
            id,
            now: self.clock().now(),
        }
    }
}

/// The token of a preview: a hash of the messages and tool calls that would be forgotten. Summaries are left
/// out, since they can be regenerated and may change at any time while the tree grows.
fn token_of(record: &AuditRecord) -> String {
    let mut described = record.target.clone();
    for AuditedConversation { id, removed, messages, erased, .. } in &record.conversations {
        let calls = erased.tool_calls;
        described += &format!(" {id} {removed} {messages:?} {} {calls}", erased.messages);
    }
    ContentHash::of_fields(&[described.as_bytes()]).to_string()
}

/// The beginnings of the first messages of a record, of as many conversations as possible.
fn samples(
    reader: &dyn Reader,
    record: &AuditRecord,
    slugs: &[String],
) -> Result<Vec<ForgetSample>> {
    let most = MAX_SAMPLES.div_ceil(record.conversations.len().max(1));
    let mut samples = Vec::new();
    for (conversation, slug) in record.conversations.iter().zip(slugs) {
        let positions = conversation.messages.iter().flat_map(|(first, last)| *first..=*last);
        for idx in positions.take(most.min(MAX_SAMPLES - samples.len())).map(MessageIdx) {
            let found = reader.messages(conversation.id.parse()?, Span::starting(idx, 1))?.pop();
            let Some(mut message) = found.filter(|it| !it.body.forgotten) else { continue };
            message.mask();
            let body = message.body;
            samples.push(ForgetSample {
                slug: slug.clone(),
                idx,
                speaker: body.author.unwrap_or_else(|| body.role.to_string()),
                text: preview(&body.text, SAMPLE_CHARS),
            });
        }
    }
    Ok(samples)
}

fn random_record_id() -> Result<String> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| {
        let reason = format!("the random number generator of the system failed: {error}");
        Invalid::new("audit record", reason)
    })?;
    let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("forget-{digits}"))
}
