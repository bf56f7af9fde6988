//! Exclusions: items that a search leaves out although they match.

use treering_core::{ConversationId, ItemSelection, MessageIdx, Role};

use super::HitItem;

/// Something that a search leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exclusion {
    /// A conversation, such as the calling session.
    Conversation(ConversationId),
    /// The messages of a conversation from the first position to the last, inclusive, with their
    /// tool calls and the nodes over nothing else.
    Messages(ConversationId, MessageIdx, MessageIdx),
    /// Messages with this role. The role of tools includes tool calls.
    Role(Role),
}

pub(super) fn conversations(all: &[Exclusion]) -> Vec<ConversationId> {
    let conversation = |it: &Exclusion| match it {
        Exclusion::Conversation(id) => Some(*id),
        Exclusion::Messages(..) | Exclusion::Role(_) => None,
    };
    all.iter().filter_map(conversation).collect()
}

pub(super) fn roles(all: &[Exclusion]) -> Vec<Role> {
    let role = |it: &Exclusion| match it {
        Exclusion::Role(role) => Some(*role),
        Exclusion::Conversation(_) | Exclusion::Messages(..) => None,
    };
    all.iter().filter_map(role).collect()
}

/// Whether a range of messages excludes an item. The index applies the other exclusions.
pub(super) fn is_excluded(all: &[Exclusion], conversation: ConversationId, item: &HitItem) -> bool {
    all.iter().any(|it| match it {
        Exclusion::Messages(id, first, last) if *id == conversation => {
            let range = ItemSelection::Range(*first, *last);
            match item {
                HitItem::Message(message) => range.has_message(message),
                HitItem::ToolCall(call) => range.has_call(call),
                HitItem::Node(node) => {
                    let (from, until) = (node.source.from, node.source.until);
                    first.0 <= from && until.saturating_sub(1) <= last.0
                }
            }
        }
        _ => false,
    })
}
