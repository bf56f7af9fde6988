//! Caches the index of each tenant. A search first applies the changes that the store's change feed
//! has recorded since the last search.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use treering_core::ports::{
    Change, ChangeFilter, Changes, Cursor, NodeFilter, NodeVersion, StoreResult,
};
use treering_core::{
    ContentHash, ConversationId, Embedder, Reader, TenantId, VectorIndex, embedding_text,
};

use super::index::{ItemEmbedding, ItemIndex};
use super::text::{content_hash, text_to_embed};
use crate::engine::Engine;
use crate::error::{Error, Result};

/// Changes per page of the feed.
const PORTION: usize = 200;

/// The in-process indexes, by tenant.
#[derive(Default)]
pub(crate) struct IndexCache(Mutex<HashMap<TenantId, CachedIndex>>);

/// The index of a tenant.
struct CachedIndex {
    index: Arc<RwLock<ItemIndex>>,
    /// Whether an index of another model is being built to replace it.
    is_replaced: bool,
    /// When it was last used.
    used: Instant,
    /// Its size at that time.
    bytes: usize,
}

impl CachedIndex {
    fn new(index: Arc<RwLock<ItemIndex>>) -> Self {
        Self { index, is_replaced: false, used: Instant::now(), bytes: 0 }
    }
}

impl IndexCache {
    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, CachedIndex>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tenants whose indexes are in memory.
    pub(super) fn tenants(&self) -> Vec<TenantId> {
        self.lock().keys().cloned().collect()
    }

    /// Evicts the index of a tenant.
    pub(super) fn evict(&self, tenant: &TenantId) {
        self.lock().remove(tenant);
    }

    /// Records the use of a tenant's index, and evicts the least recently used ones while all of
    /// them together take more than `max_bytes` bytes. The index in use is never evicted.
    fn touch(&self, tenant: &TenantId, bytes: usize, max_bytes: usize) {
        let mut slots = self.lock();
        if let Some(slot) = slots.get_mut(tenant) {
            (slot.used, slot.bytes) = (Instant::now(), bytes);
        }
        let mut total: usize = slots.values().map(|slot| slot.bytes).sum();
        while total > max_bytes {
            let others = slots.iter().filter(|(other, _)| *other != tenant);
            let Some(oldest) =
                others.min_by_key(|(_, slot)| slot.used).map(|(other, _)| other.clone())
            else {
                break;
            };
            total -= slots.remove(&oldest).map_or(0, |slot| slot.bytes);
        }
    }
}

impl Engine {
    /// The vector index that search uses. If none was chosen, it is that of an instant embedder,
    /// whose vectors need not be stored.
    pub(crate) fn active_vector_index(&self, reader: &dyn Reader) -> StoreResult<VectorIndex> {
        let chosen = reader.vector_index()?;
        Ok(chosen.unwrap_or_else(|| {
            let instant = self.embedders().find(|embedder| embedder.is_instant());
            VectorIndex::of(instant.unwrap_or_else(|| self.embedder()).name())
        }))
    }

    /// Prepares the state that the first request would otherwise wait for: the tokenizer's tables
    /// at once, the index in the background. Errors are ignored here; the request that hits them
    /// reports them.
    pub fn prewarm(&self) {
        self.tokenizer().count("warm");
        let engine = self.clone();
        std::thread::spawn(move || {
            if !engine.embedder().is_remote() {
                drop(engine.embedder().embed(&["warm"]));
            }
            drop(engine.load_index());
        });
    }

    /// Brings the search index of this tenant up to date in memory.
    pub fn load_index(&self) -> Result<()> {
        self.item_index().map(drop)
    }

    /// The up-to-date index. After a change of the model the old index serves until the new one
    /// is built.
    pub(super) fn item_index(&self) -> Result<Arc<RwLock<ItemIndex>>> {
        let model = self.active_vector_index(&*self.reader()?)?.model;
        let mut slots = self.index_cache().lock();
        if let Some(slot) = slots.get_mut(self.tenant()) {
            let index = Arc::clone(&slot.index);
            let (is_old, has_no_vectors) = {
                let index = index.read().unwrap_or_else(PoisonError::into_inner);
                (index.model != model, index.dims == 0)
            };
            if has_no_vectors && !is_old && self.dims_of(&model)? > 0 {
                drop(slots);
                self.rebuild_index(&model);
                return self.item_index();
            }
            if is_old && !slot.is_replaced {
                slot.is_replaced = true;
                let engine = self.clone();
                std::thread::spawn(move || engine.rebuild_index(&model));
            }
            drop(slots);
            if self.update_index(&index)? {
                self.remove_dropped_nodes(&index)?;
            }
            self.touch(&index);
            return Ok(index);
        }
        drop(slots);
        let built = self.build_index(&model)?;
        let slot = || CachedIndex::new(Arc::clone(&built));
        let index = Arc::clone(
            &self.index_cache().lock().entry(self.tenant().clone()).or_insert_with(slot).index,
        );
        // Another thread inserted its index first, and that one may miss the latest commits.
        if !Arc::ptr_eq(&index, &built) {
            return self.item_index();
        }
        self.touch(&index);
        Ok(index)
    }

