//! Measures of this process: durations of operations, and how many searches found something.
//! Reads never write, so the measures are kept in memory and start at zero with the process.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use treering_core::TenantId;

use crate::engine::Engine;

/// The durations of an operation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Durations {
    /// Number of operations.
    pub count: u64,
    /// Total duration, in seconds.
    pub total_seconds: f64,
    /// The longest duration, in seconds.
    pub max_seconds: f64,
    /// Number of operations per bucket; the last bucket has no limit.
    buckets: [u64; Self::LIMITS.len() + 1],
}

impl Durations {
    /// The upper limits of the buckets, in seconds.
    pub const LIMITS: [f64; 11] =
        [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

    /// Adds an operation.
    pub fn add(&mut self, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64();
        self.count += 1;
        self.total_seconds += seconds;
        self.max_seconds = self.max_seconds.max(seconds);
        self.buckets[Self::LIMITS.partition_point(|limit| *limit < seconds)] += 1;
    }

    /// The mean duration in seconds; 0 without operations.
    #[must_use]
    pub fn mean_seconds(&self) -> f64 {
        self.total_seconds / self.count.max(1) as f64
    }

    /// The upper limit of each bucket with the number of operations in it.
    #[must_use]
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let limits = Self::LIMITS.into_iter().chain([f64::MAX]);
        limits.zip(self.buckets).collect()
    }
}

/// The measures of a tenant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measures {
    /// Durations of storing turns and messages.
    pub store_turn: Durations,
    /// Durations of searches.
    pub search: Durations,
    /// Number of searches that found something.
    pub searches_found: u64,
    /// Number of searches that found nothing.
    pub searches_empty: u64,
    /// Durations of writing a summary, by level.
    pub summarize: BTreeMap<u8, Durations>,
}

/// The measures of all tenants.
#[derive(Debug, Default)]
pub(crate) struct TenantMeasures(Mutex<HashMap<TenantId, Measures>>);

impl Engine {
    /// The measures of this process for this tenant.
    #[must_use]
    pub fn measures(&self) -> Measures {
        let tenants = self.tenant_measures().0.lock().unwrap_or_else(PoisonError::into_inner);
        tenants.get(self.tenant()).cloned().unwrap_or_default()
    }

    /// Records a measure.
    pub(crate) fn measure(&self, record: impl FnOnce(&mut Measures)) {
        let mut tenants = self.tenant_measures().0.lock().unwrap_or_else(PoisonError::into_inner);
        record(tenants.entry(self.tenant().clone()).or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fall_into_buckets() {
        let mut durations = Durations::default();
        for ms in [1, 2, 90, 7000] {
            durations.add(Duration::from_millis(ms));
        }
        let filled: Vec<(f64, u64)> =
            durations.buckets().into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(0.001, 1), (0.0025, 1), (0.1, 1), (f64::MAX, 1)]);
        assert_eq!((durations.count, durations.max_seconds), (4, 7.0));
        assert!((durations.mean_seconds() - 7.093 / 4.0).abs() < 1e-9);
    }
}
