//! Stores sealed segments in files, and loads them. Damage, absence or another store behind the
//! files costs a rebuild from the change feed, never an answer.

use std::sync::{Arc, PoisonError, RwLock};

use treering_core::ports::{IndexFiles, StoreResult};
use treering_core::{ContentHash, Reader};

use super::index::ItemIndex;
use super::segment::Segment;
use super::segment_chain::{ChainPart, ChainedSegment, Manifest, SegmentEntry};
use super::segment_format::FORMAT_VERSION;
use crate::engine::Engine;
use crate::error::Result;
use crate::kill_points::{self, KillPoint};

/// The version of the text analysis: terms, flags and the searchable texts. Raise it with every
/// change, so that segments of the old analysis are not used.
pub(super) const ANALYSIS_VERSION: u32 = 1;

/// Texts whose embeddings tell the versions of an instant embedder apart.
const PROBES: [&str; 2] = [
    "The quick brown fox asked 7 questions about the vessel, and nobody answered.",
    "Le renard a posé des questions sur le bateau, mais personne n'a répondu.",
];

impl Engine {
    /// The number of new items from which on it pays to seal them: building an index over fewer
    /// takes milliseconds.
    pub const SEAL_ITEMS: u32 = 1024;

    /// Stores the index of this tenant in files, if this process has one with at least
    /// `min_items` items that are not stored yet. Does nothing while another process writes.
    pub fn seal_index(&self, min_items: u32) -> Result<()> {
        let Some(files) = self.index_files() else { return Ok(()) };
        let Some(index) = self.cached_index() else { return Ok(()) };
        if !needs_sealing(&index, min_items) {
            return Ok(());
        }
        let Some(_lock) = files.lock(self.tenant(), false)? else { return Ok(()) };
        let on_disk = self.manifest(files)?;
        let is_current = on_disk == read(&index).chain.manifest;
        // Otherwise another process has sealed first, or has removed items.
        let index = if is_current { index } else { self.reload_index()? };
        if needs_sealing(&index, min_items) {
            self.write_segments(files, &index, min_items)?;
        }
        Ok(())
    }

    /// Seals the indexes of all tenants that this process has in memory. Without room or permission
    /// to write, they stay in memory.
    pub(crate) fn seal_indexes(&self) {
        for tenant in self.index_cache().tenants() {
            drop(self.for_tenant(tenant).seal_index(Self::SEAL_ITEMS));
        }
    }

    /// Discards the index of this tenant with its files, after content was erased from the store.
    /// When this returns, no file contains any of it, and no process writes it again: each builds
    /// its index from the store before it seals.
    pub(crate) fn discard_index(&self) -> Result<()> {
        self.index_cache().evict(self.tenant());
        let Some(files) = self.index_files() else { return Ok(()) };
        let _lock = files.lock(self.tenant(), true)?;
        let model = self.active_vector_index(&*self.reader()?)?.model;
        let key = self.segment_key(&model, self.dims_of(&model)?)?;
        let old = self.manifest(files)?.as_deref().and_then(Manifest::parse);
        let epoch = old.map_or(0, |manifest| manifest.epoch) + 1;
        let manifest = Manifest { key, epoch, segments: Vec::new() }.to_string().into_bytes();
        files.write(self.tenant(), Manifest::NAME, &[&manifest])?;
        Ok(files.retain(self.tenant(), &[Manifest::NAME])?)
    }

    /// Loads the sealed segments into an empty index.
    pub(super) fn load_segments(&self, index: &RwLock<ItemIndex>) -> Result<()> {
        let Some(files) = self.index_files() else { return Ok(()) };
        let mut index = index.write().unwrap_or_else(PoisonError::into_inner);
        // A file is missing if another process replaced it after the manifest was read.
        for _ in 0..2 {
            // A file that cannot be read is as good as none.
            let content = self.manifest(files).unwrap_or_default();
            if content == index.chain.manifest {
                break;
            }
            let mut loaded = ItemIndex::new(&index.model, index.dims);
            loaded.chain.manifest = content;
            let is_complete = self.load_listed(files, &mut loaded)?;
            *index = loaded;
            if is_complete {
                break;
            }
        }
        self.read_pending(&mut index)
    }

    /// Loads the segments of the manifest, up to one that cannot be used. Returns whether all of
    /// them were loaded.
    fn load_listed(&self, files: &dyn IndexFiles, index: &mut ItemIndex) -> Result<bool> {
        let manifest = index.chain.manifest.as_deref().and_then(Manifest::parse);
        let key = self.segment_key(&index.model, index.dims)?;
        let Some(manifest) = manifest.filter(|manifest| manifest.key == key) else {
            return Ok(true);
        };
        let listed = manifest.segments.len();
        let usable = self.with_same_history(&*self.reader()?, manifest.segments)?;
        index.reserve(usable.iter().map(|entry| entry.items as usize).sum());
        let mut head = Vec::new();
        for entry in &usable {
            let Some(segment) = self.read_segment(files, index, entry, &key, &mut head) else {
                index.vectors.discard_bytes();
                break;
            };
            let start = index.items.len() as u32;
            index.append(segment);
            index.cursor = entry.to.clone();
            let range = start..index.items.len() as u32;
            index.chain.segments.push(ChainedSegment::new(entry.clone(), range));
        }
        let loaded = index.chain.segments.len();
        index.chain.has_unusable = loaded < listed;
        Ok(loaded == usable.len())
    }