    fn touch(&self, index: &RwLock<ItemIndex>) {
        let bytes = index.read().unwrap_or_else(PoisonError::into_inner).bytes();
        self.index_cache().touch(self.tenant(), bytes, self.search_settings().memory_bytes);
    }

    fn build_index(&self, model: &str) -> Result<Arc<RwLock<ItemIndex>>> {
        let index = Arc::new(RwLock::new(ItemIndex::new(model, self.dims_of(model)?)));
        self.load_segments(&index)?;
        self.update_index(&index)?;
        self.remove_dropped_nodes(&index)?;
        Ok(index)
    }

    /// The index in memory, as it is.
    pub(super) fn cached_index(&self) -> Option<Arc<RwLock<ItemIndex>>> {
        self.index_cache().lock().get(self.tenant()).map(|slot| Arc::clone(&slot.index))
    }

    /// Builds the index again from the sealed segments of other processes.
    pub(super) fn reload_index(&self) -> Result<Arc<RwLock<ItemIndex>>> {
        let model = self.active_vector_index(&*self.reader()?)?.model;
        let built = self.build_index(&model)?;
        if let Some(slot) = self.index_cache().lock().get_mut(self.tenant()) {
            slot.index = Arc::clone(&built);
        }
        Ok(built)
    }

    /// Removes the nodes that the store has dropped. The change feed does not list them, but then
    /// the store has fewer nodes than the index.
    fn remove_dropped_nodes(&self, index: &RwLock<ItemIndex>) -> Result<()> {
        let reader = self.reader()?;
        let in_store = reader.node_count()? as usize;
        let mut nodes: HashMap<ConversationId, Vec<u32>> = HashMap::new();
        {
            let index = index.read().unwrap_or_else(PoisonError::into_inner);
            if index.extents.len() <= in_store {
                return Ok(());
            }
            for node in index.extents.keys() {
                nodes.entry(index.item_ref(*node).conversation()).or_default().push(*node);
            }
        }
        for (id, nodes) in nodes {
            let versions = reader.node_versions(id, &NodeFilter::default())?;
            let mut index = index.write().unwrap_or_else(PoisonError::into_inner);
            for node in nodes {
                let item = index.items[node as usize];
                let is_same =
                    |it: &NodeVersion| it.level.number() == item.level && it.ordinal == item.number;
                if !item.is_deleted() && !versions.iter().any(is_same) {
                    index.remove(node);
                }
            }
        }
        Ok(())
    }

    /// The number of dimensions of a model's vectors. For a remote model it is read from a stored
    /// vector, without a call; 0 means that there is none yet and similarity cannot be used.
    pub(super) fn dims_of(&self, model: &str) -> Result<usize> {
        let Some(embedder) = self.embedder_named(model) else { return Ok(0) };
        if !embedder.is_remote() {
            return Ok(embedder.dims());
        }
        let filter = ChangeFilter { vectors_of: Some(model), ..ChangeFilter::default() };
        let reader = self.reader()?;
        let mut after = Cursor::start();
        loop {
            let page = reader.changes(&after, &filter, PORTION)?;
            if let Some(Change::Vector(_, vector)) = page.items.first() {
                return Ok(vector.len());
            }
            if page.is_last {
                return Ok(0);
            }
            after = page.cursor;
        }
    }

    fn rebuild_index(&self, model: &str) {
        let built = self.build_index(model);
        if let Some(slot) = self.index_cache().lock().get_mut(self.tenant()) {
            slot.is_replaced = false;
            // If the build failed, the next search tries again.
            if let Ok(index) = built {
                slot.index = index;
            }
        }
    }

