//! The file format of a segment: a header, the tables, and one flat array for each field, all in
//! little-endian order. Raise [`FORMAT_VERSION`] with every change.

use std::borrow::Cow;

use treering_core::{ContentHash, ConversationId, NodeId, ThreadName, Timestamp};

use super::index::{IndexedItem, NodeExtent};
use super::postings::SealedPostings;
use super::segment::Segment;

/// The version of the format.
pub(super) const FORMAT_VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"TRSEGMNT";

impl Segment<'_> {
    /// The content of the segment's file. `key` identifies everything that the segment depends on
    /// besides the feed.
    pub(super) fn encode(&self, key: &ContentHash) -> Vec<u8> {
        let per_item = 64 + self.bytes.len() / self.items.len().max(1) * 2;
        let mut out = SegmentWriter(Vec::with_capacity(self.items.len() * per_item));
        out.0.extend(MAGIC);
        out.0.extend(FORMAT_VERSION.to_le_bytes());
        out.0.extend(key.as_bytes());
        out.count(self.conversations.len());
        self.conversations.iter().for_each(|id| out.0.extend(id.as_bytes()));
        out.texts(self.authors.iter().map(String::as_str));
        out.texts(self.threads.iter().map(ThreadName::as_str));
        out.count(self.items.len());
        self.encode_items(&mut out);
        out.count(self.bytes.len());
        out.0.extend_from_slice(&self.bytes);
        out.count(self.bits.len());
        out.column(self.bits.iter().map(|word| word.to_le_bytes()));
        out.count(self.nodes.len());
        self.nodes.iter().for_each(|(item, extent)| out.node(*item, extent));
        out.count(self.pending.len());
        for (item, hash) in &self.pending {
            out.0.extend(item.to_le_bytes());
            out.0.extend(hash.as_bytes());
        }
        let SealedPostings { terms, list_ends, items } = &self.postings;
        out.count(terms.len());
        out.column(terms.iter().map(|term| term.to_le_bytes()));
        out.column(list_ends.iter().map(|end| end.to_le_bytes()));
        out.count(items.len());
        out.column(items.iter().map(|item| item.to_le_bytes()));
        out.0
    }

    fn encode_items(&self, out: &mut SegmentWriter) {
        let items = || self.items.iter();
        out.column(items().map(|item| item.at.as_micros().to_le_bytes()));
        out.column(items().map(|item| item.conversation.to_le_bytes()));
        out.column(items().map(|item| item.number.to_le_bytes()));
        out.column(items().map(|item| item.chars.to_le_bytes()));
        out.column(items().map(|item| item.order.to_le_bytes()));
        out.column(items().map(|item| item.author.to_le_bytes()));
        out.column(items().map(|item| item.thread.to_le_bytes()));
        out.column(items().map(|item| [item.level, item.role, item.flags]));
        out.column(self.length_norms.iter().map(|norm| norm.to_le_bytes()));
        out.column(self.scales.iter().map(|scale| scale.to_le_bytes()));
    }
}

impl<'a> Segment<'a> {
    /// Reads the content of a file; `None` if it is not a segment with this key and number of
    /// dimensions.
    pub(super) fn decode(content: &'a [u8], key: &ContentHash, dims: usize) -> Option<Self> {
        let mut input = SegmentReader(content);
        let is_known = input.take(8)? == MAGIC
            && input.number()? == FORMAT_VERSION
            && input.take(16)? == key.as_bytes();
        if !is_known {
            return None;
        }
        let count = input.count()?;
        let ids = input.column::<16>(count)?;
        let conversations = ids.map(ConversationId::from_bytes).collect();
        let authors = input.texts()?;
        let threads = input.texts()?.into_iter().map(ThreadName::new);
        let threads = threads.collect::<Result<Vec<_>, _>>().ok()?;
        let count = input.count()?;
        let items = input.items(count)?;
        let [length_norms, scales] =
            [input.column(count)?, input.column(count)?].map(|it| it.map(f32::from_le_bytes));
        let mut segment = Self {
            conversations,
            authors,
            threads,
            items,
            length_norms: length_norms.collect(),
            scales: scales.collect(),
            ..Self::with_capacity(0)
        };
        let length = input.count()?;
        segment.bytes = Cow::Borrowed(input.take(length)?);
        let length = input.count()?;
        segment.bits = input.column(length)?.map(u64::from_le_bytes).collect();
        let length = input.count()?;
        segment.nodes = (0..length).map(|_| input.node()).collect::<Option<_>>()?;
        let length = input.count()?;
        let pending = |_| Some((input.number()?, ContentHash::from_bytes(input.array()?)));
        segment.pending = (0..length).map(pending).collect::<Option<_>>()?;
        segment.postings = input.postings()?;
        (input.0.is_empty() && segment.is_consistent(dims)).then_some(segment)
    }

