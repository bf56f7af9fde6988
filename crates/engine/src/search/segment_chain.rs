//! The chain of sealed segments: which files make up an index, in which order, and what to write
//! next. It decides; `seal` reads and writes the files.

use std::fmt::{self, Write as _};
use std::ops::Range;

use treering_core::ContentHash;
use treering_core::ports::Cursor;

use super::index::ItemIndex;
use super::postings::SEGMENT;

/// The files of an index, as the file `manifest` lists them. Files that it does not list are
/// obsolete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Manifest {
    /// Identifies everything that the segments depend on besides the feed.
    pub(super) key: ContentHash,
    /// Increases when items are removed from the index, so that other processes read it again.
    pub(super) epoch: u64,
    pub(super) segments: Vec<SegmentEntry>,
}

/// A segment in the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SegmentEntry {
    /// The hash of the file's content, which is also its name.
    pub(super) name: ContentHash,
    /// The history of the feed at `to`.
    pub(super) history: ContentHash,
    /// The number of items in the file.
    pub(super) items: u32,
    /// The position in the feed after the segment. The next segment starts there.
    pub(super) to: Cursor,
}

impl Manifest {
    /// Its file name.
    pub(super) const NAME: &'static str = "manifest";
    const TITLE: &'static str = "treering search index 1";

    /// The name of the file of a segment.
    pub(super) fn file_name(segment: &ContentHash) -> String {
        format!("{segment}.segment")
    }

    /// Reads the content of the file; `None` if it is damaged or of another version.
    pub(super) fn parse(content: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(content).ok()?;
        let (body, checksum) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        if checksum != ContentHash::of_fields(&[body.as_bytes()]).to_string() {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != Self::TITLE {
            return None;
        }
        let (key, epoch) = lines.next()?.split_once(' ')?;
        let segments = lines.map(|line| {
            let mut fields = line.split(' ');
            Some(SegmentEntry {
                name: fields.next()?.to_owned().try_into().ok()?,
                history: fields.next()?.to_owned().try_into().ok()?,
                items: fields.next()?.parse().ok()?,
                to: fields.next()?.parse().ok()?,
            })
        });
        Some(Self {
            key: key.to_owned().try_into().ok()?,
            epoch: epoch.parse().ok()?,
            segments: segments.collect::<Option<_>>()?,
        })
    }
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut body = format!("{}\n{} {}", Self::TITLE, self.key, self.epoch);
        for SegmentEntry { name, history, items, to } in &self.segments {
            write!(body, "\n{name} {history} {items} {to}")?;
        }
        writeln!(f, "{body}\n{}", ContentHash::of_fields(&[body.as_bytes()]))
    }
}

/// The sealed part of an index in memory.
#[derive(Debug, Default)]
pub(super) struct SegmentChain {
    /// The content of the manifest that this process read or wrote last.
    pub(super) manifest: Option<Vec<u8>>,
    pub(super) segments: Vec<ChainedSegment>,
    /// Whether the manifest lists segments that could not be used.
    pub(super) has_unusable: bool,
    /// The ends of the feed's pages after the last segment: the number of items, and the cursor.
    page_ends: Vec<(u32, Cursor)>,
}

/// A segment of a chain.
#[derive(Debug, Clone)]
pub(super) struct ChainedSegment {
    pub(super) entry: SegmentEntry,
    /// Its items in this index, including those that are deleted.
    pub(super) range: Range<u32>,
    /// The number of items that were deleted since it was written.
    deleted: u32,
    /// Whether an item was removed that has no newer version.
    has_removed: bool,
}

impl ChainedSegment {
    pub(super) const fn new(entry: SegmentEntry, range: Range<u32>) -> Self {
        Self { entry, range, deleted: 0, has_removed: false }
    }
}

/// A part of the chain that a plan results in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChainPart {
    /// The segment at this position stays.
    Keep(usize),
    /// These items become a segment that ends at this cursor.
    Write(Range<u32>, Cursor),
}

