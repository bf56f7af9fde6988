//! Events: one thing that came into the store.

use serde::Serialize;
use treering_core::ConversationId;
use treering_engine::News;

use super::{LogView, Slugs};

/// The data of an event.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct EventView {
    /// The id of the conversation.
    pub conversation: String,
    /// The slug of the conversation.
    pub slug: String,
    /// The turn whose messages were stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// The thread of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The positions of the messages that were stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<u32>>,
    /// The node that is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The level of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<u8>,
    /// What was sealed, or what failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LogView>,
}

impl EventView {
    /// The view of an event.
    pub fn of(news: &News, slugs: &mut Slugs<'_>) -> Self {
        let conversation = conversation_of(news);
        let mut view = Self {
            conversation: conversation.to_string(),
            slug: slugs.get(conversation),
            turn: None,
            thread: None,
            messages: None,
            node: None,
            level: None,
            log: None,
        };
        match news {
            News::Turn { turn, thread, messages, .. } => {
                (view.turn, view.thread) = (Some(turn.0), Some(thread.to_string()));
                view.messages = Some(messages.iter().map(|idx| idx.0).collect());
            }
            News::Node(_, node) => {
                (view.node, view.level) = (Some(node.id.to_string()), Some(node.level().number()));
            }
            News::Sealed(_, line) | News::Failed(_, line) => view.log = Some(LogView::of(line)),
        }
        view
    }
}

/// The conversation that news are about.
pub const fn conversation_of(news: &News) -> ConversationId {
    match news {
        News::Turn { conversation, .. }
        | News::Node(conversation, _)
        | News::Sealed(conversation, _)
        | News::Failed(conversation, _) => *conversation,
    }
}

/// The word for news in events and metrics.
pub const fn kind_of(news: &News) -> &'static str {
    match news {
        News::Turn { .. } => "turn",
        News::Sealed(..) => "sealed",
        News::Node(..) => "node",
        News::Failed(..) => "failed",
    }
}
