//! The filter by topics, entities and tags, which the nodes list.

use treering_core::ports::{NodeFilter, StoreResult};
use treering_core::{ConversationId, Coverage, Level, MessageIdx, NodeContent, Reader, ThreadName};

use super::HitItem;

/// Whether a node lists one of the names, or a message or tool call lies under a node of level 1
/// that does. Everything passes if there are no names.
pub(super) fn has_one(
    reader: &dyn Reader,
    conversation: ConversationId,
    item: &HitItem,
    names: &[String],
) -> StoreResult<bool> {
    if names.is_empty() {
        return Ok(true);
    }
    let (thread, idx): (&ThreadName, MessageIdx) = match item {
        HitItem::Node(node) => return Ok(lists_one(&node.content, names)),
        HitItem::Message(message) => (&message.thread, message.idx),
        HitItem::ToolCall(call) => (&call.thread, call.before),
    };
    let around = NodeFilter { around: Some(idx), ..NodeFilter::at(Level::FIRST) };
    let nodes = reader.nodes(conversation, &around)?;
    Ok(nodes.iter().any(|node| {
        let is_own = |covers: &Coverage| matches!(covers, Coverage::Messages(window) if window.thread == *thread);
        is_own(&node.spec.covers) && lists_one(&node.content, names)
    }))
}

fn lists_one(content: &NodeContent, names: &[String]) -> bool {
    let NodeContent { topics, entities, identifiers, tags, .. } = content;
    let mut listed = topics.iter().chain(entities).chain(identifiers).chain(tags);
    listed.any(|listed| names.iter().any(|name| is_same(listed, name)))
}

fn is_same(listed: &str, name: &str) -> bool {
    listed.to_lowercase() == name.trim().to_lowercase()
}
