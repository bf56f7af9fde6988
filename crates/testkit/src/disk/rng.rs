//! A deterministic random number generator (splitmix64).

/// A generator. The same seed always gives the same numbers.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// Creates a generator from a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Creates a generator for one part of a run. Parts with different names or numbers are
    /// independent.
    #[must_use]
    pub fn for_part(seed: u64, name: &str, number: u64) -> Self {
        let mut rng = Self::new(seed);
        for byte in name.bytes() {
            rng.0 = rng.next_u64() ^ u64::from(byte);
        }
        rng.0 = rng.next_u64() ^ number;
        Self(rng.next_u64())
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        let drawn = self.next_u64();
        if end == 0 { 0 } else { (drawn % end as u64) as usize }
    }

    /// True with a probability of one in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn a_seed_repeats_its_numbers_and_parts_differ() {
        let draw = |mut rng: Rng| (0..8).map(|_| rng.next_u64()).collect::<Vec<_>>();
        assert_eq!(draw(Rng::new(7)), draw(Rng::new(7)));
        assert_eq!(draw(Rng::for_part(7, "import", 3)), draw(Rng::for_part(7, "import", 3)));
        assert_ne!(draw(Rng::for_part(7, "import", 3)), draw(Rng::for_part(7, "import", 4)));
        assert_ne!(draw(Rng::for_part(7, "import", 3)), draw(Rng::for_part(7, "appends", 3)));
        assert_eq!(Rng::new(1).below(0), 0);
    }
}
