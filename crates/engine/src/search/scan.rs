//! The vector scan: vectors quantized to bytes and to single bits. Bits select candidates, bytes
//! rank them.

use treering_core::ports::{IndexFile, StoreResult};

use super::simd;

/// Quantized vectors of unit length. An item without a vector has zeros.
pub(super) struct QuantizedVectors {
    dims: usize,
    /// Signed numbers, as the bytes of a segment's file.
    bytes: Vec<u8>,
    scales: Vec<f32>,
    bits: Vec<u64>,
}

/// A quantized query vector.
pub(super) struct QuantizedQuery {
    bytes: Vec<i8>,
    scale: f32,
    bits: Vec<u64>,
}

impl QuantizedQuery {
    pub(super) fn of(vector: &[f32]) -> Self {
        let (bytes, scale) = quantize(vector);
        Self { bytes, scale, bits: bits(vector) }
    }
}

impl QuantizedVectors {
    pub(super) const fn new(dims: usize) -> Self {
        Self { dims, bytes: Vec::new(), scales: Vec::new(), bits: Vec::new() }
    }

    /// Approximate memory use.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.capacity() + 4 * self.scales.capacity() + 8 * self.bits.capacity()
    }

    const fn words(&self) -> usize {
        self.dims.div_ceil(64)
    }

    /// Appends the vector of the next item, or zeros if it is not known yet.
    pub(super) fn push(&mut self, vector: Option<&[f32]>) {
        let (item, words) = (self.scales.len(), self.words());
        self.scales.push(0.0);
        self.bytes.resize((item + 1) * self.dims, 0);
        self.bits.resize((item + 1) * words, 0);
        if let Some(vector) = vector {
            self.set(item as u32, vector);
        }
    }

    /// Sets the vector of an item.
    pub(super) fn set(&mut self, item: u32, vector: &[f32]) {
        let (item, words) = (item as usize, self.words());
        let (bytes, scale) = quantize(vector);
        self.scales[item] = scale;
        let row = &mut self.bytes[item * self.dims..(item + 1) * self.dims];
        row.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte as u8);
        self.bits[item * words..(item + 1) * words].copy_from_slice(&bits(vector));
    }

    /// Adds the vector of an item to a sum.
    pub(super) fn add_to(&self, item: u32, sum: &mut [f32]) {
        let start = item as usize * self.dims;
        let (row, scale) = (&self.bytes[start..start + self.dims], self.scales[item as usize]);
        for (byte, sum) in row.iter().zip(sum) {
            *sum += f32::from(*byte as i8) * scale;
        }
    }

    /// The bytes, the scale and the bits of an item.
    pub(super) fn row(&self, item: u32) -> (&[u8], f32, &[u64]) {
        let (item, words) = (item as usize, self.words());
        (
            &self.bytes[item * self.dims..(item + 1) * self.dims],
            self.scales[item],
            &self.bits[item * words..(item + 1) * words],
        )
    }

    /// Reads the bytes of the next vectors, which [`Self::append`] completes.
    pub(super) fn read_bytes(&mut self, from: &mut dyn IndexFile) -> StoreResult<&[u8]> {
        let start = self.scales.len() * self.dims;
        self.bytes.truncate(start);
        from.read(u64::MAX, &mut self.bytes)?;
        Ok(&self.bytes[start..])
    }

    /// Adds the vectors whose bytes were read. Bytes beyond them are dropped.
    pub(super) fn append(&mut self, scales: &[f32], bits: &[u64]) {
        self.scales.extend_from_slice(scales);
        self.bits.extend_from_slice(bits);
        self.bytes.truncate(self.scales.len() * self.dims);
    }

    /// Drops bytes that were read without [`Self::append`].
    pub(super) fn discard_bytes(&mut self) {
        self.bytes.truncate(self.scales.len() * self.dims);
    }

    /// Allocates memory for this many more vectors.
    pub(super) fn reserve(&mut self, items: usize) {
        self.bytes.reserve(items * self.dims);
        self.scales.reserve(items);
        self.bits.reserve(items * self.words());
    }

    /// The similarity of an item and a query.
    #[inline]
    pub(super) fn similarity(&self, item: u32, question: &QuantizedQuery) -> f32 {
        let start = item as usize * self.dims;
        let row = &self.bytes[start..start + self.dims];
        simd::product(row, &question.bytes) as f32 * (self.scales[item as usize] * question.scale)
    }

    /// The `limit` nearest of the given items, by their bytes.
    pub(super) fn nearest_of(
        &self,
        items: impl Iterator<Item = u32>,
        question: &QuantizedQuery,
        limit: usize,
    ) -> Vec<(u32, f32)> {
        TopK::of(items.map(|item| (item, self.similarity(item, question))), limit)
    }

    /// The `limit` nearest of all items that pass, preselected by their bits.
    pub(super) fn nearest(
        &self,
        question: &QuantizedQuery,
        limit: usize,
        pass: impl Fn(u32) -> bool,
    ) -> Vec<(u32, f32)> {
        let min_agreement = self.agreement_reached(question, 2 * limit);
        let mut chosen = Vec::with_capacity(4 * limit);
        simd::reaching(&self.bits, &question.bits, min_agreement, &mut chosen);
        self.nearest_of(chosen.into_iter().filter(|item| pass(*item)), question, limit)
    }

    /// The number of shared bits that about `count` items reach, estimated from a sample.
    fn agreement_reached(&self, question: &QuantizedQuery, count: usize) -> u32 {
        const SAMPLE_STRIDE: usize = 16;
        let words = self.words().max(1);
        let mut counts = vec![0_usize; 64 * words + 1];
        simd::histogram(&self.bits, &question.bits, SAMPLE_STRIDE, &mut counts);
        let mut seen = 0;
        let threshold = (0..counts.len()).rev().find(|same| {
            seen += counts[*same] * SAMPLE_STRIDE;
            seen >= count
        });
        threshold.unwrap_or(0) as u32
    }
}

