//! Quotas: how much may be asked in a minute. The arithmetic is of values; only [`Quotas`] knows the time.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The longest that a call waits for its turn; one that would have to wait longer is refused.
const PATIENCE_MS: u64 = 10_000;
const MINUTE_MS: f64 = 60_000.0;

/// How much may be asked in a minute; as much as one likes where nothing is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Requests.
    pub requests_per_minute: Option<u32>,
    /// Tokens, read and written.
    pub tokens_per_minute: Option<u32>,
}

/// What fills evenly up to a minute's worth, and is drawn from. It may be overdrawn by what had been
/// thought smaller.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bucket {
    per_minute: f64,
    level: f64,
    at_ms: u64,
}

impl Bucket {
    fn full(per_minute: u32, now_ms: u64) -> Self {
        let per_minute = f64::from(per_minute.max(1));
        Self { per_minute, level: per_minute, at_ms: now_ms }
    }

    fn fill(&mut self, now_ms: u64) {
        let passed = now_ms.saturating_sub(self.at_ms) as f64;
        self.level = (self.level + passed * self.per_minute / MINUTE_MS).min(self.per_minute);
        self.at_ms = self.at_ms.max(now_ms);
    }

    /// How long until so much can be drawn. More than a minute's worth needs a full bucket.
    fn wait_ms(&self, amount: f64) -> u64 {
        let lacking = amount.min(self.per_minute) - self.level;
        if lacking <= 0.0 { 0 } else { (lacking * MINUTE_MS / self.per_minute).ceil() as u64 }
    }
}

/// The buckets of one provider.
pub(super) struct Quotas {
    since: Instant,
    buckets: Mutex<Buckets>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Buckets {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
}

impl Buckets {
    /// Draws a request of so many tokens, and says how long to wait before it is made. Nothing is drawn
    /// where that is longer than patience allows.
    fn draw(&mut self, tokens: u64, now_ms: u64) -> Result<u64, u64> {
        let amounts = [(&mut self.requests, 1.0), (&mut self.tokens, tokens as f64)];
        let mut drawn = Vec::with_capacity(amounts.len());
        for (bucket, amount) in amounts {
            if let Some(bucket) = bucket {
                bucket.fill(now_ms);
                drawn.push((bucket, amount));
            }
        }
        let wait = drawn.iter().map(|(bucket, amount)| bucket.wait_ms(*amount)).max().unwrap_or(0);
        if wait > PATIENCE_MS {
            return Err(wait);
        }
        for (bucket, amount) in drawn {
            bucket.level -= amount;
        }
        Ok(wait)
    }
}

impl Quotas {
    pub(super) fn new(quota: Quota) -> Self {
        let bucket = |per_minute: Option<u32>| per_minute.map(|per_minute| Bucket::full(per_minute, 0));
        let buckets =
            Buckets { requests: bucket(quota.requests_per_minute), tokens: bucket(quota.tokens_per_minute) };
        Self { since: Instant::now(), buckets: Mutex::new(buckets) }
    }

    /// Waits for the turn of a call, or says how long that would have been.
    pub(super) fn take(&self, tokens: u64) -> Result<(), u64> {
        let now_ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let wait = self.lock().draw(tokens, now_ms)?;
        if wait > 0 {
            thread::sleep(Duration::from_millis(wait));
        }
        Ok(())
    }

    /// Makes good what a call took more or less than was thought.
    pub(super) fn settle(&self, thought: u64, took: u64) {
        if let Some(tokens) = &mut self.lock().tokens {
            tokens.level = (tokens.level + thought as f64 - took as f64).min(tokens.per_minute);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Buckets> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(requests: Option<u32>, tokens: Option<u32>) -> Buckets {
        let bucket = |per_minute: Option<u32>| per_minute.map(|per_minute| Bucket::full(per_minute, 0));
        Buckets { requests: bucket(requests), tokens: bucket(tokens) }
    }

    #[test]
    fn a_minutes_worth_goes_at_once_and_the_rest_waits() {
        let mut buckets = buckets(Some(60), None);
        for _ in 0..60 {
            assert_eq!(buckets.draw(0, 0), Ok(0));
        }
        assert_eq!(buckets.draw(0, 0), Ok(1000));
        assert_eq!(buckets.draw(0, 0), Ok(2000));
        assert_eq!(buckets.draw(0, 60_000), Ok(0), "what was waited for has been drawn");
    }

    #[test]
    fn who_would_wait_too_long_is_refused_and_draws_nothing() {
        let mut buckets = buckets(None, Some(600));
        assert_eq!(buckets.draw(600, 0), Ok(0));
        assert_eq!(buckets.draw(200, 0), Err(20_000));
        assert_eq!(buckets.draw(50, 0), Ok(5000));
        assert_eq!(buckets.draw(50, 5000), Ok(5000));
    }

    #[test]
    fn what_is_larger_than_a_minute_needs_a_full_bucket() {
        let mut buckets = buckets(None, Some(100));
        assert_eq!(buckets.draw(1000, 0), Ok(0));
        assert_eq!(buckets.draw(1, 0), Err(540_600), "the debt is paid first");
        assert_eq!(buckets.draw(1, 600_000), Ok(0));
    }

    #[test]
    fn without_a_quota_nobody_waits() {
        assert_eq!(buckets(None, None).draw(u64::MAX, 0), Ok(0));
    }

    #[test]
    fn what_was_thought_wrong_is_made_good() {
        let quotas = Quotas::new(Quota { tokens_per_minute: Some(1000), ..Quota::default() });
        quotas.take(800).unwrap();
        quotas.settle(800, 100);
        quotas.take(800).unwrap();
        assert!(quotas.take(900).is_err());
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_is_no_harm() {
        let mut bucket = Bucket::full(60, 5000);
        bucket.level = 0.0;
        bucket.fill(1000);
        assert_eq!((bucket.level, bucket.at_ms), (0.0, 5000));
    }
}
