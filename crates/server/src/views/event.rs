//! Views of change feed events.

use serde::Serialize;
use treering_core::ConversationId;
use treering_engine::Event;

use super::{LogView, Slugs};

/// The payload of an event.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct EventView {
    /// The conversation's id.
    pub conversation: String,
    /// The conversation's slug.
    pub slug: String,
    /// The turn that received messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// The turn's thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Positions of the stored messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<u32>>,
    /// The finished node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The node's level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<u8>,
    /// The log line of a seal or a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LogView>,
}

impl EventView {
    /// Builds the view of an event.
    pub fn of(event: &Event, slugs: &mut Slugs<'_>) -> Self {
        let conversation = conversation_of(event);
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
        match event {
            Event::Turn { turn, thread, messages, .. } => {
                (view.turn, view.thread) = (Some(turn.0), Some(thread.to_string()));
                view.messages = Some(messages.iter().map(|idx| idx.0).collect());
            }
            Event::Node(_, node) => {
                (view.node, view.level) = (Some(node.id.to_string()), Some(node.level().number()));
            }
            Event::Sealed(_, line) | Event::Failed(_, line) => view.log = Some(LogView::of(line)),
        }
        view
    }
}

/// The conversation that an event belongs to.
pub const fn conversation_of(event: &Event) -> ConversationId {
    match event {
        Event::Turn { conversation, .. }
        | Event::Node(conversation, _)
        | Event::Sealed(conversation, _)
        | Event::Failed(conversation, _) => *conversation,
    }
}

/// The event name used in the stream and in metrics.
pub const fn kind_of(event: &Event) -> &'static str {
    match event {
        Event::Turn { .. } => "turn",
        Event::Sealed(..) => "sealed",
        Event::Node(..) => "node",
        Event::Failed(..) => "failed",
    }
}
