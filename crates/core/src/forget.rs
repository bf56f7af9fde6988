//! Forgetting: what a request erases, and which summaries must be regenerated without it. It
//! decides from messages, tool calls and nodes that the caller has read, and never erases
//! anything itself.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::hash::ContentHash;
use crate::ids::{ConversationId, ExternalId, MessageIdx, ThreadName, TurnNo};
use crate::label::Label;
use crate::message::Message;
use crate::node::{Coverage, Level, Node, NodeId};
use crate::retention::RetentionRule;
use crate::tool::ToolCall;

/// How many messages before a window may supply its overlap.
pub const OVERLAP_LOOK_BACK: u32 = 16;

/// The target of a forget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForgetTarget {
    /// Part of a conversation. The conversation stays, with placeholders.
    Items(ConversationId, ItemSelection),
    /// A whole conversation.
    Conversation(ConversationId),
    /// Every message of an author, ignoring case, in all conversations.
    Author(String),
    /// Every conversation whose working directory or project path is this folder or lies below
    /// it.
    Project(String),
    /// Every conversation with this label.
    Label(Label),
    /// Every conversation that one of these rules says is too old to keep.
    Expired(Vec<RetentionRule>),
    /// Every secret, in all conversations. The rest of each message stays.
    Secrets,
    /// Every conversation of the tenant.
    Tenant,
}

impl ForgetTarget {
    /// The name of the kind. It does not reveal what was forgotten.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Items(_, selection) => selection.kind(),
            Self::Conversation(_) => "conversation",
            Self::Author(_) => "author",
            Self::Project(_) => "project",
            Self::Label(_) => "label",
            Self::Expired(_) => "retention",
            Self::Secrets => "secrets",
            Self::Tenant => "tenant",
        }
    }
}

/// Part of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemSelection {
    /// One message, without the tool calls before it.
    Message(MessageIdx),
    /// The messages and tool calls of one turn.
    Turn(TurnNo),
    /// The messages from the first position to the last, inclusive, with their tool calls.
    Range(MessageIdx, MessageIdx),
    /// The messages and tool calls of one thread.
    Thread(ThreadName),
    /// The messages of an author, ignoring case.
    Author(String),
    /// The secrets of the messages and tool calls. The rest of each stays.
    Secrets,
}

impl ItemSelection {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Message(_) => "message",
            Self::Turn(_) => "turn",
            Self::Range(..) => "range",
            Self::Thread(_) => "thread",
            Self::Author(_) => "author",
            Self::Secrets => "secrets",
        }
    }

    /// Whether a message is selected.
    #[must_use]
    pub fn has_message(&self, message: &Message) -> bool {
        match self {
            Self::Message(idx) => message.idx == *idx,
            Self::Turn(turn) => message.turn == *turn,
            Self::Range(first, last) => (*first..=*last).contains(&message.idx),
            Self::Thread(thread) => message.thread == *thread,
            Self::Author(author) => {
                let folded = author.to_lowercase();
                message.body.author.as_ref().is_some_and(|it| it.to_lowercase() == folded)
            }
            Self::Secrets => message.clone().mask(),
        }
    }

    /// Whether a tool call is selected. A call belongs to the message that follows it.
    #[must_use]
    pub fn has_call(&self, call: &ToolCall) -> bool {
        match self {
            Self::Message(_) | Self::Author(_) => false,
            Self::Turn(turn) => call.turn == *turn,
            Self::Range(first, last) => (*first..=*last).contains(&call.before),
            Self::Thread(thread) => call.thread == *thread,
            Self::Secrets => call.call.clone().mask(),
        }
    }
}

/// The position of a node in the tree of a conversation, and its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePlace {
    /// The level.
    pub level: Level,
    /// The ordinal within the level.
    pub ordinal: u32,
    /// The id.
    pub id: NodeId,
}

/// The place in the tree of a node that was removed to be regenerated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedNode {
    /// The ordinal of the group that covers it.
    pub parent: Option<u32>,
}

