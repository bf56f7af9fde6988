//! A segment: a run of the feed, analyzed. It holds what the index knows of each item by itself;
//! the links between items are made when the segment is added to an index. So a segment does not
//! depend on the segments before it, and can be rewritten alone.

use std::collections::HashMap;
use std::ops::Range;

use treering_core::{ContentHash, ConversationId, ThreadName};

use super::index::{IndexedItem, ItemIndex, NodeExtent};
use super::postings::SealedPostings;

/// The items of a segment. Conversations, authors and threads are numbers of the segment's own
/// tables.
#[derive(Debug, PartialEq)]
pub(super) struct Segment {
    pub(super) conversations: Vec<ConversationId>,
    pub(super) authors: Vec<String>,
    pub(super) threads: Vec<ThreadName>,
    /// The items in order, without links.
    pub(super) items: Vec<IndexedItem>,
    pub(super) length_norms: Vec<f32>,
    /// The quantized vectors without their bytes, which are stored apart.
    pub(super) scales: Vec<f32>,
    pub(super) bits: Vec<u64>,
    /// The extents of the nodes, by position in `items`.
    pub(super) nodes: Vec<(u32, NodeExtent)>,
    /// The items that wait for their vectors, by position in `items`.
    pub(super) pending: Vec<(u32, ContentHash)>,
    pub(super) postings: SealedPostings,
}

/// Numbers the values that occur, in order of their first occurrence.
struct LocalNumbers(HashMap<u32, u32>);

impl LocalNumbers {
    fn of(&mut self, global: u32) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(global).or_insert(next)
    }

    /// The number of a value of a table; values beyond the table stay as they are.
    fn of_table(&mut self, global: u16, table_len: usize) -> u16 {
        if usize::from(global) < table_len { self.of(global.into()) as u16 } else { global }
    }

    /// The global numbers, in the order of the local ones.
    fn into_globals(self) -> impl Iterator<Item = usize> {
        let mut globals: Vec<(u32, u32)> = self.0.into_iter().collect();
        globals.sort_unstable_by_key(|(_, local)| *local);
        globals.into_iter().map(|(global, _)| global as usize)
    }
}

impl Segment {
    /// The items of a range that are not deleted, and the bytes of their vectors.
    pub(super) fn of(index: &ItemIndex, range: &Range<u32>) -> (Self, Vec<u8>) {
        let is_live = |item: &u32| !index.items[*item as usize].is_deleted();
        let live: Vec<u32> = range.clone().filter(is_live).collect();
        let [mut conversations, mut authors, mut threads] =
            [(); 3].map(|()| LocalNumbers(HashMap::new()));
        let (author_count, thread_count) = (index.authors.len(), index.threads.len());
        let mut segment = Self::with_capacity(live.len());
        let (mut offsets, mut bytes) = (vec![None; range.len()], Vec::new());
        for (position, number) in live.iter().enumerate() {
            offsets[(number - range.start) as usize] = u16::try_from(position).ok();
            let item = index.items[*number as usize];
            let mut local_thread = |thread| threads.of_table(thread, thread_count);
            segment.items.push(IndexedItem {
                conversation: conversations.of(item.conversation),
                author: authors.of_table(item.author, author_count),
                thread: local_thread(item.thread),
                ..item.without_links()
            });
            if let Some(extent) = index.extents.get(number) {
                let extent = extent.with_threads(&mut local_thread);
                segment.nodes.push((position as u32, extent));
            }
            let (row, scale, bits) = index.vectors.row(*number);
            bytes.extend_from_slice(row);
            segment.scales.push(scale);
            segment.bits.extend_from_slice(bits);
            segment.length_norms.push(index.length_norms[*number as usize]);
        }
        let offset_of = |item: usize| offsets[item - range.start as usize];
        segment.postings = index.postings.sealed_of(range, offset_of);
        segment.pending = pending(index, range, offset_of);
        segment.conversations =
            conversations.into_globals().map(|it| index.conversations[it].id).collect();
        segment.authors = authors.into_globals().map(|it| index.authors[it].clone()).collect();
        segment.threads = threads.into_globals().map(|it| index.threads[it].clone()).collect();
        (segment, bytes)
    }

