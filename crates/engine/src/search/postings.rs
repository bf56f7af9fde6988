//! Posting lists: the items that contain a term. Items are numbered in order of arrival and fill
//! segments. A full segment is sealed into a compact form; only the last one grows. Segments that
//! were loaded from files may have fewer items.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use treering_core::lexicon::TermId;

/// Maximum number of items per segment, so that an item's offset fits in two bytes.
pub(super) const SEGMENT: usize = 1 << 15;

/// Term ids are already hashes.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// Maps terms to the items that contain them.
#[derive(Default)]
pub(super) struct Postings {
    sealed: Vec<(u32, SealedPostings)>,
    /// The first item of the open segment.
    open_start: u32,
    open: HashMap<TermId, Vec<u16>, BuildHasherDefault<IdentityHasher>>,
}

/// The posting lists of a full segment: its sorted terms, and their lists concatenated. The items
/// are offsets from the first item of the segment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SealedPostings {
    pub(super) terms: Box<[TermId]>,
    pub(super) list_ends: Box<[u32]>,
    pub(super) items: Box<[u16]>,
}

impl Postings {
    /// Adds an item with its distinct terms. Items are added in order of their numbers.
    pub(super) fn push(&mut self, item: u32, terms: &[TermId]) {
        if (item - self.open_start) as usize >= SEGMENT {
            let full = SealedPostings::of(std::mem::take(&mut self.open).into_iter().collect());
            self.append(full, item - self.open_start);
        }
        let index = (item - self.open_start) as u16;
        for term in terms {
            self.open.entry(*term).or_default().push(index);
        }
    }

    /// Adds a sealed segment of this many items. The open segment must be empty.
    pub(super) fn append(&mut self, postings: SealedPostings, items: u32) {
        self.sealed.push((self.open_start, postings));
        self.open_start += items;
    }

    /// Approximate memory use.
    pub(super) fn bytes(&self) -> usize {
        let sealed = |it: &SealedPostings| 12 * it.terms.len() + 2 * it.items.len();
        let open = |items: &Vec<u16>| 48 + 2 * items.capacity();
        self.sealed.iter().map(|(_, it)| sealed(it)).sum::<usize>()
            + self.open.values().map(open).sum::<usize>()
    }

    /// The number of items that contain a term.
    pub(super) fn doc_freq(&self, term: TermId) -> u32 {
        let sealed = self.sealed.iter().filter_map(|(_, sealed)| sealed.items(term));
        let open = self.open.get(&term).map(Vec::as_slice);
        sealed.chain(open).map(|items| items.len() as u32).sum()
    }

    /// The segments that overlap a range of items.
    pub(super) fn segments(&self, range: &Range<u32>) -> Range<usize> {
        let end = |segment: usize| {
            self.sealed.get(segment + 1).map_or(self.open_start, |(start, _)| *start)
        };
        let first = (0..self.sealed.len()).find(|it| end(*it) > range.start);
        let first = first.unwrap_or(self.sealed.len());
        let sealed = self.sealed.partition_point(|(start, _)| *start < range.end);
        let last = sealed + usize::from(self.open_start < range.end);
        first..last.max(first)
    }

    /// The posting list of a term in a segment, restricted to a range. The items are offsets from
    /// the returned base.
    pub(super) fn run(&self, term: TermId, segment: usize, range: &Range<u32>) -> (usize, &[u16]) {
        let (base, items) = match self.sealed.get(segment) {
            Some((start, sealed)) => (*start as usize, sealed.items(term)),
            None => (self.open_start as usize, self.open.get(&term).map(Vec::as_slice)),
        };
        let items = items.unwrap_or_default();
        let from = items.partition_point(|item| base + usize::from(*item) < range.start as usize);
        let until = items.partition_point(|item| base + usize::from(*item) < range.end as usize);
        (base, &items[from..until])
    }

    /// The posting lists of a range of items. `offset_of` gives their new numbers, or none for items
    /// to leave out.
    pub(super) fn sealed_of(
        &self,
        range: &Range<u32>,
        offset_of: impl Fn(usize) -> Option<u16>,
    ) -> SealedPostings {
        let mut lists: Vec<(TermId, usize)> = Vec::new();
        for segment in self.segments(range) {
            match self.sealed.get(segment) {
                Some((_, sealed)) => lists.extend(sealed.terms.iter().map(|it| (*it, segment))),
                None => lists.extend(self.open.keys().map(|it| (*it, segment))),
            }
        }
        lists.sort_unstable();
        let mut sealed: Vec<(TermId, Vec<u16>)> = Vec::new();
        for (term, segment) in lists {
            let (base, run) = self.run(term, segment, range);
            let items = run.iter().filter_map(|item| offset_of(base + usize::from(*item)));
            match sealed.last_mut() {
                Some((last, list)) if *last == term => list.extend(items),
                _ => sealed.push((term, items.collect())),
            }
        }
        sealed.retain(|(_, list)| !list.is_empty());
        SealedPostings::of(sealed)
    }
}

impl SealedPostings {
    fn of(mut lists: Vec<(TermId, Vec<u16>)>) -> Self {
        lists.sort_unstable_by_key(|(term, _)| *term);
        let mut items = Vec::with_capacity(lists.iter().map(|(_, list)| list.len()).sum());
        let mut list_ends = Vec::with_capacity(lists.len());
        for (_, list) in &lists {
            items.extend_from_slice(list);
            list_ends.push(items.len() as u32);
        }
        let terms = lists.into_iter().map(|(term, _)| term).collect();
        Self { terms, list_ends: list_ends.into(), items: items.into() }
    }

    fn items(&self, term: TermId) -> Option<&[u16]> {
        let index = self.terms.binary_search(&term).ok()?;
        let from = index.checked_sub(1).map_or(0, |before| self.list_ends[before]);
        Some(&self.items[from as usize..self.list_ends[index] as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_and_open_segments_answer_alike() {
        let mut postings = Postings::default();
        let number = 2 * SEGMENT as u32 + 100;
        for item in 0..number {
            let terms: Vec<TermId> =
                [1, 3, 1000].into_iter().filter(|term| item % *term as u32 == 0).collect();
            postings.push(item, &terms);
        }
        let items = |term: TermId, range: Range<u32>| -> Vec<u32> {
            let runs = postings.segments(&range).map(|segment| postings.run(term, segment, &range));
            runs.flat_map(|(base, run)| run.iter().map(move |item| base as u32 + u32::from(*item)))
                .collect()
        };
        for term in [1, 3, 1000] {
            for range in [0..number, 5..40_000, 32_768..32_769, 65_000..number, 7..7] {
                let expected: Vec<u32> = range.clone().filter(|item| item % term == 0).collect();
                assert_eq!(items(u64::from(term), range.clone()), expected, "{term} in {range:?}");
            }
        }
        assert_eq!(items(2, 0..number), [] as [u32; 0]);
        assert_eq!(
            [1, 2, 1000].map(|term| postings.doc_freq(term)),
            [number, 0, number.div_ceil(1000)]
        );
    }
}