    /// Reads a segment from its file, and the bytes of its vectors into the index; `None` if the
    /// file is missing or damaged.
    fn read_segment(
        &self,
        files: &dyn IndexFiles,
        index: &mut ItemIndex,
        entry: &SegmentEntry,
        key: &ContentHash,
        head: &mut Vec<u8>,
    ) -> Option<Segment> {
        let name = Manifest::file_name(&entry.name);
        let mut file = files.open(self.tenant(), &name).ok()??;
        head.clear();
        file.read(8, head).ok()?;
        let length = u64::from_le_bytes(head.as_slice().try_into().ok()?);
        head.clear();
        file.read(length, head).ok()?;
        let bytes = index.vectors.read_bytes(&mut *file).ok()?;
        let is_intact = ContentHash::of_fields(&[head, bytes]) == entry.name;
        let length = bytes.len();
        let segment = Segment::decode(head, key, index.dims).filter(|_| is_intact)?;
        (length == segment.items.len() * index.dims).then_some(segment)
    }

    /// The content of the manifest.
    fn manifest(&self, files: &dyn IndexFiles) -> StoreResult<Option<Vec<u8>>> {
        let Some(mut file) = files.open(self.tenant(), Manifest::NAME)? else { return Ok(None) };
        let mut content = Vec::new();
        // A damaged manifest is not used.
        drop(file.read(u64::MAX, &mut content));
        Ok(Some(content))
    }

    /// The first segments whose history is that of the store.
    fn with_same_history(
        &self,
        reader: &dyn Reader,
        segments: Vec<SegmentEntry>,
    ) -> Result<Vec<SegmentEntry>> {
        let mut usable = Vec::with_capacity(segments.len());
        for entry in segments {
            if reader.history(&entry.to)? != Some(entry.history) {
                break;
            }
            usable.push(entry);
        }
        Ok(usable)
    }

    /// Reads the vectors that have arrived since the segments were sealed.
    fn read_pending(&self, index: &mut ItemIndex) -> Result<()> {
        let hashes: Vec<ContentHash> = index.pending_embeddings.keys().copied().collect();
        if hashes.is_empty() {
            return Ok(());
        }
        let vectors = self.reader()?.vectors(&index.model, &hashes)?;
        for (hash, vector) in hashes.iter().zip(vectors) {
            if let Some(vector) = vector.filter(|vector| vector.len() == index.dims) {
                index.add_vector(hash, &vector);
            }
        }
        Ok(())
    }

    /// Writes the planned segments, then the manifest, and removes obsolete files. A crash leaves
    /// the old manifest with its files or the new one.
    fn write_segments(
        &self,
        files: &dyn IndexFiles,
        index: &RwLock<ItemIndex>,
        min_items: u32,
    ) -> Result<()> {
        let (plan, old, key) = {
            let index = read(index);
            let Some(plan) = index.chain.plan(&index, min_items) else { return Ok(()) };
            (plan, index.chain.segments.clone(), self.segment_key(&index.model, index.dims)?)
        };
        let mut segments = Vec::with_capacity(plan.len());
        for part in plan {
            match part {
                ChainPart::Keep(position) => segments.push(old[position].clone()),
                ChainPart::Write(range, to) => {
                    let Some(history) = self.reader()?.history(&to)? else { return Ok(()) };
                    let (segment, bytes) = Segment::of(&read(index), &range);
                    let head = segment.encode(&key);
                    let name = ContentHash::of_fields(&[&head, &bytes]);
                    let length = (head.len() as u64).to_le_bytes();
                    let parts: [&[u8]; 3] = [&length, &head, &bytes];
                    files.write(self.tenant(), &Manifest::file_name(&name), &parts)?;
                    kill_points::check(KillPoint::SegmentWritten);
                    let items = segment.items.len() as u32;
                    let entry = SegmentEntry { name, history, items, to };
                    segments.push(ChainedSegment::new(entry, range));
                }
            }
        }
        let epoch = read(index).chain.epoch();
        let entries = segments.iter().map(|segment| segment.entry.clone()).collect();
        let manifest = Manifest { key, epoch, segments: entries }.to_string().into_bytes();
        files.write(self.tenant(), Manifest::NAME, &[&manifest])?;
        kill_points::check(KillPoint::ManifestWritten);
        let names: Vec<String> =
            segments.iter().map(|segment| Manifest::file_name(&segment.entry.name)).collect();
        index.write().unwrap_or_else(PoisonError::into_inner).chain.set(manifest, segments);
        let kept: Vec<&str> = names.iter().map(String::as_str).chain([Manifest::NAME]).collect();
        Ok(files.retain(self.tenant(), &kept)?)
    }

    /// Identifies everything that a segment depends on besides the feed.
    fn segment_key(&self, model: &str, dims: usize) -> Result<ContentHash> {
        let probe = match self.embedder_named(model).filter(|it| it.is_instant() && dims > 0) {
            Some(embedder) => embedder.embed(&PROBES)?.concat(),
            None => Vec::new(),
        };
        let probe: Vec<u8> = probe.iter().flat_map(|x| x.to_le_bytes()).collect();
        let numbers = [
            u64::from(FORMAT_VERSION),
            u64::from(ANALYSIS_VERSION),
            dims as u64,
            self.embed_text_options().max_chars as u64,
            u64::from(self.search_settings().embed_nodes),
        ];
        let numbers: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        Ok(ContentHash::of_fields(&[
            &numbers,
            env!("CARGO_PKG_VERSION").as_bytes(),
            self.tenant().as_str().as_bytes(),
            model.as_bytes(),
            &probe,
        ]))
    }
}

fn read(index: &RwLock<ItemIndex>) -> std::sync::RwLockReadGuard<'_, ItemIndex> {
    index.read().unwrap_or_else(PoisonError::into_inner)
}

fn needs_sealing(index: &Arc<RwLock<ItemIndex>>, min_items: u32) -> bool {
    let index = read(index);
    index.chain.plan(&index, min_items).is_some()
}