/// Quantizes a vector to bytes, and returns the scale of one step.
fn quantize(vector: &[f32]) -> (Vec<i8>, f32) {
    let largest = vector.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
    let scale = largest / 127.0;
    let byte = |x: &f32| if scale > 0.0 { (x / scale).round() as i8 } else { 0 };
    (vector.iter().map(byte).collect(), scale)
}

/// The items with the highest scores. Ties are broken by item number, so results are
/// deterministic.
pub(super) struct TopK {
    limit: usize,
    kept: Vec<(u32, f32)>,
    /// Items below this score are not among the best.
    pub(super) threshold: f32,
}

impl TopK {
    pub(super) const fn new(limit: usize) -> Self {
        let threshold = if limit == 0 { f32::INFINITY } else { f32::NEG_INFINITY };
        Self { limit, kept: Vec::new(), threshold }
    }

    pub(super) fn of(scored: impl Iterator<Item = (u32, f32)>, limit: usize) -> Vec<(u32, f32)> {
        let mut best = Self::new(limit);
        scored.for_each(|(item, score)| best.push(item, score));
        best.into_sorted()
    }

    #[inline]
    pub(super) fn push(&mut self, item: u32, score: f32) {
        if score >= self.threshold {
            self.keep(item, score);
        }
    }

    fn keep(&mut self, item: u32, score: f32) {
        self.kept.push((item, score));
        if self.kept.len() >= 2 * self.limit.max(64) {
            self.kept.select_nth_unstable_by(self.limit - 1, better);
            self.kept.truncate(self.limit);
            self.threshold = self.kept[self.limit - 1].1;
        }
    }

    pub(super) fn into_sorted(mut self) -> Vec<(u32, f32)> {
        self.kept.sort_unstable_by(better);
        self.kept.truncate(self.limit);
        self.kept
    }
}

fn better(a: &(u32, f32), b: &(u32, f32)) -> std::cmp::Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

fn bits(vector: &[f32]) -> Vec<u64> {
    let word = |part: &[f32]| {
        part.iter().enumerate().fold(0_u64, |word, (bit, x)| word | (u64::from(*x > 0.0) << bit))
    };
    vector.chunks(64).map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(seed: u64, dims: usize) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let raw: Vec<f32> = (0..dims)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (state >> 40) as f32 / (1 << 24) as f32 - 0.5
            })
            .collect();
        let norm = raw.iter().map(|x| x * x).sum::<f32>().sqrt();
        raw.into_iter().map(|x| x / norm).collect()
    }

    #[test]
    fn the_nearest_are_found_by_bits_as_by_bytes() {
        let mut vectors = QuantizedVectors::new(256);
        // Clusters of ten around a hundred centers, like those of real texts.
        for seed in 0..1000 {
            let (center, noise) = (vector(seed / 10 + 1, 256), vector(seed + 5000, 256));
            let mixed: Vec<f32> =
                center.iter().zip(&noise).map(|(a, b)| 0.8 * a + 0.6 * b).collect();
            let norm = mixed.iter().map(|x| x * x).sum::<f32>().sqrt();
            vectors.push(Some(&mixed.iter().map(|x| x / norm).collect::<Vec<_>>()));
        }
        let question = QuantizedQuery::of(&vector(43, 256));
        let exact: Vec<u32> =
            vectors.nearest_of(0..1000, &question, 10).into_iter().map(|(item, _)| item).collect();
        let quick: Vec<u32> =
            vectors.nearest(&question, 10, |_| true).into_iter().map(|(item, _)| item).collect();
        assert_eq!(exact.iter().copied().min(), Some(420), "all are from the query's cluster");
        let same = quick.iter().filter(|item| exact.contains(item)).count();
        assert!(same >= 9, "{quick:?} against {exact:?}");
        let even = vectors.nearest(&question, 10, |item| item % 2 == 0);
        assert!(even.iter().all(|(item, _)| item % 2 == 0));
    }

    #[test]
    fn nothing_is_like_nothing() {
        let mut vectors = QuantizedVectors::new(4);
        vectors.push(Some(&[0.0; 4]));
        vectors.push(None);
        assert_eq!(
            vectors.nearest_of(0..2, &QuantizedQuery::of(&[0.0; 4]), 5),
            [(0, 0.0), (1, 0.0)]
        );
        assert_eq!(TopK::of([].into_iter(), 5), []);
        assert_eq!(TopK::of([(3, 1.0), (1, 1.0), (2, 2.0)].into_iter(), 2), [(2, 2.0), (1, 1.0)]);
        assert_eq!(TopK::of([(3, 1.0)].into_iter(), 0), []);
        let scored = (0..10_000).map(|item| (item, f32::from((item * 7919 % 1009) as u16)));
        let mut sorted: Vec<(u32, f32)> = scored.clone().collect();
        sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        assert_eq!(TopK::of(scored, 20), sorted[..20]);
    }
}
