//! Applies corrections and masks secrets before stored items are returned.

use std::collections::BTreeMap;
use std::ops::Range;

use treering_core::ports::{Span, StoreResult, StoredItem};
use treering_core::{
    ConversationId, Message, MessageIdx, MessageVersion, Node, Reader, Timestamp, ToolCall,
};

use crate::history::WholeTurn;
use crate::search::HitItem;

/// Settings of what is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecallOptions {
    /// Whether secrets are masked, by the same rules as for models.
    pub mask_secrets: bool,
}

impl Default for RecallOptions {
    fn default() -> Self {
        Self { mask_secrets: true }
    }
}

impl RecallOptions {
    /// A message as it is returned.
    #[must_use]
    pub fn message(self, message: Message) -> Message {
        let mut message = message.recalled();
        if self.mask_secrets {
            message.mask();
        }
        message
    }

    /// A tool call as it is returned.
    #[must_use]
    pub fn call(self, mut call: ToolCall) -> ToolCall {
        if self.mask_secrets {
            call.call.mask();
        }
        call
    }

    /// A node as it is returned.
    #[must_use]
    pub fn node(self, mut node: Node) -> Node {
        if self.mask_secrets {
            node.content.mask();
        }
        node
    }

    /// A turn as it is returned.
    #[must_use]
    pub fn turn(self, turn: WholeTurn) -> WholeTurn {
        WholeTurn {
            turn: turn.turn,
            messages: turn.messages.into_iter().map(|message| self.message(message)).collect(),
            tool_calls: turn.tool_calls.into_iter().map(|call| self.call(call)).collect(),
        }
    }

    /// A hit as it is returned.
    pub(crate) fn item(self, item: StoredItem) -> HitItem {
        match item {
            StoredItem::Message(message) => HitItem::Message(Box::new(self.message(*message))),
            StoredItem::ToolCall(call) => HitItem::ToolCall(Box::new(self.call(*call))),
            StoredItem::Node(node) => HitItem::Node(Box::new(self.node(*node))),
        }
    }
}

/// The messages of a conversation that were amended after a moment, as they were at that moment.
/// Empty for the present.
#[derive(Debug, Clone, Default)]
pub(crate) struct PastVersions(BTreeMap<u32, MessageVersion>);

impl PastVersions {
    pub(crate) fn read(
        reader: &dyn Reader,
        id: ConversationId,
        end: u32,
        moment: Timestamp,
    ) -> StoreResult<Self> {
        let span = Span::between(MessageIdx(0), MessageIdx(end));
        let mut versions = BTreeMap::new();
        for (idx, version) in reader.versions(id, span)? {
            // The version replaced first after that time was current.
            if version.replaced_at > moment {
                versions.entry(idx.0).or_insert(version);
            }
        }
        Ok(Self(versions))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of these messages is in a range.
    pub(crate) fn is_in(&self, range: Range<u32>) -> bool {
        self.0.range(range).next().is_some()
    }

    /// The positions of these messages.
    pub(crate) fn positions(&self) -> impl Iterator<Item = u32> {
        self.0.keys().copied()
    }

    /// An item as it was.
    pub(crate) fn restore_item(&self, item: StoredItem) -> StoredItem {
        match item {
            StoredItem::Message(message) => StoredItem::Message(Box::new(self.restore(*message))),
            other => other,
        }
    }

    /// A message as it was.
    pub(crate) fn restore(&self, mut message: Message) -> Message {
        let Some(version) = self.0.get(&message.idx.0) else { return message };
        message.set_content(version.text.clone(), version.parts.clone(), None);
        message.body.correction.clone_from(&version.correction);
        message.body.edited_at = None;
        message
    }
}
