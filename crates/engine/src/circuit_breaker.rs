//! Circuit breakers for models that do not answer. A breaker opens when a call fails or hangs, and
//! closes when a call succeeds. While it is open, no context waits for the model's jobs; during the
//! cool-down after a failure, no query calls the model. The state is per process; other processes
//! see the stalled jobs in the store.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use treering_core::ports::StoreResult;
use treering_core::{JobKind, ProviderError, Reader, RetryAdvice, Timestamp};

use crate::engine::Engine;

/// The cool-down after the first failure, in seconds. It doubles with each further failure.
const BASE_OPEN_SECS: i64 = 15;
/// Maximum cool-down, in seconds.
const MAX_OPEN_SECS: i64 = 300;
/// How long a call may take before callers stop waiting for the model, in seconds.
const SLOW_CALL_SECS: i64 = 20;

/// The circuit breakers, by model.
#[derive(Default)]
pub(crate) struct CircuitBreakers(Mutex<HashMap<String, CircuitBreaker>>);

#[derive(Default)]
struct CircuitBreaker {
    /// Number of failures since the last success.
    failures: u32,
    until: Option<Timestamp>,
    reason: String,
    /// Start times of the calls in flight.
    pending_calls: Vec<Timestamp>,
}

impl CircuitBreakers {
    /// The remaining cool-down of a model, in seconds, and the last error.
    pub(crate) fn left(&self, model: &str, now: Timestamp) -> Option<(u64, String)> {
        let breakers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let breaker = breakers.get(model).filter(|breaker| breaker.failures > 0)?;
        let left = breaker.until?.as_micros() - now.as_micros();
        let micros = u64::try_from(left).ok().filter(|left| *left > 0)?;
        Some((micros.div_ceil(1_000_000), breaker.reason.clone()))
    }

    /// Whether a model's breaker is open: its last call failed, or a call in flight is slow.
    fn is_open(&self, model: &str, now: Timestamp) -> bool {
        let breakers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_slow =
            |started_at: &Timestamp| started_at.plus_micros(SLOW_CALL_SECS * 1_000_000) <= now;
        breakers.get(model).is_some_and(|breaker| {
            breaker.failures > 0 || breaker.pending_calls.iter().any(is_slow)
        })
    }

    /// Records a failed call.
    pub(crate) fn call_failed(&self, model: &str, now: Timestamp, reason: &str) {
        self.with(model, |breaker| {
            let seconds =
                BASE_OPEN_SECS.saturating_mul(1 << breaker.failures.min(16)).min(MAX_OPEN_SECS);
            breaker.until = Some(now.plus_micros(seconds * 1_000_000));
            breaker.failures += 1;
            reason.clone_into(&mut breaker.reason);
        });
    }

    fn call_succeeded(&self, model: &str) {
        self.with(model, |breaker| breaker.failures = 0);
    }

    fn call_started(&self, model: &str, now: Timestamp) {
        self.with(model, |breaker| breaker.pending_calls.push(now));
    }

    /// Removes the call that started at `started_at`.
    fn call_finished(&self, model: &str, started_at: Timestamp) {
        self.with(model, |breaker| {
            if let Some(index) = breaker.pending_calls.iter().position(|other| *other == started_at)
            {
                breaker.pending_calls.swap_remove(index);
            }
        });
    }

    fn with(&self, model: &str, change: impl FnOnce(&mut CircuitBreaker)) {
        let mut breakers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(breakers.entry(model.to_owned()).or_default());
    }
}

impl Engine {
    /// Calls a model and records the outcome. Unusable output and calls that a cap forbids do not
    /// count as failures.
    pub(crate) fn with_circuit_breaker<T>(
        &self,
        model: &str,
        call: impl FnOnce() -> Result<T, ProviderError>,
    ) -> Result<T, ProviderError> {
        let (breakers, started_at) = (self.circuit_breakers(), self.clock().now());
        breakers.call_started(model, started_at);
        let answer = call();
        breakers.call_finished(model, started_at);
        match &answer {
            Err(error) if error.advice != RetryAdvice::UseFallback => {
                breakers.call_failed(model, self.clock().now(), &error.reason);
            }
            _ => breakers.call_succeeded(model),
        }
        answer
    }

    /// Whether the breaker of the model that runs this kind of job is open.
    pub(crate) fn is_circuit_open(&self, reader: &dyn Reader, kind: &JobKind) -> StoreResult<bool> {
        let now = self.clock().now();
        Ok(match kind {
            JobKind::Summarize(_) => self.circuit_breakers().is_open(self.summarizer().name(), now),
            JobKind::PlanProject => false,
            JobKind::EmbedTurn(_) | JobKind::EmbedNode(..) => {
                self.circuit_breakers().is_open(&self.active_vector_index(reader)?.model, now)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_model_stays_open_longer_each_time_up_to_a_limit() {
        let breakers = CircuitBreakers::default();
        let mut now = Timestamp::from_micros(0);
        assert_eq!(breakers.left("m", now), None);
        for seconds in [15, 30, 60, 120, 240, 300, 300] {
            breakers.call_failed("m", now, "down");
            assert_eq!(breakers.left("m", now), Some((seconds, "down".to_owned())));
            assert_eq!(breakers.left("other", now), None);
            now = now.plus_micros(i64::try_from(seconds).unwrap() * 1_000_000);
            assert_eq!(breakers.left("m", now), None, "the cool-down is over");
            assert!(
                breakers.is_open("m", now) && !breakers.is_open("other", now),
                "the breaker stays open"
            );
        }
        breakers.call_succeeded("m");
        assert!(!breakers.is_open("m", now), "a success closes the breaker");
        breakers.call_failed("m", now, "down");
        assert_eq!(breakers.left("m", now), Some((15, "down".to_owned())));
    }

    #[test]
    fn nobody_waits_for_a_model_that_thinks_for_ever() {
        let breakers = CircuitBreakers::default();
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        breakers.call_started("m", at(0));
        breakers.call_started("m", at(5));
        assert!(!breakers.is_open("m", at(19)) && breakers.is_open("m", at(20)));
        assert_eq!(breakers.left("m", at(20)), None, "it has not failed");
        breakers.call_finished("m", at(0));
        assert!(
            !breakers.is_open("m", at(24)) && breakers.is_open("m", at(25)),
            "the second call is still in flight"
        );
    }
}