    /// Applies all changes committed before now, and returns whether there were any. Other threads
    /// may do so concurrently.
    fn update_index(&self, index: &RwLock<ItemIndex>) -> Result<bool> {
        let mut is_changed = false;
        loop {
            let (model, dims, cursor) = {
                let index = index.read().unwrap_or_else(PoisonError::into_inner);
                (index.model.clone(), index.dims, index.cursor.clone())
            };
            match self.delta(&model, dims, &cursor)? {
                None => return Ok(is_changed),
                Some(delta) if !delta.is_last => {
                    self.update_index_in_pages(index, (&model, dims), delta)?;
                    is_changed = true;
                }
                // Later changes are left to the next search: under constant writes there are
                // always more.
                Some(delta) => {
                    if delta.apply_to(index) {
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// Applies many pages: reads and embeds the next page while one is applied.
    fn update_index_in_pages(
        &self,
        index: &RwLock<ItemIndex>,
        (model, dims): (&str, usize),
        first: Delta,
    ) -> Result<()> {
        std::thread::scope(|scope| {
            let (send, receive) = std::sync::mpsc::sync_channel::<Delta>(1);
            let reading = scope.spawn(move || {
                let mut next = Some(first);
                while let Some(delta) = next.take() {
                    let (cursor, is_last) = (delta.to.clone(), delta.is_last);
                    if send.send(delta).is_ok() && !is_last {
                        next = self.delta(model, dims, &cursor)?;
                    }
                }
                Ok(())
            });
            receive.into_iter().for_each(|delta| {
                delta.apply_to(index);
            });
            reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// The next page of the change feed after a cursor; `None` at its end.
    fn delta(&self, model: &str, dims: usize, after: &Cursor) -> Result<Option<Delta>> {
        let reader = self.reader()?;
        let embedder = self.embedder_named(model);
        let is_kept = dims > 0 && embedder.is_some_and(|embedder| !embedder.is_instant());
        let filter =
            ChangeFilter { vectors_of: is_kept.then_some(model), ..ChangeFilter::content() };
        let changes = reader.changes(after, &filter, PORTION)?;
        if changes.cursor == *after {
            return Ok(None);
        }
        let embeddings = self.embeddings_of(&*reader, (model, dims), &changes.items)?;
        let Changes { items, cursor: to, is_last } = changes;
        Ok(Some(Delta { items, embeddings, from: after.clone(), to, is_last }))
    }

    /// The embeddings of changed items, in order.
    pub(super) fn embeddings_of(
        &self,
        reader: &dyn Reader,
        (model, dims): (&str, usize),
        changes: &[Change],
    ) -> Result<Vec<ItemEmbedding>> {
        let max_chars = self.embed_text_options().max_chars;
        let embeds_nodes = self.search_settings().embed_nodes;
        let texts = changes.iter().map(|change| match change {
            Change::Node(..) if !embeds_nodes => Cow::Borrowed(""),
            change => text_to_embed(change),
        });
        let texts: Vec<Cow<'_, str>> = texts.collect();
        let parts: Vec<Cow<'_, str>> =
            texts.iter().map(|text| embedding_text::embedded_part(text, max_chars)).collect();
        let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
        self.embeddings(reader, (model, dims), self.embedder_named(model), &parts)
    }

    /// The embeddings of texts: stored vectors if they exist, otherwise pending.
    fn embeddings(
        &self,
        reader: &dyn Reader,
        (model, dims): (&str, usize),
        embedder: Option<&dyn Embedder>,
        texts: &[&str],
    ) -> Result<Vec<ItemEmbedding>> {
        let Some(embedder) = embedder.filter(|_| dims > 0) else {
            return Ok(texts.iter().map(|_| ItemEmbedding::Ready(Vec::new())).collect());
        };
        if embedder.is_instant() {
            let vectors = embedder.embed(texts).map_err(Error::Provider)?;
            return Ok(vectors.into_iter().map(ItemEmbedding::Ready).collect());
        }
        let hashes: Vec<ContentHash> = texts.iter().map(|text| content_hash(text)).collect();
        let kept = reader.vectors(model, &hashes)?;
        let embedding = |((text, hash), kept): ((&&str, ContentHash), Option<Vec<f32>>)| match kept
        {
            Some(vector) if vector.len() == dims => ItemEmbedding::Ready(vector),
            _ if text.is_empty() => ItemEmbedding::Ready(vec![0.0; dims]),
            _ => ItemEmbedding::Pending(hash),
        };
        Ok(texts.iter().zip(hashes).zip(kept).map(embedding).collect())
    }
}

/// A page of the change feed with the embeddings of its items.
struct Delta {
    items: Vec<Change>,
    embeddings: Vec<ItemEmbedding>,
    /// The cursors before and after the page.
    from: Cursor,
    to: Cursor,
    is_last: bool,
}

impl Delta {
    /// Applies the page and returns `true`, unless the index has moved past `from` in the
    /// meantime.
    fn apply_to(self, index: &RwLock<ItemIndex>) -> bool {
        let mut index = index.write().unwrap_or_else(PoisonError::into_inner);
        if index.cursor != self.from {
            return false;
        }
        for (change, embedding) in self.items.iter().zip(self.embeddings) {
            index.add(change, embedding);
        }
        let items = index.items.len() as u32;
        index.chain.page_applied(items, &self.to);
        index.cursor = self.to;
        true
    }
}