impl SegmentChain {
    /// The number of sealed items.
    fn sealed_items(&self) -> u32 {
        self.segments.last().map_or(0, |last| last.range.end)
    }

    /// The epoch of the manifest.
    pub(super) fn epoch(&self) -> u64 {
        self.manifest.as_deref().and_then(Manifest::parse).map_or(0, |manifest| manifest.epoch)
    }

    /// Records the end of a page of the feed.
    pub(super) fn page_applied(&mut self, items: u32, cursor: &Cursor) {
        if self.page_ends.last().is_some_and(|(last, _)| *last == items) {
            self.page_ends.pop();
        }
        if items > self.sealed_items() {
            self.page_ends.push((items, cursor.clone()));
        }
    }

    /// Records that an item was deleted, and whether it has a newer version.
    pub(super) fn item_deleted(&mut self, item: u32, has_newer: bool) {
        let position = self.segments.partition_point(|segment| segment.range.end <= item);
        if let Some(segment) = self.segments.get_mut(position) {
            segment.deleted += 1;
            segment.has_removed |= !has_newer;
        }
    }

    /// Replaces the segments after they were written.
    pub(super) fn set(&mut self, manifest: Vec<u8>, segments: Vec<ChainedSegment>) {
        (self.manifest, self.segments) = (Some(manifest), segments);
        self.has_unusable = false;
        let sealed = self.sealed_items();
        self.page_ends.retain(|(items, _)| *items > sealed);
    }

    /// The chain that the segments should become; `None` if nothing needs to be written. The end
    /// of the index is sealed from `min_items` items on. A segment with removed items is
    /// rewritten, and so is one that has lost a quarter of its items to newer versions.
    pub(super) fn plan(&self, index: &ItemIndex, min_items: u32) -> Option<Vec<ChainPart>> {
        let mut kept = self.segments.len();
        let mut cuts = Vec::new();
        if index.items.len() as u32 - self.sealed_items() >= min_items {
            let tail = self.sealable(index);
            let end = tail.last().map(|(end, _)| *end);
            if let Some(end) = end.filter(|end| end - self.sealed_items() >= min_items) {
                kept = self.merged_from(end);
                cuts = self.cuts(kept, tail);
            }
        }
        let kept_part = |(position, segment): (usize, &ChainedSegment)| match segment.has_removed
            || segment.deleted > segment.entry.items / 4
        {
            true => ChainPart::Write(segment.range.clone(), segment.entry.to.clone()),
            false => ChainPart::Keep(position),
        };
        let kept = self.segments[..kept].iter().enumerate().map(kept_part);
        let parts: Vec<ChainPart> = kept.chain(cuts).collect();
        let is_written = |part: &ChainPart| matches!(part, ChainPart::Write(..));
        (self.has_unusable || parts.iter().any(is_written)).then_some(parts)
    }

    /// The page ends up to which the index can be sealed: to its end, or to the first item that
    /// waits for its vector if there are many. The vectors of a few are read when a segment is
    /// loaded.
    fn sealable(&self, index: &ItemIndex) -> &[(u32, Cursor)] {
        let sealed = self.sealed_items();
        let waiting = index.pending_embeddings.values().flatten().filter(|item| **item >= sealed);
        let (count, first) =
            waiting.fold((0, u32::MAX), |(count, first), item| (count + 1, first.min(*item)));
        let is_few = count <= (index.items.len() as u32 - sealed) / 64;
        let end = if is_few { u32::MAX } else { first };
        &self.page_ends[..self.page_ends.partition_point(|(items, _)| *items <= end)]
    }

    /// The first of the last segments that a new one up to `end` replaces. Each is at most as
    /// large as what follows it, so that an item is written a few times only.
    fn merged_from(&self, end: u32) -> usize {
        let mut start = self.sealed_items();
        let mut kept = self.segments.len();
        while let Some(last) = kept.checked_sub(1).map(|last| &self.segments[last].range) {
            if last.len() > (end - start) as usize || (end - last.start) as usize > SEGMENT {
                break;
            }
            (start, kept) = (last.start, kept - 1);
        }
        kept
    }

