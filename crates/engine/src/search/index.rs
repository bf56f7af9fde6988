//! The in-memory search index of a tenant. It is derived: a process loads its sealed segments from
//! files, and applies the change feed before each search.

use std::collections::HashMap;
use std::ops::Range;

use treering_core::lexicon::{Lexer, TermId};
use treering_core::ports::{Cursor, ItemRef};
use treering_core::{
    ContentHash, ConversationId, Level, MessageIdx, NodeId, Role, ThreadName, Timestamp, TurnNo,
};

use super::postings::Postings;
use super::segment_chain::SegmentChain;

pub(super) const FLAG_USER: u8 = 1;
pub(super) const FLAG_QUESTION: u8 = 2;
pub(super) const FLAG_STANDING_INSTRUCTION: u8 = 4;
pub(super) const FLAG_DELETED: u8 = 8;
pub(super) const FLAG_TOOL_CALL: u8 = 16;

/// A message, tool call or node that can be found. The fields that every query scans are stored
/// apart, in [`ItemIndex::episode_of`] and [`ItemIndex::length_norms`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct IndexedItem {
    pub(super) at: Timestamp,
    /// The index of its conversation.
    pub(super) conversation: u32,
    /// The message's position, the turn of the call, or the node's ordinal.
    pub(super) number: u32,
    /// The previous and next items in its thread; for a level-1 node the first and last message
    /// it covers. The item itself if there is none.
    pub(super) before: u32,
    pub(super) after: u32,
    /// The level-1 node that covers it; the item itself if there is none.
    pub(super) cover: u32,
    /// The offset of its middle in its thread, in characters.
    pub(super) mid_char: f32,
    pub(super) chars: u32,
    /// The position of a tool call in its turn.
    pub(super) order: u16,
    pub(super) author: u16,
    pub(super) thread: u16,
    pub(super) level: u8,
    pub(super) role: u8,
    pub(super) flags: u8,
}

impl IndexedItem {
    pub(super) const fn is_message(&self) -> bool {
        self.level == 0 && self.flags & FLAG_TOOL_CALL == 0
    }

    pub(super) const fn is_deleted(&self) -> bool {
        self.flags & FLAG_DELETED != 0
    }
}

/// The extent of a node. Nodes are few, so it is stored apart from the items.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NodeExtent {
    /// The earliest time covered; the item's own time is the latest.
    pub(super) start: Timestamp,
    /// The threads of the covered messages.
    pub(super) threads: Vec<u16>,
    /// The thread and the positions of the messages that a level-1 node covers.
    pub(super) window: Option<(u16, Range<u32>)>,
    /// Its id, if it covers more than the main thread. The groups above it look up its threads.
    pub(super) id: Option<NodeId>,
}

/// The episode of items that belong to none: tool calls and nodes.
pub(super) const NO_EPISODE: u32 = u32::MAX;

/// Per-conversation data of the index.
#[derive(Debug)]
pub(super) struct ConversationEntry {
    pub(super) id: ConversationId,
    /// The range that contains the numbers of its items; empty while there are none.
    pub(super) numbers: Range<u32>,
    /// Its messages, in order.
    pub(super) items: Vec<u32>,
    /// Its tool calls and nodes.
    pub(super) others: Vec<u32>,
    /// The sum of its messages' vectors.
    pub(super) sum: Vec<f32>,
    pub(super) episode_count: u32,
    pub(super) authors: Vec<u16>,
    /// For each thread its last item and its length in characters.
    pub(super) thread_ends: Vec<(u16, u32, f64)>,
}

/// All searchable items of a tenant.
pub(super) struct ItemIndex {
    /// The model of the vectors.
    pub(super) model: String,
    pub(super) dims: usize,
    pub(super) items: Vec<IndexedItem>,
    /// The episode of each item.
    pub(super) episode_of: Vec<u32>,
    /// The length normalization factor of each item.
    pub(super) length_norms: Vec<f32>,
    pub(super) vectors: super::scan::QuantizedVectors,
    pub(super) postings: Postings,
    pub(super) conversations: Vec<ConversationEntry>,
    pub(super) entry_of: HashMap<ConversationId, u32>,
    /// The number of messages of each episode.
    pub(super) episode_sizes: Vec<u32>,
    pub(super) authors: Vec<String>,
    pub(super) threads: Vec<ThreadName>,
    /// The extent of each node, by item.
    pub(super) extents: HashMap<u32, NodeExtent>,
    /// The threads of nodes that cover more than the main thread.
    pub(super) side_threads: HashMap<NodeId, Vec<u16>>,
    /// The current version of replaceable items, by conversation, level (0 for tool calls),
    /// number and order.
    pub(super) current_items: HashMap<(u32, u8, u32, u16), u32>,
    /// The number of deleted items.
    pub(super) deleted: u32,
    /// The number of messages, and the sum of their vectors.
    pub(super) messages: u32,
    pub(super) sum: Vec<f32>,
    /// Items that wait for their vectors, by content hash.
    pub(super) pending_embeddings: HashMap<ContentHash, Vec<u32>>,
    pub(super) lexer: Lexer,
    /// The position in the change feed.
    pub(super) cursor: Cursor,
    /// The segments that are stored in files.
    pub(super) chain: SegmentChain,
}

