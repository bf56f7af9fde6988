//! What became of what was appended.

use serde::Serialize;
use treering_core::capture::EntryOutcome;
use treering_engine::AppendReport;

/// What became of what was appended.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct AppendedView {
    /// The id of the conversation.
    pub conversation: String,
    /// The slug of the conversation.
    pub slug: String,
    /// Whether the conversation was made for it.
    pub created: bool,
    /// The positions of the messages that were stored.
    pub messages: Vec<u32>,
    /// Tool calls that were stored.
    pub tool_calls: usize,
    /// Tool calls that got their results.
    pub results: usize,
    /// Entries that were there before.
    pub known: usize,
    /// Entries that differ from what is stored under their ids; what was stored is kept.
    pub differs: usize,
}

impl AppendedView {
    /// The view of what became of entries.
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
        };
        for outcome in &appended.outcomes {
            match outcome {
                EntryOutcome::Message(idx) => view.messages.push(idx.0),
                EntryOutcome::ToolCall(_) => view.tool_calls += 1,
                EntryOutcome::Finished => view.results += 1,
                EntryOutcome::AlreadyStored | EntryOutcome::InOtherConversation => view.known += 1,
                EntryOutcome::ContentDiffers => view.differs += 1,
                EntryOutcome::Thread => {}
            }
        }
        view
    }
}