/// The nodes whose text may contain something of the messages and tool calls: the windows over
/// them, all ancestors and the top, from the bottom up.
#[must_use]
pub fn nodes_to_regenerate<'a>(
    nodes: &'a [Node],
    messages: &[Message],
    calls: &[ToolCall],
) -> Vec<&'a Node> {
    let by_place: BTreeMap<(Level, u32), &Node> =
        nodes.iter().map(|node| ((node.level(), node.ordinal()), node)).collect();
    let touched =
        nodes.iter().filter(|node| is_window_over(node, messages, calls)).map(place).collect();
    let mut rewritten: BTreeSet<(Level, u32)> = BTreeSet::new();
    let mut open: Vec<(Level, u32)> = touched;
    while let Some(next) = open.pop() {
        if !rewritten.insert(next) {
            continue;
        }
        let parent = by_place.get(&next).and_then(|node| node.parent);
        let parent = parent.map(|parent| (next.0.above(), parent));
        open.extend(parent.filter(|parent| by_place.contains_key(parent)));
    }
    if !rewritten.is_empty() {
        rewritten.extend(nodes.iter().filter(|node| node.spec.is_top()).map(place));
    }
    rewritten.into_iter().filter_map(|position| by_place.get(&position).copied()).collect()
}

const fn place(node: &Node) -> (Level, u32) {
    (node.level(), node.ordinal())
}

/// Whether a window covers one of the items, or begins with the end of one of the messages.
fn is_window_over(node: &Node, messages: &[Message], calls: &[ToolCall]) -> bool {
    let Coverage::Messages(window) = &node.spec.covers else { return false };
    let reach = match node.spec.style.overlap_chars {
        0 => 0,
        _ => OVERLAP_LOOK_BACK,
    };
    let from = MessageIdx(window.from.idx.0.saturating_sub(reach));
    let covers = |message: &Message| {
        message.thread == window.thread && (from..window.end()).contains(&message.idx)
    };
    messages.iter().any(covers) || calls.iter().any(|call| window.has_call(call))
}

/// Marks something as forgotten without revealing it. The store keeps only its salted hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tombstone {
    /// A conversation by its id.
    Conversation(ConversationId),
    /// A conversation by its id at the source.
    Source(ExternalId),
    /// A conversation by its id at the source and the hash of its first message that was not
    /// forgotten before, with its position, for sources without stable ids.
    Opening(ExternalId, MessageIdx, ContentHash),
    /// A conversation by its id at the source, if all of its messages were forgotten before.
    AnyOpening(ExternalId),
    /// A message or tool call of a conversation.
    Item(ConversationId, ExternalId),
    /// A message or tool call with an id that is unique across conversations.
    UniqueItem(ExternalId),
}

/// The tombstones of a store, to be taken over by another. They reveal nothing about what was
/// forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TombstoneSet {
    /// The salts of the hashes. Any hash may have been made with any of them.
    pub salts: Vec<Vec<u8>>,
    /// The hashes.
    pub hashes: Vec<ContentHash>,
}

impl Tombstone {
    /// The hash to store.
    #[must_use]
    pub fn hash(&self, salt: &[u8]) -> ContentHash {
        let hash_at = |idx: &MessageIdx, hash: &ContentHash| {
            [idx.0.to_le_bytes().as_slice(), hash.as_bytes()].concat()
        };
        let opening = match self {
            Self::Opening(_, idx, hash) => hash_at(idx, hash),
            _ => Vec::new(),
        };
        let (kind, first, second): (&[u8], &[u8], &[u8]) = match self {
            Self::Conversation(id) => (b"conversation", id.as_bytes(), b""),
            Self::Source(id) => (b"source", id.as_str().as_bytes(), b""),
            Self::Opening(id, ..) => (b"opening", id.as_str().as_bytes(), &opening),
            Self::AnyOpening(id) => (b"any-opening", id.as_str().as_bytes(), b""),
            Self::Item(conversation, id) => {
                (b"item", conversation.as_bytes(), id.as_str().as_bytes())
            }
            Self::UniqueItem(id) => (b"unique-item", id.as_str().as_bytes(), b""),
        };
        ContentHash::of_fields(&[salt, kind, first, second])
    }
}
