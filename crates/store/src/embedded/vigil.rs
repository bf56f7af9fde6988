//! Whether writers that wait for their commit stay awake.
//!
//! To be put to sleep and woken again takes the system about as long as a writer itself takes to get its next turn ready,
//! and whoever wakes the others is the one that they wait for. So where writers are many and commits quick, they stay awake and let
//! others run meanwhile. Where a wait was long nevertheless, the next ones are slept through; and ever more of them where
//! that happens again and again, since whatever else needs the cores (other programs, a slow disk's driver) gets more of them
//! from writers that stay awake than from those that sleep.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a writer stays awake at the most: twice as long as a commit takes that many share.
const LONGEST: Duration = Duration::from_millis(1);

/// How many waits are slept through after one that was longer.
const FEW: u32 = 100;

/// How many are slept through at the most.
const MANY: u32 = 12_800;

/// How many writers must have stayed awake for one long wait to be an exception.
const OFTEN: u32 = 1000;

/// Decides who stays awake.
pub(super) struct Vigils {
    cores: usize,
    /// How many waits are still to be slept through.
    rests: u32,
    /// How many were to be the last time.
    length: u32,
    /// How many writers have stayed awake since.
    kept: u32,
}

impl Default for Vigils {
    fn default() -> Self {
        Self::new(thread::available_parallelism().map_or(1, usize::from))
    }
}

impl Vigils {
    const fn new(cores: usize) -> Self {
        Self { cores, rests: 0, length: 0, kept: OFTEN }
    }

    /// Whether the next of so many writers stays awake.
    pub(super) fn begin(&mut self, writers: usize) -> bool {
        // Who has a core to itself wakes up beside the others.
        if writers <= self.cores {
            return false;
        }
        if self.rests > 0 {
            self.rests -= 1;
            return false;
        }
        self.kept = self.kept.saturating_add(1);
        true
    }

    /// Notes that one stayed awake for too long.
    pub(super) fn end_in_vain(&mut self) {
        // Others that waited for the same have noted it.
        if self.rests > 0 {
            return;
        }
        self.length = if self.kept >= OFTEN { FEW } else { (self.length * 2).min(MANY) };
        self.rests = self.length;
        self.kept = 0;
    }
}

/// Stays awake until there is something to be told; `false` where that takes too long.
pub(super) fn keep(told: &AtomicBool) -> bool {
    let since = Instant::now();
    while !told.load(Ordering::Acquire) {
        if since.elapsed() > LONGEST {
            return false;
        }
        thread::yield_now();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many waits are slept through.
    fn slept(vigils: &mut Vigils, waits: u32) -> u32 {
        (0..waits).map(|_| u32::from(!vigils.begin(16))).sum()
    }

    #[test]
    fn an_exception_costs_little_and_a_rule_ends_it() {
        let mut vigils = Vigils::new(2);
        assert_eq!(slept(&mut vigils, 50), 0);
        for _ in 0..3 {
            // Whoever waits for the same notes the same.
            (0..15).for_each(|_| vigils.end_in_vain());
            assert_eq!(slept(&mut vigils, FEW + OFTEN), FEW);
        }
        for doubled in [1, 2, 4, 8, 16, 32, 64, 128, 128, 128] {
            (0..15).for_each(|_| vigils.end_in_vain());
            assert_eq!(slept(&mut vigils, FEW * doubled + 16), FEW * doubled);
        }
        assert_eq!(slept(&mut vigils, OFTEN), 0);
        vigils.end_in_vain();
        assert_eq!(slept(&mut vigils, OFTEN), FEW);
    }

    #[test]
    fn writers_with_a_core_each_sleep() {
        let mut vigils = Vigils::new(2);
        let awake: Vec<usize> = (0..100).filter(|writers| vigils.begin(*writers)).collect();
        assert_eq!(awake, (3..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_vigil_ends_with_what_there_is_to_be_told_or_without() {
        assert!(keep(&AtomicBool::new(true)));
        assert!(!keep(&AtomicBool::new(false)));
    }
}
