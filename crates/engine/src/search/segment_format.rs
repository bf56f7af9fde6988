//! The file format of a segment. The first part has a header, the tables, and one flat array for
//! each field, all in little-endian order. Its length precedes it, and the bytes of the vectors
//! follow it; they are most of the file and are read to where they stay. Raise
//! [`FORMAT_VERSION`] with every change.

use treering_core::{ContentHash, ConversationId, NodeId, ThreadName, Timestamp};

use super::index::{IndexedItem, NodeExtent};
use super::postings::SealedPostings;
use super::segment::Segment;

/// The version of the format.
pub(super) const FORMAT_VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"TRSEGMNT";

impl Segment {
    /// The first part of the segment's file. `key` identifies everything that the segment depends
    /// on besides the feed.
    pub(super) fn encode(&self, key: &ContentHash) -> Vec<u8> {
        let mut out = SegmentWriter(Vec::new());
        out.0.extend(MAGIC);
        out.0.extend(FORMAT_VERSION.to_le_bytes());
        out.0.extend(key.as_bytes());
        out.count(self.conversations.len());
        self.conversations.iter().for_each(|id| out.0.extend(id.as_bytes()));
        out.texts(self.authors.iter().map(String::as_str));
        out.texts(self.threads.iter().map(ThreadName::as_str));
        out.count(self.items.len());
        self.encode_items(&mut out);
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

impl Segment {
    /// Reads the first part of a file; `None` if it is not a segment with this key and number of
    /// dimensions.
    pub(super) fn decode(content: &[u8], key: &ContentHash, dims: usize) -> Option<Self> {
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
        self.bits.len() == count * dims.div_ceil(64)
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

#[cfg(test)]
mod tests {
    use treering_core::fusion::length_norm;
    use treering_core::ports::{IndexFile, StoreResult};

    use super::*;
    use crate::search::index::{FLAG_TOOL_CALL, ItemEmbedding, ItemIndex};
    use crate::search::seal::ANALYSIS_VERSION;

    /// An index with a message, a tool call and a node.
    fn sample() -> ItemIndex {
        let mut index = ItemIndex::new("m", 3);
        let id = ConversationId::from_bytes([7; 16]);
        let conversation = index.conversation_index_of(id);
        let side = index.thread(&ThreadName::new("side").unwrap());
        let author = index.author(Some("Zoë"));
        for (number, (level, flags)) in
            [(0, 0), (0, FLAG_TOOL_CALL), (1, 0)].into_iter().enumerate()
        {
            let number = number as u32;
            let item = IndexedItem {
                at: Timestamp::from_micros(-5 + i64::from(number)),
                conversation,
                number,
                before: 0,
                after: 0,
                cover: 0,
                mid_char: 0.0,
                chars: 10,
                order: 0,
                author: if number == 0 { author } else { u16::MAX },
                thread: side,
                level,
                role: 1,
                flags,
            };
            let extent = (level > 0).then(|| NodeExtent {
                start: item.at,
                threads: vec![side],
                window: Some((side, 0..1)),
                id: Some(NodeId::from_stored("l1-aa".into())),
            });
            index.length_norms.push(length_norm(number));
            index.postings.push(number, &[u64::from(number), 99]);
            index.link(item, extent);
            index.vectors.push(Some(&[0.5, -0.25, 0.0]));
        }
        let hash = ContentHash::of_fields(&[b"waits"]);
        index.pending_embeddings.entry(hash).or_default().push(1);
        index
    }

    struct BytesOfFile(Vec<u8>);

    impl IndexFile for BytesOfFile {
        fn read(&mut self, _: u64, content: &mut Vec<u8>) -> StoreResult<()> {
            content.append(&mut self.0);
            Ok(())
        }
    }

    fn key() -> ContentHash {
        ContentHash::of_fields(&[b"key"])
    }

    #[test]
    fn a_segment_is_read_as_it_was_written() {
        let index = sample();
        let (segment, bytes) = Segment::of(&index, &(0..3));
        let content = segment.encode(&key());
        assert_eq!(Segment::decode(&content, &key(), 3).unwrap(), segment);
        let mut copy = ItemIndex::new("m", 3);
        assert_eq!(copy.vectors.read_bytes(&mut BytesOfFile(bytes.clone())).unwrap(), bytes);
        copy.append(Segment::decode(&content, &key(), 3).unwrap());
        assert_eq!(copy.items, index.items);
        assert_eq!(copy.extents, index.extents);
        assert_eq!(copy.pending_embeddings, index.pending_embeddings);
        assert_eq!(Segment::of(&copy, &(0..3)), (segment, bytes));
    }

    #[test]
    fn a_deleted_item_is_not_written() {
        let mut index = sample();
        index.remove(1);
        let (segment, bytes) = Segment::of(&index, &(0..3));
        assert_eq!((segment.items.len(), bytes.len()), (2, 6));
        assert_eq!(*segment.postings.terms, [0, 2, 99]);
        assert_eq!(*segment.postings.items, [0, 1, 0, 1]);
        assert_eq!(segment.pending, []);
    }

    #[test]
    fn anything_else_is_not_a_segment() {
        let content = Segment::of(&sample(), &(0..3)).0.encode(&key());
        assert_eq!(Segment::decode(&content, &ContentHash::of_fields(&[]), 3), None);
        assert_eq!(Segment::decode(&content, &key(), 70), None);
        for length in 0..content.len() {
            assert_eq!(Segment::decode(&content[..length], &key(), 3), None, "{length} bytes");
        }
        for position in 0..content.len() {
            // The hash of the file detects a change; reading it must not panic either way.
            let mut changed = content.clone();
            changed[position] = !changed[position];
            drop(Segment::decode(&changed, &key(), 3));
        }
    }

    /// Fails when the analysis of a text changes. Then raise [`ANALYSIS_VERSION`], so that old
    /// segments are not used, and put the new hash here.
    #[test]
    fn the_analysis_has_its_version() {
        use treering_core::ports::Change;
        use treering_core::{Message, MessageIdx, NewMessage, Role, TurnNo};
        let texts = [
            "Where did Renée's running shoes go? I'd always prefer parseHttpRequest in tide_model.rs",
            "Les bateaux étaient partis vers l'île, et nous ne les avons jamais revus.",
            "From now on, summarize the list of orders: children, geese, BOOKS_PLIST, 3.25 and 東京都庁.",
        ];
        let mut index = ItemIndex::new("none", 0);
        for (idx, text) in texts.into_iter().enumerate() {
            let at = Timestamp::from_micros(idx as i64);
            let body = NewMessage::new(Role::User, text, at);
            let message = Message {
                idx: MessageIdx(idx as u32),
                turn: TurnNo(0),
                turns: 1,
                thread: ThreadName::main(),
                chars: text.len() as u32,
                tokens: 1,
                hash: body.hash(),
                body,
            };
            let change = Change::Message(ConversationId::from_bytes([1; 16]), message);
            index.add(&change, ItemEmbedding::Ready(Vec::new()));
        }
        let content = Segment::of(&index, &(0..3)).0.encode(&key());
        let hash = ContentHash::of_fields(&[&content]).to_string();
        assert_eq!((ANALYSIS_VERSION, hash.as_str()), (2, "67df93bee666e0ddbcb627b6ed0f9e00"));
    }
}
