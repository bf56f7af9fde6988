//! Caches token counts, nodes, their children and sealed windows. Counting and reading dominate
//! the cost of a context, and the same pieces recur turn after turn.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use treering_core::packing::{DetailLevel, HeaderStyle, Piece};
use treering_core::ports::NodeVersion;
use treering_core::{
    ContentHash, ConversationKey, Message, Node, NodeId, Slice, TenantId, Timestamp, Tokenizer,
    ToolCall, Window,
};

use super::render::MessageBlock;
use crate::recall::RecallOptions;

/// Identifies one version of a node: a regenerated node has another timestamp.
type NodeCacheKey = (ConversationKey, NodeId, Timestamp);

/// The messages of a sealed window.
pub(super) struct CachedWindow {
    pub(super) pieces: Vec<Piece>,
    /// The message before it.
    pub(super) before: Option<Arc<Message>>,
    /// Every message in its span, of any thread, in order.
    pub(super) messages: Vec<Arc<Message>>,
    /// The tool calls before each message, by the message's position.
    pub(super) calls: HashMap<u32, Vec<ToolCall>>,
    blocks: BoundedCache<(Slice, HeaderStyle, DetailLevel), RenderedBlock>,
}

/// A rendered message.
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
        // Each message is rendered in only a few ways.
        let blocks = BoundedCache::new(8 * messages.len());
        Self { pieces, before, messages, calls, blocks }
    }

    /// Renders one of its messages; `write` runs on a cache miss.
    pub(super) fn rendered(
        &self,
        message: &MessageBlock<'_>,
        detail: DetailLevel,
        write: impl FnOnce() -> RenderedBlock,
    ) -> RenderedBlock {
        self.blocks.get_or((message.slice, message.lead, detail), write)
    }
}

/// Counts tokens, and caches counts, nodes and windows.
pub(crate) struct ContextCache {
    tokenizer: Arc<dyn Tokenizer>,
    /// Masks secrets. Messages and nodes are cached as masked.
    pub(super) recall: RecallOptions,
    counts: BoundedCache<ContentHash, u32>,
    pieces: BoundedCache<NodeCacheKey, Piece>,
    nodes: BoundedCache<(TenantId, u64), Arc<Node>>,
    below: BoundedCache<NodeCacheKey, Vec<Arc<Node>>>,
    /// By the revision of the audit at which they were read.
    windows: BoundedCache<(ConversationKey, u64, Window), Arc<CachedWindow>>,
}

impl ContextCache {
    pub(crate) fn new(tokenizer: Arc<dyn Tokenizer>, recall: RecallOptions) -> Self {
        Self {
            tokenizer,
            recall,
            counts: BoundedCache::new(1 << 16),
            pieces: BoundedCache::new(1 << 12),
            nodes: BoundedCache::new(1 << 11),
            below: BoundedCache::new(1 << 10),
            windows: BoundedCache::new(1 << 11),
        }
    }

    /// Number of tokens of a block.
    pub(crate) fn count(&self, block: &str) -> u32 {
        self.counts
            .get_or(ContentHash::of_fields(&[block.as_bytes()]), || self.tokenizer.count(block))
    }

    /// Whether token counts of blocks are additive.
    pub(super) fn adds_up(&self) -> bool {
        self.tokenizer.adds_up()
    }

    /// The piece of a node; `make` runs on a cache miss.
    pub(super) fn piece(
        &self,
        of: &ConversationKey,
        node: &Node,
        make: impl FnOnce() -> Piece,
    ) -> Piece {
        self.pieces.get_or(node_cache_key(of, node), make)
    }

    /// The cached children of a node. A change below a node first marks it dirty and then
    /// regenerates it, so the entry of a clean node is valid.
    pub(super) fn below(&self, of: &ConversationKey, node: &Node) -> Option<Vec<Arc<Node>>> {
        if node.dirty { None } else { self.below.get(&node_cache_key(of, node)) }
    }

    pub(super) fn put_children(&self, of: &ConversationKey, node: &Node, below: Vec<Arc<Node>>) {
        if !node.dirty {
            self.below.put(node_cache_key(of, node), below);
        }
    }

    /// The cached node of a version. Sequence numbers are per tenant.
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

    /// The cached messages of a sealed window. They change only if something is forgotten, which
    /// is a new revision of the audit.
    pub(super) fn window_of(
        &self,
        of: &ConversationKey,
        revision: u64,
        window: &Window,
    ) -> Option<Arc<CachedWindow>> {
        self.windows.get(&(of.clone(), revision, window.clone()))
    }

    pub(super) fn put_window(
        &self,
        of: &ConversationKey,
        revision: u64,
        window: &Window,
        cached: Arc<CachedWindow>,
    ) {
        self.windows.put((of.clone(), revision, window.clone()), cached);
    }

    /// Drops every cached text.
    pub(crate) fn clear(&self) {
        self.nodes.clear();
        self.below.clear();
        self.windows.clear();
    }
}

fn node_cache_key(of: &ConversationKey, node: &Node) -> NodeCacheKey {
    (of.clone(), node.id.clone(), node.provenance.at)
}

/// A map that is cleared when it is full.
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

    fn clear(&self) {
        self.values.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn get_or(&self, key: K, make: impl FnOnce() -> V) -> V {
        self.get(&key).unwrap_or_else(|| {
            let value = make();
            self.put(key, value.clone());
            value
        })
    }
}
