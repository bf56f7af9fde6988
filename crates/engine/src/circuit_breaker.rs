//! Circuit breakers for models that do not answer. While a breaker is open, no query calls the
//! model and no context waits for its jobs. The state is per process; other processes see the
//! stalled jobs in the store.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use treering_core::ports::StoreResult;
use treering_core::{JobKind, ProviderError, Reader, RetryAdvice, Timestamp};

use crate::engine::Engine;

/// How long a breaker stays open after the first failure, in seconds. It doubles with each
/// further failure.
const BASE_OPEN_SECS: i64 = 15;
/// Maximum time that a breaker stays open, in seconds.
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
    why: String,
    /// Start times of the calls in flight.
    pending_calls: Vec<Timestamp>,
}

impl CircuitBreakers {
    /// The remaining time until a model may be called again, in seconds, and the last error.
    pub(crate) fn left(&self, model: &str, now: Timestamp) -> Option<(u64, String)> {
        let rests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = rests.get(model).filter(|rest| rest.failures > 0)?;
        let left = rest.until?.as_micros() - now.as_micros();
        let micros = u64::try_from(left).ok().filter(|left| *left > 0)?;
        Some((micros.div_ceil(1_000_000), rest.why.clone()))
    }

    /// Whether callers should not wait for a model: its last call failed, or a call is very slow.
    fn is_open(&self, model: &str, now: Timestamp) -> bool {
        let rests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_slow = |asked: &Timestamp| asked.plus_micros(SLOW_CALL_SECS * 1_000_000) <= now;
        rests
            .get(model)
            .is_some_and(|rest| rest.failures > 0 || rest.pending_calls.iter().any(is_slow))
    }

    /// Records a failed call.
    pub(crate) fn call_failed(&self, model: &str, now: Timestamp, why: &str) {
        self.with(model, |rest| {
            let seconds =
                BASE_OPEN_SECS.saturating_mul(1 << rest.failures.min(16)).min(MAX_OPEN_SECS);
            rest.until = Some(now.plus_micros(seconds * 1_000_000));
            rest.failures += 1;
            why.clone_into(&mut rest.why);
        });
    }

    fn call_succeeded(&self, model: &str) {
        self.with(model, |rest| rest.failures = 0);
    }

    fn call_started(&self, model: &str, now: Timestamp) {
        self.with(model, |rest| rest.pending_calls.push(now));
    }

    /// Removes the call that started at `asked`.
    fn call_finished(&self, model: &str, asked: Timestamp) {
        self.with(model, |rest| {
            if let Some(place) = rest.pending_calls.iter().position(|other| *other == asked) {
                rest.pending_calls.swap_remove(place);
            }
        });
    }

    fn with(&self, model: &str, change: impl FnOnce(&mut CircuitBreaker)) {
        let mut rests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(rests.entry(model.to_owned()).or_default());
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
        let (rests, asked) = (self.circuit_breakers(), self.clock().now());
        rests.call_started(model, asked);
        let answer = call();
        rests.call_finished(model, asked);
        match &answer {
            Err(error) if error.advice != RetryAdvice::UseFallback => {
                rests.call_failed(model, self.clock().now(), &error.reason);
            }
            _ => rests.call_succeeded(model),
        }
        answer
    }

    /// Whether callers should not wait for a job, because its model does not answer.
    pub(crate) fn is_circuit_open(&self, reader: &dyn Reader, kind: &JobKind) -> StoreResult<bool> {
        let now = self.clock().now();
        Ok(match kind {
            JobKind::Summarize(_) => self.circuit_breakers().is_open(self.summarizer().name(), now),
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
    fn a_model_that_fails_rests_longer_each_time_and_none_for_ever() {
        let rests = CircuitBreakers::default();
        let mut now = Timestamp::from_micros(0);
        assert_eq!(rests.left("m", now), None);
        for seconds in [15, 30, 60, 120, 240, 300, 300] {
            rests.call_failed("m", now, "down");
            assert_eq!(rests.left("m", now), Some((seconds, "down".to_owned())));
            assert_eq!(rests.left("other", now), None);
            now = now.plus_micros(i64::try_from(seconds).unwrap() * 1_000_000);
            assert_eq!(rests.left("m", now), None, "then it is asked again");
            assert!(
                rests.is_open("m", now) && !rests.is_open("other", now),
                "and nobody waits for it"
            );
        }
        rests.call_succeeded("m");
        assert!(!rests.is_open("m", now), "an answer makes good");
        rests.call_failed("m", now, "down");
        assert_eq!(rests.left("m", now), Some((15, "down".to_owned())));
    }

    #[test]
    fn nobody_waits_for_a_model_that_thinks_for_ever() {
        let rests = CircuitBreakers::default();
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        rests.call_started("m", at(0));
        rests.call_started("m", at(5));
        assert!(!rests.is_open("m", at(19)) && rests.is_open("m", at(20)));
        assert_eq!(rests.left("m", at(20)), None, "it has not failed");
        rests.call_finished("m", at(0));
        assert!(
            !rests.is_open("m", at(24)) && rests.is_open("m", at(25)),
            "the other call is still out"
        );
    }
}