/// The vector of an item, or the content hash that its vector will have.
pub(super) enum ItemEmbedding {
    Ready(Vec<f32>),
    Pending(ContentHash),
}

impl ItemIndex {
    pub(super) fn new(model: &str, dims: usize) -> Self {
        Self {
            model: model.to_owned(),
            dims,
            items: Vec::new(),
            episode_of: Vec::new(),
            length_norms: Vec::new(),
            vectors: super::scan::QuantizedVectors::new(dims),
            postings: Postings::default(),
            conversations: Vec::new(),
            entry_of: HashMap::new(),
            episode_sizes: Vec::new(),
            authors: Vec::new(),
            threads: Vec::new(),
            extents: HashMap::new(),
            side_threads: HashMap::new(),
            current_items: HashMap::new(),
            deleted: 0,
            messages: 0,
            sum: vec![0.0; dims],
            pending_embeddings: HashMap::new(),
            lexer: Lexer::default(),
            cursor: Cursor::start(),
            chain: SegmentChain::default(),
        }
    }

    /// Approximate memory use.
    pub(super) fn bytes(&self) -> usize {
        // An empty index: the stemming tables and the allocations around them.
        const EMPTY: usize = 16 << 10;
        let item = size_of::<IndexedItem>() + size_of::<u32>() + size_of::<f32>();
        let entry = |entry: &ConversationEntry| {
            size_of::<ConversationEntry>()
                + 4 * (entry.items.len() + entry.others.len() + entry.sum.len())
                + 128
        };
        EMPTY
            + self.items.len() * item
            + self.vectors.bytes()
            + self.postings.bytes()
            + self.conversations.iter().map(entry).sum::<usize>()
            + self.current_items.len() * 40
            + self.extents.len() * (size_of::<NodeExtent>() + 8)
            + self.side_threads.len() * 96
            + self.pending_embeddings.len() * 72
            + self.lexer.bytes()
    }

    /// The item's reference in the store.
    pub(super) fn item_ref(&self, item: u32) -> ItemRef {
        let it = &self.items[item as usize];
        let id = self.conversations[it.conversation as usize].id;
        match Level::new(it.level) {
            Some(level) => ItemRef::Node(id, level, it.number),
            None if it.flags & FLAG_TOOL_CALL != 0 => {
                ItemRef::ToolCall(id, TurnNo(it.number), it.order.into())
            }
            None => ItemRef::Message(id, MessageIdx(it.number)),
        }
    }

    /// The number of items that are not deleted.
    pub(super) fn live_items(&self) -> u32 {
        self.items.len() as u32 - self.deleted
    }

    /// The number of items that contain a term. Deleted items are left out of long lists only,
    /// because no caller tells short ones apart.
    pub(super) fn doc_freq(&self, term: TermId) -> u32 {
        let all = self.postings.doc_freq(term);
        if self.deleted == 0 || all <= self.live_items() / 2 {
            return all;
        }
        let range = 0..self.items.len() as u32;
        let runs = self.postings.segments(&range).map(|it| self.postings.run(term, it, &range));
        let is_live = |item: usize| !self.items[item].is_deleted();
        let live = runs.map(|(base, run)| {
            run.iter().filter(|item| is_live(base + usize::from(**item))).count() as u32
        });
        live.sum()
    }

    pub(super) fn entry_index(&self, id: ConversationId) -> Option<u32> {
        self.entry_of.get(&id).copied()
    }
}

pub(super) const fn role_code(role: Role) -> u8 {
    match role {
        Role::System => 0,
        Role::User => 1,
        Role::Assistant => 2,
        Role::Tool => 3,
    }
}
