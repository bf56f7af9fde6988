//! Parses the delay that a provider requests before a retry.

use std::time::SystemTime;

/// The delay in milliseconds. The value is that of `Retry-After` with ` s` appended (`30 s`, or a
/// date and ` s`), that of `retry-after-ms` (`1500`), or a duration in Google's errors (`34.5s`).
pub(super) fn millis(value: &str, now: SystemTime) -> Option<u64> {
    let value = value.trim();
    let (number, unit) = match value.strip_suffix('s') {
        Some(seconds) => (seconds.trim(), 1000.0),
        None => (value, 1.0),
    };
    if let Ok(number) = number.parse::<f64>() {
        return (number.is_finite() && number >= 0.0).then_some((number * unit).ceil() as u64);
    }
    let then = jiff::fmt::rfc2822::parse(number).ok()?.timestamp().as_millisecond();
    let now = now.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_millis();
    Some(u64::try_from(i128::from(then) - i128::try_from(now).ok()?).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn seconds_millis_and_dates_are_read() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let check = |value: &str, millis: Option<u64>| {
            assert_eq!(super::millis(value, now), millis, "{value}");
        };
        check("30 s", Some(30_000));
        check("0.25 s", Some(250));
        check("1500", Some(1500));
        check("34.074824224s", Some(34_075));
        check("Tue, 14 Nov 2023 22:14:20 GMT s", Some(60_000));
        check("Tue, 14 Nov 2023 22:00:00 GMT s", Some(0));
        check("soon s", None);
        check("-3 s", None);
        check("NaN", None);
    }
}
