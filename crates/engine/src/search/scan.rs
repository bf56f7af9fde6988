//! The scan: vectors as bytes and as single bits, and the items nearest to a question. Bits
//! choose, bytes decide.

/// Vectors of unit length, quantised.
pub(super) struct Vectors {
    dims: usize,
    bytes: Vec<i8>,
    scales: Vec<f32>,
    bits: Vec<u64>,
}

impl Vectors {
    pub(super) const fn new(dims: usize) -> Self {
        Self { dims, bytes: Vec::new(), scales: Vec::new(), bits: Vec::new() }
    }

    const fn words(&self) -> usize {
        self.dims.div_ceil(64)
    }

    pub(super) fn push(&mut self, vector: &[f32]) {
        let largest = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let scale = largest / 127.0;
        self.scales.push(scale);
        let byte = |x: &f32| if scale > 0.0 { (x / scale).round() as i8 } else { 0 };
        self.bytes.extend(vector.iter().map(byte));
        self.bits.extend(bits(vector));
    }

    /// How like an item is to a question's vector.
    pub(super) fn likeness(&self, item: u32, question: &[f32]) -> f32 {
        let start = item as usize * self.dims;
        let row = &self.bytes[start..start + self.dims];
        let sum: f32 = row.iter().zip(question).map(|(a, b)| f32::from(*a) * b).sum();
        sum * self.scales[item as usize]
    }

    /// The `limit` nearest of these items, by their bytes.
    pub(super) fn nearest_of(
        &self,
        items: impl Iterator<Item = u32>,
        question: &[f32],
        limit: usize,
    ) -> Vec<(u32, f32)> {
        let largest = question.iter().fold(0.0_f32, |most, x| most.max(x.abs())).max(1e-12);
        let rounded: Vec<i8> = question.iter().map(|x| (x / largest * 127.0).round() as i8).collect();
        let score = |item: u32| {
            let start = item as usize * self.dims;
            let row = &self.bytes[start..start + self.dims];
            let sum: i32 = row.iter().zip(&rounded).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
            (item, sum as f32 * self.scales[item as usize])
        };
        best(items.map(score).collect(), limit)
    }

    /// The `limit` nearest of all items that pass, chosen by their bits first.
    pub(super) fn nearest(
        &self,
        question: &[f32],
        limit: usize,
        pass: impl Fn(u32) -> bool,
    ) -> Vec<(u32, f32)> {
        let (words, wanted) = (self.words(), bits(question));
        let dims = self.dims as u32;
        let mut counts = vec![0_u32; self.dims + 1];
        let mut agree: Vec<u16> = Vec::with_capacity(self.scales.len());
        for row in self.bits.chunks_exact(words) {
            let differ: u32 = row.iter().zip(&wanted).map(|(a, b)| (a ^ b).count_ones()).sum();
            let same = dims - differ.min(dims);
            agree.push(same as u16);
            counts[same as usize] += 1;
        }
        // The agreement that some four times as many items reach as are wanted.
        let mut reached = 0;
        let threshold = (0..counts.len()).rev().find(|same| {
            reached += counts[*same] as usize;
            reached >= 4 * limit
        });
        let threshold = threshold.unwrap_or(0) as u16;
        let chosen =
            agree.iter().enumerate().filter(|(_, same)| **same >= threshold).map(|(item, _)| item as u32);
        self.nearest_of(chosen.filter(|item| pass(*item)), question, limit)
    }
}

/// The best by score; equal scores in order of the items, so that answers are always the same.
pub(super) fn best(mut scored: Vec<(u32, f32)>, limit: usize) -> Vec<(u32, f32)> {
    let order = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if scored.len() > limit && limit > 0 {
        scored.select_nth_unstable_by(limit - 1, order);
        scored.truncate(limit);
    }
    scored.sort_unstable_by(order);
    scored.truncate(limit);
    scored
}

fn bits(vector: &[f32]) -> Vec<u64> {
    let word = |part: &[f32]| {
        part.iter().enumerate().fold(0_u64, |word, (place, x)| word | (u64::from(*x > 0.0) << place))
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
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 40) as f32 / (1 << 24) as f32 - 0.5
            })
            .collect();
        let norm = raw.iter().map(|x| x * x).sum::<f32>().sqrt();
        raw.into_iter().map(|x| x / norm).collect()
    }

    #[test]
    fn the_nearest_are_found_by_bits_as_by_bytes() {
        let mut vectors = Vectors::new(256);
        // Clusters of ten around a hundred centres, as texts are.
        for seed in 0..1000 {
            let (centre, own) = (vector(seed / 10 + 1, 256), vector(seed + 5000, 256));
            let mixed: Vec<f32> = centre.iter().zip(&own).map(|(a, b)| 0.8 * a + 0.6 * b).collect();
            let norm = mixed.iter().map(|x| x * x).sum::<f32>().sqrt();
            vectors.push(&mixed.iter().map(|x| x / norm).collect::<Vec<_>>());
        }
        let question = vector(43, 256);
        let exact: Vec<u32> =
            vectors.nearest_of(0..1000, &question, 10).into_iter().map(|(item, _)| item).collect();
        let quick: Vec<u32> =
            vectors.nearest(&question, 10, |_| true).into_iter().map(|(item, _)| item).collect();
        assert_eq!(exact.iter().copied().min(), Some(420), "the cluster of the question");
        let same = quick.iter().filter(|item| exact.contains(item)).count();
        assert!(same >= 9, "{quick:?} against {exact:?}");
        let even = vectors.nearest(&question, 10, |item| item % 2 == 0);
        assert!(even.iter().all(|(item, _)| item % 2 == 0));
    }

    #[test]
    fn nothing_is_like_nothing() {
        let mut vectors = Vectors::new(4);
        vectors.push(&[0.0; 4]);
        assert_eq!(vectors.nearest_of(0..1, &[0.0; 4], 5), [(0, 0.0)]);
        assert_eq!(best(vec![], 5), []);
        assert_eq!(best(vec![(3, 1.0), (1, 1.0), (2, 2.0)], 2), [(2, 2.0), (1, 1.0)]);
    }
}
