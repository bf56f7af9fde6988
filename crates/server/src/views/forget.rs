//! The result of a forget, and the audit. Both have ids, positions and counts, never content.

use serde::Serialize;
use treering_core::{AuditRecord, AuditedConversation, ErasedCounts, NodeId};
use treering_engine::{ForgetPreview, ForgetReport, ForgetSample};
use utoipa::ToSchema;

/// The effect of a forget, or of its preview.
#[derive(Debug, Serialize, ToSchema)]
pub struct ForgetView {
    /// Whether it was forgotten; `false` for a preview.
    pub forgotten: bool,
    /// Confirms this preview: repeat the request with it to forget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The id of the record in the audit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// The kind of target.
    pub target: String,
    /// The conversations that change or go.
    pub conversations: Vec<ForgetEffectView>,
    /// The beginnings of the first messages that would go, in a preview.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<ForgetSampleView>,
    /// The number of rows erased, by kind.
    pub erased: ErasedView,
    /// The number of vectors removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vectors: Option<usize>,
    /// The number of tombstones, which keep an import from bringing it back.
    pub tombstones: u32,
    /// The copies of the store in its folder and below it that are deleted.
    pub copies: Vec<String>,
    /// The bytes in the files of the store: `erased`, `postponed`, or `pending` with the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
}

/// The beginning of a message that would go. Its secrets are masked.
#[derive(Debug, Serialize, ToSchema)]
pub struct ForgetSampleView {
    /// The conversation's slug.
    pub slug: String,
    /// The position.
    pub idx: u32,
    /// The author, or the role without one.
    pub speaker: String,
    /// The beginning of the text, on one line.
    pub text: String,
}

/// The effect on one conversation.
#[derive(Debug, Serialize, ToSchema)]
pub struct ForgetEffectView {
    /// The conversation's id.
    pub id: String,
    /// The conversation's slug, in a preview.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slug: Option<String>,
    /// Whether the whole conversation goes.
    pub removed: bool,
    /// The positions of the messages: the first and the last of each run.
    #[schema(value_type = Vec<Vec<u32>>)]
    pub messages: Vec<(u32, u32)>,
    /// The number of rows erased, by kind.
    pub erased: ErasedView,
    /// The nodes that are regenerated.
    pub rewritten: Vec<RewrittenNodeView>,
}

/// A node that is regenerated.
#[derive(Debug, Serialize, ToSchema)]
pub struct RewrittenNodeView {
    /// The level.
    pub level: u8,
    /// The id before.
    pub old_id: String,
    /// The current id; absent until the node is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_id: Option<String>,
}

/// The number of rows erased, by kind.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct ErasedView {
    /// Messages.
    pub messages: u32,
    /// Tool calls.
    pub tool_calls: u32,
    /// Nodes.
    pub nodes: u32,
    /// Jobs that worked on erased content.
    pub jobs: u32,
    /// Job events.
    pub events: u32,
}

impl From<ErasedCounts> for ErasedView {
    fn from(it: ErasedCounts) -> Self {
        let ErasedCounts { messages, tool_calls, nodes, jobs, events } = it;
        Self { messages, tool_calls, nodes, jobs, events }
    }
}

impl ForgetView {
    /// The view of a preview.
    #[must_use]
    pub fn of_preview(preview: ForgetPreview) -> Self {
        let mut view = Self::of_record(&preview.record, &[]);
        for (conversation, slug) in view.conversations.iter_mut().zip(preview.slugs) {
            conversation.slug = Some(slug);
        }
        let sample = |it: ForgetSample| ForgetSampleView {
            slug: it.slug,
            idx: it.idx.0,
            speaker: it.speaker,
            text: it.text,
        };
        let samples = preview.samples.into_iter().map(sample).collect();
        let copies = preview.copies.iter().map(|path| path.display().to_string()).collect();
        let token = Some(preview.token);
        Self { forgotten: false, token, record: None, samples, copies, ..view }
    }

    /// The view of a report.
    #[must_use]
    pub fn of_report(report: &ForgetReport) -> Self {
        let view = Self::of_record(&report.record, &report.new_ids);
        let (bytes, copies) = match &report.scrub {
            None => ("postponed".to_owned(), Vec::new()),
            Some(scrub) => {
                let pending = scrub.pending.as_ref().map(|reason| format!("pending: {reason}"));
                let deleted = scrub.deleted.iter().map(|path| path.display().to_string());
                (pending.unwrap_or_else(|| "erased".to_owned()), deleted.collect())
            }
        };
        Self { vectors: Some(report.vectors), bytes: Some(bytes), copies, ..view }
    }

    fn of_record(record: &AuditRecord, new_ids: &[Option<NodeId>]) -> Self {
        Self {
            forgotten: true,
            token: None,
            record: Some(record.id.clone()),
            target: record.target.clone(),
            conversations: effects(record, new_ids),
            samples: Vec::new(),
            erased: record.erased().into(),
            vectors: None,
            tombstones: record.tombstones,
            copies: Vec::new(),
            bytes: None,
        }
    }
}

fn effects(record: &AuditRecord, new_ids: &[Option<NodeId>]) -> Vec<ForgetEffectView> {
    let mut new_ids = new_ids.iter();
    let mut effect = |it: &AuditedConversation| ForgetEffectView {
        id: it.id.clone(),
        slug: None,
        removed: it.removed,
        messages: it.messages.clone(),
        erased: it.erased.into(),
        rewritten: it
            .rewritten
            .iter()
            .map(|node| RewrittenNodeView {
                level: node.level,
                old_id: node.old_id.clone(),
                new_id: new_ids.next().and_then(|id| id.as_ref().map(ToString::to_string)),
            })
            .collect(),
    };
    record.conversations.iter().map(&mut effect).collect()
}

/// A record whose tombstones were removed.
#[derive(Debug, Serialize, ToSchema)]
pub struct AllowedReturnView {
    /// The id of the record.
    pub record: String,
}

/// The audit.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditList {
    /// The records, oldest first.
    pub records: Vec<AuditRecordView>,
    /// The number of forgets whose bytes may still be in the files of the store.
    pub pending_scrubs: u32,
}

/// One act of forgetting.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditRecordView {
    /// The id of the record.
    pub id: String,
    /// The time.
    pub at: String,
    /// The kind of target.
    pub target: String,
    /// The number of rows erased, by kind.
    pub erased: ErasedView,
    /// The number of tombstones that were left.
    pub tombstones: u32,
    /// The conversations that changed or went.
    pub conversations: Vec<ForgetEffectView>,
}

impl AuditRecordView {
    /// The view of a record, with the current ids of its nodes.
    #[must_use]
    pub fn of(record: &AuditRecord, new_ids: &[Option<NodeId>]) -> Self {
        Self {
            id: record.id.clone(),
            at: record.time().to_string(),
            target: record.target.clone(),
            erased: record.erased().into(),
            tombstones: record.tombstones,
            conversations: effects(record, new_ids),
        }
    }
}
