//! Quotas: how much may be asked of a provider in a minute, and when the next call has its turn. Plain arithmetic: what
//! was taken is in the store, where every process sees it, and the time is what one is told.

use crate::error::{ProviderError, RetryAdvice};
use crate::time::Timestamp;

const MINUTE: i64 = 60_000_000;
/// The longest that a call waits for its turn, in microseconds; one that would have to wait longer is refused.
const PATIENCE: i64 = 10_000_000;

/// How much may be asked in a minute; as much as one likes where nothing is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Requests.
    pub requests_per_minute: Option<u32>,
    /// Tokens, read and written.
    pub tokens_per_minute: Option<u32>,
}

/// What was taken of a quota at a moment, or is to be taken then by calls that wait for their turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaUsage {
    /// When.
    pub at: Timestamp,
    /// Calls.
    pub calls: i64,
    /// Tokens, read and written.
    pub tokens: i64,
}

/// The moment from which on what was taken still matters.
#[must_use]
pub fn matters_since(now: Timestamp) -> Timestamp {
    now.plus_micros(-MINUTE)
}

/// When a call of so many tokens has its turn: at once, or a little later, behind those that wait already. Where it
/// would be much later it has none, and the error says when to ask again. In no minute is more taken than the quota
/// allows; a call that is larger than that has a minute for itself.
pub fn next_slot(
    quota: Quota,
    taken: &[QuotaUsage],
    tokens: i64,
    now: Timestamp,
) -> Result<Timestamp, ProviderError> {
    let latest = now.plus_micros(PATIENCE);
    // Nobody waits that long: the clock was put back since, and what it said then is no reason to wait.
    let known = || taken.iter().filter(|taken| taken.at <= latest);
    let first = known().map(|taken| taken.at).fold(now, Timestamp::max);
    let frees = known().map(|taken| taken.at.plus_micros(MINUTE)).filter(|free| *free > first);
    let mut moments: Vec<Timestamp> = std::iter::once(first).chain(frees).collect();
    moments.sort_unstable();
    let has_room = |moment: &Timestamp| {
        let minute = known().filter(|taken| taken.at > matters_since(*moment));
        let (calls, used) = minute
            .fold((0, 0), |(calls, used), it| (calls + it.calls, it.tokens.saturating_add(used)));
        let fits = |limit: Option<u32>, used: i64, more: i64| {
            limit
                .map(|limit| i64::from(limit.max(1)))
                .is_none_or(|limit| more.min(limit).saturating_add(used) <= limit)
        };
        fits(quota.requests_per_minute, calls, 1) && fits(quota.tokens_per_minute, used, tokens)
    };
    // A minute after the last call there is room for any.
    let turn = moments.into_iter().find(has_room).unwrap_or_else(|| first.plus_micros(MINUTE));
    if turn <= latest {
        return Ok(turn);
    }
    let wait_ms = wait_ms(turn, now);
    let reason =
        format!("the quota of this minute is used up; free in {} s", wait_ms.div_ceil(1000));
    Err(ProviderError::new(reason, RetryAdvice::Throttled(wait_ms)))
}

/// How long it is until a turn, in milliseconds.
#[must_use]
pub fn wait_ms(turn: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(turn.as_micros() - now.as_micros()).unwrap_or(0).div_ceil(1000)
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

    /// Calls that come one after another, each at its second and of so many tokens: the second of its turn, or how
    /// many seconds it is told to wait.
    fn check(quota: Quota, calls: &[(i64, i64)], turns: &[Result<i64, u64>]) {
        let mut taken = Vec::new();
        let mut found = Vec::new();
        for (second, tokens) in calls {
            let turn = next_slot(quota, &taken, *tokens, at(*second));
            taken.extend(turn.iter().map(|turn| QuotaUsage {
                at: *turn,
                calls: 1,
                tokens: *tokens,
            }));
            found.push(match turn {
                Ok(turn) => Ok((turn.as_micros() - at(0).as_micros()) / 1_000_000),
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
    fn who_came_first_goes_first() {
        // The third waits for the first minute to pass; a small call that would fit before it comes after it.
        check(tokens(100), &[(0, 60), (1, 30), (55, 50), (56, 5)], &[Ok(0), Ok(1), Ok(60), Ok(60)]);
    }

    #[test]
    fn what_is_larger_than_a_minute_has_one_for_itself() {
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