    /// Cuts the items after the kept segments into segments that are as long as possible.
    fn cuts(&self, kept: usize, tail: &[(u32, Cursor)]) -> Vec<ChainPart> {
        let merged = &self.segments[kept..];
        let mut ends: Vec<(u32, &Cursor)> =
            merged.iter().map(|it| (it.range.end, &it.entry.to)).collect();
        ends.extend(tail.iter().map(|(items, cursor)| (*items, cursor)));
        let mut start = kept.checked_sub(1).map_or(0, |last| self.segments[last].range.end);
        let mut cuts = Vec::new();
        for (position, (end, cursor)) in ends.iter().enumerate() {
            let next = ends.get(position + 1);
            if next.is_none_or(|(next, _)| (next - start) as usize > SEGMENT) {
                cuts.push(ChainPart::Write(start..*end, (*cursor).clone()));
                start = *end;
            }
        }
        cuts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(number: u32) -> Cursor {
        number.to_string().parse().unwrap()
    }

    fn entry(items: u32, to: u32) -> SegmentEntry {
        let hash = ContentHash::of_fields(&[&to.to_le_bytes()]);
        SegmentEntry { name: hash, history: hash, items, to: cursor(to) }
    }

    /// A chain of segments of these sizes, and a tail in pages of 200 items.
    fn chain(sizes: &[u32], tail: u32) -> SegmentChain {
        let mut chain = SegmentChain::default();
        for size in sizes {
            let start = chain.sealed_items();
            chain
                .segments
                .push(ChainedSegment::new(entry(*size, start + size), start..start + size));
        }
        let sealed = chain.sealed_items();
        for end in (sealed..=sealed + tail).step_by(200).skip(1) {
            chain.page_applied(end, &cursor(end));
        }
        chain
    }

    #[test]
    fn a_long_tail_becomes_full_segments() {
        let chain = chain(&[], 100_000);
        let cuts = chain.cuts(0, &chain.page_ends);
        let ranges: Vec<Range<u32>> = cuts
            .iter()
            .map(|cut| match cut {
                ChainPart::Write(range, to) => {
                    assert_eq!(*to, cursor(range.end));
                    range.clone()
                }
                ChainPart::Keep(_) => panic!("there is nothing to keep"),
            })
            .collect();
        assert_eq!(ranges, [0..32_600, 32_600..65_200, 65_200..97_800, 97_800..100_000]);
    }

    #[test]
    fn a_new_segment_replaces_smaller_ones() {
        let kept = |sizes: &[u32], tail: u32| {
            let chain = chain(sizes, tail);
            chain.merged_from(chain.sealed_items() + tail)
        };
        assert_eq!(kept(&[], 1200), 0);
        assert_eq!(kept(&[4000, 2000, 1200], 1200), 0, "each is as large as what follows it");
        assert_eq!(kept(&[9000, 2000, 1200], 1200), 1);
        assert_eq!(kept(&[32_600, 1200], 1200), 1, "a full segment stays");
        assert_eq!(kept(&[20_000, 16_000], 16_000), 1, "no segment exceeds the maximum");
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let key = ContentHash::of_fields(&[b"key"]);
        for segments in [vec![], vec![entry(5, 7), entry(6, 9)]] {
            let manifest = Manifest { key, epoch: 3, segments };
            let content = manifest.to_string().into_bytes();
            assert_eq!(Manifest::parse(&content), Some(manifest));
            for length in 0..content.len() {
                assert_eq!(Manifest::parse(&content[..length]), None, "{length} bytes");
            }
            for position in 0..content.len() {
                let mut changed = content.clone();
                changed[position] ^= 1;
                assert_eq!(Manifest::parse(&changed), None, "byte {position}");
            }
        }
    }
}
