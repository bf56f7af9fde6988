//! The result of an append.

use serde::Serialize;
use treering_core::EntryOutcome;
use treering_engine::AppendReport;

/// The result of an append.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct AppendedView {
    /// The conversation's id.
    pub conversation: String,
    /// The conversation's slug.
    pub slug: String,
    /// Whether the conversation is new.
    pub created: bool,
    /// Positions of the stored messages.
    pub messages: Vec<u32>,
    /// Number of stored tool calls.
    pub tool_calls: usize,
    /// Number of tool calls that received their result.
    pub results: usize,
    /// Number of entries that were already stored.
    pub known: usize,
    /// Number of entries whose content differs from the stored entry with the same id. The stored
    /// entry is kept.
    pub differs: usize,
    /// Number of entries that were not stored because they were forgotten.
    #[serde(skip_serializing_if = "is_zero")]
    pub forgotten: usize,
    /// Number of passages between `<private>` tags, which were left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub private: usize,
    /// Number of entries that were not stored because their folder is excluded, and of words that
    /// match an excluded pattern, which were left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub excluded: usize,
}

const fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl AppendedView {
    /// Builds the view of an append report.
    #[must_use]
    pub fn of(appended: &AppendReport) -> Self {
        let mut view = Self {
            conversation: appended.conversation.id.to_string(),
            slug: appended.conversation.slug.clone(),
            created: appended.created,
            messages: Vec::new(),
            tool_calls: 0,
            results: 0,
            known: 0,
            differs: 0,
            forgotten: 0,
            private: appended.private_passages as usize,
            excluded: appended.excluded_words as usize,
        };
        for outcome in &appended.outcomes {
            match outcome {
                EntryOutcome::Message(idx) => view.messages.push(idx.0),
                EntryOutcome::ToolCall(_) => view.tool_calls += 1,
                EntryOutcome::Finished => view.results += 1,
                EntryOutcome::AlreadyStored | EntryOutcome::InOtherConversation => view.known += 1,
                EntryOutcome::ContentDiffers => view.differs += 1,
                EntryOutcome::Forgotten => view.forgotten += 1,
                EntryOutcome::Excluded => view.excluded += 1,
                EntryOutcome::Thread | EntryOutcome::TurnEnded => {}
            }
        }
        view
    }
}
