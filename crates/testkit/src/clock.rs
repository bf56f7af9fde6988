//! A clock that a test sets by hand.

use std::sync::atomic::{AtomicI64, Ordering};

use treering_core::{Clock, Timestamp};

/// Returns the time it was last set to.
#[derive(Debug, Default)]
pub struct FakeClock(AtomicI64);

impl FakeClock {
    /// Creates a clock that shows this time.
    #[must_use]
    pub const fn at(time: Timestamp) -> Self {
        Self(AtomicI64::new(time.as_micros()))
    }

    /// Sets the clock, forward or backward.
    pub fn set(&self, time: Timestamp) {
        self.0.store(time.as_micros(), Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}