    /// Whether every number refers to something that exists.
    fn is_consistent(&self, dims: usize) -> bool {
        let count = self.items.len();
        let SealedPostings { terms, list_ends, items } = &self.postings;
        self.bytes.len() == count * dims
            && self.bits.len() == count * dims.div_ceil(64)
            && self.items.iter().all(|it| (it.conversation as usize) < self.conversations.len())
            && self.nodes.iter().all(|(item, _)| (*item as usize) < count)
            && self.pending.iter().all(|(item, _)| (*item as usize) < count)
            && terms.is_sorted()
            && list_ends.is_sorted()
            && list_ends.last().map_or(0, |end| *end as usize) == items.len()
            && items.iter().all(|item| usize::from(*item) < count)
    }
}

/// Appends values to the content of a file.
struct SegmentWriter(Vec<u8>);

impl SegmentWriter {
    fn count(&mut self, count: usize) {
        self.0.extend((count as u64).to_le_bytes());
    }

    fn column<const N: usize>(&mut self, values: impl Iterator<Item = [u8; N]>) {
        values.for_each(|value| self.0.extend(value));
    }

    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.extend(text.as_bytes());
    }

    fn texts<'a>(&mut self, texts: impl ExactSizeIterator<Item = &'a str>) {
        self.count(texts.len());
        texts.for_each(|text| self.text(text));
    }

    fn node(&mut self, item: u32, extent: &NodeExtent) {
        self.0.extend(item.to_le_bytes());
        self.0.extend(extent.start.as_micros().to_le_bytes());
        self.count(extent.threads.len());
        self.column(extent.threads.iter().map(|thread| thread.to_le_bytes()));
        self.count(extent.window.iter().len());
        if let Some((thread, messages)) = &extent.window {
            self.0.extend(thread.to_le_bytes());
            self.0.extend(messages.start.to_le_bytes());
            self.0.extend(messages.end.to_le_bytes());
        }
        self.texts(extent.id.iter().map(NodeId::as_str));
    }
}

/// Reads values from the content of a file. Every method returns `None` at its end.
struct SegmentReader<'a>(&'a [u8]);

impl<'a> SegmentReader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn number(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A count of values that follow, each at least one byte.
    fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(u64::from_le_bytes(self.array()?)).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    fn column<const N: usize>(
        &mut self,
        count: usize,
    ) -> Option<impl Iterator<Item = [u8; N]> + use<'a, N>> {
        let (values, _) = self.take(count.checked_mul(N)?)?.as_chunks::<N>();
        Some(values.iter().copied())
    }

    fn text(&mut self) -> Option<String> {
        let length = self.count()?;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }

    fn texts(&mut self) -> Option<Vec<String>> {
        let count = self.count()?;
        (0..count).map(|_| self.text()).collect()
    }

    fn items(&mut self, count: usize) -> Option<Vec<IndexedItem>> {
        let at = self.column(count)?.map(i64::from_le_bytes);
        let [conversation, number, chars] =
            [self.column(count)?, self.column(count)?, self.column(count)?]
                .map(|it| it.map(u32::from_le_bytes));
        let [order, author, thread] =
            [self.column(count)?, self.column(count)?, self.column(count)?]
                .map(|it| it.map(u16::from_le_bytes));
        let codes = self.column::<3>(count)?;
        let numbers = at.zip(conversation.zip(number.zip(chars)));
        let names = order.zip(author.zip(thread)).zip(codes);
        let item = |((at, (conversation, (number, chars))), ((order, (author, thread)), codes))| {
            let [level, role, flags] = codes;
            IndexedItem {
                at: Timestamp::from_micros(at),
                conversation,
                number,
                before: 0,
                after: 0,
                cover: 0,
                mid_char: 0.0,
                chars,
                order,
                author,
                thread,
                level,
                role,
                flags,
            }
        };
        Some(numbers.zip(names).map(item).collect())
    }

    fn node(&mut self) -> Option<(u32, NodeExtent)> {
        let item = self.number()?;
        let start = Timestamp::from_micros(i64::from_le_bytes(self.array()?));
        let count = self.count()?;
        let threads = self.column(count)?.map(u16::from_le_bytes).collect();
        let window = match self.count()? {
            0 => None,
            _ => {
                let thread = u16::from_le_bytes(self.array()?);
                Some((thread, self.number()?..self.number()?))
            }
        };
        let id = self.texts()?.pop().map(NodeId::from_stored);
        Some((item, NodeExtent { start, threads, window, id }))
    }

    fn postings(&mut self) -> Option<SealedPostings> {
        let count = self.count()?;
        let terms = self.column(count)?.map(u64::from_le_bytes).collect();
        let list_ends = self.column(count)?.map(u32::from_le_bytes).collect();
        let count = self.count()?;
        let items = self.column(count)?.map(u16::from_le_bytes).collect();
        Some(SealedPostings { terms, list_ends, items })
    }
}