    pub(super) fn with_capacity(items: usize) -> Self {
        Self {
            conversations: Vec::new(),
            authors: Vec::new(),
            threads: Vec::new(),
            items: Vec::with_capacity(items),
            length_norms: Vec::with_capacity(items),
            scales: Vec::with_capacity(items),
            bits: Vec::new(),
            nodes: Vec::new(),
            pending: Vec::new(),
            postings: SealedPostings::default(),
        }
    }
}

/// The items of a range that wait for their vectors, by offset.
fn pending(
    index: &ItemIndex,
    range: &Range<u32>,
    offset_of: impl Fn(usize) -> Option<u16>,
) -> Vec<(u32, ContentHash)> {
    let all = index.pending_embeddings.iter();
    let all = all.flat_map(|(hash, items)| items.iter().map(|item| (*item, *hash)));
    let in_range = all.filter(|(item, _)| range.contains(item));
    let mut pending: Vec<(u32, ContentHash)> = in_range
        .filter_map(|(item, hash)| Some((offset_of(item as usize)?.into(), hash)))
        .collect();
    pending.sort_unstable();
    pending
}

impl IndexedItem {
    /// The item as a segment holds it.
    const fn without_links(self) -> Self {
        Self { before: 0, after: 0, cover: 0, mid_char: 0.0, ..self }
    }
}

impl NodeExtent {
    /// The extent with other numbers for its threads.
    fn with_threads(&self, number: &mut impl FnMut(u16) -> u16) -> Self {
        Self {
            start: self.start,
            threads: self.threads.iter().map(|thread| number(*thread)).collect(),
            window: self.window.as_ref().map(|(thread, range)| (number(*thread), range.clone())),
            id: self.id.clone(),
        }
    }
}

impl ItemIndex {
    /// Adds the items of a segment after those that the index has. The bytes of their vectors were
    /// read before. The open posting lists must be empty.
    pub(super) fn append(&mut self, segment: Segment) {
        let first = self.items.len() as u32;
        let count = segment.items.len() as u32;
        let conversations: Vec<u32> =
            segment.conversations.iter().map(|id| self.conversation_index_of(*id)).collect();
        let authors: Vec<u16> =
            segment.authors.iter().map(|name| self.author(Some(name))).collect();
        let threads: Vec<u16> = segment.threads.iter().map(|name| self.thread(name)).collect();
        let of_table = |table: &[u16], local: u16| table.get(usize::from(local)).copied();
        let mut thread_of = |local: u16| of_table(&threads, local).unwrap_or(local);
        self.vectors.append(&segment.scales, &segment.bits);
        self.length_norms.extend_from_slice(&segment.length_norms);
        let mut nodes = segment.nodes.iter().peekable();
        for (position, item) in (0..count).zip(&segment.items) {
            let node = nodes.next_if(|(node, _)| *node == position);
            let item = IndexedItem {
                conversation: conversations[item.conversation as usize],
                author: of_table(&authors, item.author).unwrap_or(item.author),
                thread: thread_of(item.thread),
                ..*item
            };
            self.link(item, node.map(|(_, extent)| extent.with_threads(&mut thread_of)));
            self.add_to_sums(first + position);
        }
        for (position, hash) in &segment.pending {
            self.pending_embeddings.entry(*hash).or_default().push(first + position);
        }
        self.postings.append(segment.postings, count);
    }

    /// Allocates memory for this many more items.
    pub(super) fn reserve(&mut self, items: usize) {
        self.items.reserve(items);
        self.episode_of.reserve(items);
        self.length_norms.reserve(items);
        self.vectors.reserve(items);
    }
}
