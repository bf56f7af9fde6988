//! Random delays and bytes from a reproducible seed.

use std::thread;
use std::time::Duration;

/// A seeded random number generator. It prints its seed when the test fails.
pub(crate) struct SeededRng {
    pub(crate) seed: u64,
    pub(crate) state: u64,
}

impl SeededRng {
    pub(crate) fn seeded() -> Self {
        let seed =
            std::env::var("TREERING_CRASH_SEED").map_or(0x7265_6e67, |seed| seed.parse().unwrap());
        Self { seed, state: seed }
    }

    /// A number below `end` (splitmix64).
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    pub(crate) fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).unwrap()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }

    /// Sleeps for a random time, so that the next step hits the process at an arbitrary moment.
    pub(crate) fn pause(&mut self, most_micros: u64) {
        thread::sleep(Duration::from_micros(self.below(most_micros)));
    }
}

impl Drop for SeededRng {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("TREERING_CRASH_SEED={} repeats this run", self.seed);
        }
    }
}
