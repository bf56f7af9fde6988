//! A clock that a test moves by hand.

use std::sync::atomic::{AtomicI64, Ordering};

use treering_core::{Clock, Timestamp};

/// Tells the time it was set to.
#[derive(Debug, Default)]
pub struct FakeClock(AtomicI64);

impl FakeClock {
    /// A clock that shows this moment.
    #[must_use]
    pub const fn at(moment: Timestamp) -> Self {
        Self(AtomicI64::new(moment.as_micros()))
    }

    /// Moves the clock; back, too.
    pub fn set(&self, moment: Timestamp) {
        self.0.store(moment.as_micros(), Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}
