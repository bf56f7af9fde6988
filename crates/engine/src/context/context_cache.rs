//! The tally: what blocks cost in tokens, nodes and what lies below them, and what sealed windows are made
//! of. Counting and reading are slow beside everything else a context takes, and the same pieces come again
//! turn after turn; so they are remembered.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use treering_core::node::{Slice, Window};
use treering_core::packing::{DetailLevel, HeaderStyle, Piece};
use treering_core::ports::NodeVersion;
use treering_core::{
    ContentHash, ConversationKey, Message, Node, NodeId, TenantId, Timestamp, Tokenizer, ToolCall,
};

use super::render::MessageBlock;

/// A node as it was written at one moment: written anew, it is another one.
type NodeCacheKey = (ConversationKey, NodeId, Timestamp);

/// A sealed window as it was said.
pub(super) struct CachedWindow {
    pub(super) pieces: Vec<Piece>,
    /// The message before it.
    pub(super) before: Option<Arc<Message>>,
    /// Every message in its span, of whatever thread, in order.
    pub(super) messages: Vec<Arc<Message>>,
    /// The tool calls before each of them.
    pub(super) calls: HashMap<u32, Vec<ToolCall>>,
    told: BoundedCache<(Slice, HeaderStyle, DetailLevel), RenderedBlock>,
}

/// A message as it is written.
#[derive(Clone)]
pub(super) struct RenderedBlock {
    pub(super) block: String,
    pub(super) hash: ContentHash,
    pub(super) tokens: u32,
}

impl RenderedBlock {
    pub(super) fn new(block: String, tokens: u32) -> Self {
        Self { hash: ContentHash::of_fields(&[block.as_bytes()]), block, tokens }
    }
}

impl CachedWindow {
    pub(super) fn new(
        pieces: Vec<Piece>,
        before: Option<Arc<Message>>,
        messages: Vec<Arc<Message>>,
        calls: HashMap<u32, Vec<ToolCall>>,
    ) -> Self {
        // Each is told in few ways.
        let told = BoundedCache::new(8 * messages.len());
        Self { pieces, before, messages, calls, told }
    }

    /// One of its messages as it is written, which `write` does the first time.
    pub(super) fn told(
        &self,
        said: &MessageBlock<'_>,
        grain: DetailLevel,
        write: impl FnOnce() -> RenderedBlock,
    ) -> RenderedBlock {
        self.told.get_or((said.slice, said.lead, grain), write)
    }
}

/// Counts tokens, and remembers what it has counted.
pub(crate) struct ContextCache {
    tokenizer: Arc<dyn Tokenizer>,
    counts: BoundedCache<ContentHash, u32>,
    pieces: BoundedCache<NodeCacheKey, Piece>,
    nodes: BoundedCache<(TenantId, u64), Arc<Node>>,
    below: BoundedCache<NodeCacheKey, Vec<Arc<Node>>>,
    said: BoundedCache<(ConversationKey, Window), Arc<CachedWindow>>,
}

impl ContextCache {
    pub(crate) fn new(tokenizer: Arc<dyn Tokenizer>) -> Self {
        Self {
            tokenizer,
            counts: BoundedCache::new(1 << 16),
            pieces: BoundedCache::new(1 << 12),
            nodes: BoundedCache::new(1 << 11),
            below: BoundedCache::new(1 << 10),
            said: BoundedCache::new(1 << 11),
        }
    }

    /// How many tokens a block has.
    pub(crate) fn count(&self, block: &str) -> u32 {
        self.counts
            .get_or(ContentHash::of_fields(&[block.as_bytes()]), || self.tokenizer.count(block))
    }

    /// Whether what blocks cost adds up.
    pub(super) fn adds_up(&self) -> bool {
        self.tokenizer.adds_up()
    }

    /// The piece of a node.
    pub(super) fn piece(
        &self,
        of: &ConversationKey,
        node: &Node,
        make: impl FnOnce() -> Piece,
    ) -> Piece {
        self.pieces.get_or(node_cache_key(of, node), make)
    }

    /// What lies below a node. Whatever changes there marks the node as dirty, and then has it
    /// written anew: while it is neither, what was read before holds.
    pub(super) fn below(&self, of: &ConversationKey, node: &Node) -> Option<Vec<Arc<Node>>> {
        if node.dirty { None } else { self.below.get(&node_cache_key(of, node)) }
    }

    pub(super) fn put_children(&self, of: &ConversationKey, node: &Node, below: Vec<Arc<Node>>) {
        if !node.dirty {
            self.below.put(node_cache_key(of, node), below);
        }
    }

    /// The node with a version, if it was read before. Sequence numbers are counted for each tenant.
    pub(super) fn node(&self, tenant: &TenantId, version: &NodeVersion) -> Option<Arc<Node>> {
        self.nodes.get(&(tenant.clone(), version.seq)).filter(|node| version.matches(node))
    }

    pub(super) fn put_node(
        &self,
        tenant: &TenantId,
        version: &NodeVersion,
        node: Node,
    ) -> Arc<Node> {
        let node = Arc::new(node);
        self.nodes.put((tenant.clone(), version.seq), Arc::clone(&node));
        node
    }

    /// A sealed window as it was said. That never changes, so that it need not be read again.
    pub(super) fn said(&self, of: &ConversationKey, window: &Window) -> Option<Arc<CachedWindow>> {
        self.said.get(&(of.clone(), window.clone()))
    }

    pub(super) fn put_window(
        &self,
        of: &ConversationKey,
        window: &Window,
        said: Arc<CachedWindow>,
    ) {
        self.said.put((of.clone(), window.clone()), said);
    }
}

fn node_cache_key(of: &ConversationKey, node: &Node) -> NodeCacheKey {
    (of.clone(), node.id.clone(), node.provenance.at)
}

/// Values by key; all are dropped when there are too many.
struct BoundedCache<K, V> {
    most: usize,
    values: Mutex<HashMap<K, V>>,
}

impl<K: Hash + Eq, V: Clone> BoundedCache<K, V> {
    fn new(most: usize) -> Self {
        Self { most, values: Mutex::new(HashMap::new()) }
    }

    fn get(&self, key: &K) -> Option<V> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn put(&self, key: K, value: V) {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        if values.len() >= self.most {
            values.clear();
        }
        values.insert(key, value);
    }

    fn get_or(&self, key: K, make: impl FnOnce() -> V) -> V {
        self.get(&key).unwrap_or_else(|| {
            let value = make();
            self.put(key, value.clone());
            value
        })
    }
}
