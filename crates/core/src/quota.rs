//! Quotas: the rate limiter for provider calls. Pure arithmetic: past requests come from the
//! store, where every process sees them, and the caller passes the time.

use crate::error::{ProviderError, RetryAdvice};
use crate::time::Timestamp;

const MINUTE: i64 = 60_000_000;
/// The longest wait for a slot. A call that would wait longer is refused.
const MAX_WAIT_MICROS: i64 = 10_000_000;

/// The limits per minute; `None` means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Requests.
    pub requests_per_minute: Option<u32>,
    /// Input and output tokens.
    pub tokens_per_minute: Option<u32>,
}

/// Usage of a quota at one time: a past call, or the future slot of a waiting call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaUsage {
    /// The time of the slot.
    pub at: Timestamp,
    /// Calls.
    pub calls: i64,
    /// Input and output tokens.
    pub tokens: i64,
}

/// The start of the period whose usage counts against the quota.
#[must_use]
pub fn period_start(now: Timestamp) -> Timestamp {
    now.plus_micros(-MINUTE)
}

/// The slot of a call with this many tokens: now, or shortly after the calls that already wait.
/// Returns an error with the time to retry if the slot would be too far away. No minute exceeds
/// the quota; a call larger than the quota gets a minute of its own.
pub fn next_slot(
    quota: Quota,
    usage: &[QuotaUsage],
    tokens: i64,
    now: Timestamp,
) -> Result<Timestamp, ProviderError> {
    let latest = now.plus_micros(MAX_WAIT_MICROS);
    // An entry beyond the latest possible slot is from before the clock was set back: ignore it.
    let known = || usage.iter().filter(|usage| usage.at <= latest);
    let first = known().map(|usage| usage.at).fold(now, Timestamp::max);
    let free_times = known().map(|usage| usage.at.plus_micros(MINUTE)).filter(|time| *time > first);
    let mut candidates: Vec<Timestamp> = std::iter::once(first).chain(free_times).collect();
    candidates.sort_unstable();
    let has_room = |time: &Timestamp| {
        let minute = known().filter(|usage| usage.at > period_start(*time));
        let (calls, used) = minute
            .fold((0, 0), |(calls, used), it| (calls + it.calls, it.tokens.saturating_add(used)));
        let fits = |limit: Option<u32>, used: i64, more: i64| {
            limit
                .map(|limit| i64::from(limit.max(1)))
                .is_none_or(|limit| more.min(limit).saturating_add(used) <= limit)
        };
        fits(quota.requests_per_minute, calls, 1) && fits(quota.tokens_per_minute, used, tokens)
    };
    // One minute after the last call, the quota is unused.
    let slot = candidates.into_iter().find(has_room).unwrap_or_else(|| first.plus_micros(MINUTE));
    if slot <= latest {
        return Ok(slot);
    }
    let wait_ms = wait_ms(slot, now);
    let reason = format!(
        "the quota for this minute is used up; the next call can start in {} s",
        wait_ms.div_ceil(1000)
    );
    Err(ProviderError::new(reason, RetryAdvice::Throttled(wait_ms)))
}

/// The time until a slot, in milliseconds.
#[must_use]
pub fn wait_ms(slot: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(slot.as_micros() - now.as_micros()).unwrap_or(0).div_ceil(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(1_800_000_000_000_000 + seconds * 1_000_000)
    }

    fn requests(limit: u32) -> Quota {
        Quota { requests_per_minute: Some(limit), tokens_per_minute: None }
    }

    fn tokens(limit: u32) -> Quota {
        Quota { requests_per_minute: None, tokens_per_minute: Some(limit) }
    }

    /// Runs calls in sequence, each at a second and with a number of tokens, and checks the
    /// second of each slot or the seconds to wait.
    fn check(quota: Quota, calls: &[(i64, i64)], turns: &[Result<i64, u64>]) {
        let mut usage = Vec::new();
        let mut found = Vec::new();
        for (second, tokens) in calls {
            let slot = next_slot(quota, &usage, *tokens, at(*second));
            usage.extend(slot.iter().map(|slot| QuotaUsage {
                at: *slot,
                calls: 1,
                tokens: *tokens,
            }));
            found.push(match slot {
                Ok(slot) => Ok((slot.as_micros() - at(0).as_micros()) / 1_000_000),
                Err(ProviderError { advice: RetryAdvice::Throttled(ms), .. }) => Err(ms / 1000),
                Err(other) => panic!("{other}"),
            });
        }
        assert_eq!(found, turns);
    }

    #[test]
    fn a_minutes_worth_goes_at_once_and_the_rest_waits_for_the_minute_to_pass() {
        check(
            requests(2),
            &[(0, 9), (0, 9), (0, 9), (50, 9), (50, 9), (50, 9), (61, 9), (120, 9)],
            &[Ok(0), Ok(0), Err(60), Ok(60), Ok(60), Err(70), Err(59), Ok(120)],
        );
    }

    #[test]
    fn calls_are_served_in_order() {
        // The third call waits for the first minute to pass. A small call that would fit
        // earlier still queues behind it.
        check(tokens(100), &[(0, 60), (1, 30), (55, 50), (56, 5)], &[Ok(0), Ok(1), Ok(60), Ok(60)]);
    }

    #[test]
    fn a_call_above_the_quota_gets_a_minute_of_its_own() {
        check(
            tokens(100),
            &[(0, 1000), (30, 1), (60, 1), (61, 1000), (119, 1000), (121, 1)],
            &[Ok(0), Err(30), Ok(60), Err(59), Ok(120), Err(59)],
        );
    }

    #[test]
    fn without_a_quota_nobody_waits() {
        check(Quota::default(), &[(0, i64::MAX / 4), (0, 1)], &[Ok(0), Ok(0)]);
    }

    #[test]
    fn a_clock_that_was_put_back_keeps_nobody_waiting() {
        check(requests(1), &[(5000, 1), (0, 1), (1, 1)], &[Ok(5000), Ok(0), Err(59)]);
    }
}
