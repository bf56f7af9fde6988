//! Timestamps in microseconds since 1970 UTC: precise enough for every source, and a single
//! integer.

use std::fmt;
use std::str::FromStr;

use jiff::civil;
use serde::{Deserialize, Serialize};

use crate::error::Invalid;

/// A point in time. The core never reads a clock; callers pass the time of a
/// [`Clock`](crate::ports::Clock).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest time that can be formatted as a date (year -9999).
    const MIN: i64 = -377_705_023_201_000_000;
    /// The latest time that can be formatted as a date (year 9999).
    const MAX: i64 = 253_402_207_199_999_999;

    /// Converts from microseconds since 1970 UTC; clamped to the supported years.
    #[must_use]
    pub fn from_micros(micros: i64) -> Self {
        Self(micros.clamp(Self::MIN, Self::MAX))
    }

    /// Converts from fractional seconds since 1970 UTC, the format of ChatGPT exports. `None`
    /// if the number is out of range.
    #[must_use]
    pub fn from_seconds(seconds: f64) -> Option<Self> {
        let micros = (seconds * 1e6).round();
        let dated = micros >= Self::MIN as f64 && micros <= Self::MAX as f64;
        dated.then(|| Self::from_micros(micros as i64))
    }

    /// Microseconds since 1970 UTC.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The time `micros` later.
    #[must_use]
    pub fn plus_micros(self, micros: i64) -> Self {
        Self::from_micros(self.0.saturating_add(micros))
    }

    /// The time, or `now` if it is more than a year ahead: such a time comes from a wrong clock,
    /// and its conversation would stay the latest one for ever.
    #[must_use]
    pub fn plausible(self, now: Self) -> Self {
        const YEAR_MICROS: i64 = 366 * 86_400_000_000;
        if self > now.plus_micros(YEAR_MICROS) { now } else { self }
    }

    /// Parses a date and time with `strftime` directives; without a zone it is UTC.
    #[must_use]
    pub fn parse_with(format: &str, text: &str) -> Option<Self> {
        let time = civil::DateTime::strptime(format, text).ok()?;
        Some(Self::from_civil(time))
    }

    /// The UTC day, e.g. `20251209`.
    #[must_use]
    pub fn day(self) -> String {
        self.jiff().strftime("%Y%m%d").to_string()
    }

    /// A human-readable form in UTC, e.g. `2026-03-02 08:41`.
    #[must_use]
    pub fn to_minute(self) -> String {
        self.jiff().strftime("%Y-%m-%d %H:%M").to_string()
    }

    /// The start of a day, in UTC.
    pub(crate) fn of_date(day: civil::Date) -> Option<Self> {
        let start = jiff::tz::Offset::UTC.to_timestamp(day.at(0, 0, 0, 0)).ok()?;
        Some(Self::from_micros(start.as_microsecond()))
    }

    /// The UTC day.
    pub(crate) fn civil_date(self) -> civil::Date {
        jiff::tz::Offset::UTC.to_datetime(self.jiff()).date()
    }

    fn from_civil(time: civil::DateTime) -> Self {
        let zoned = jiff::tz::Offset::UTC.to_timestamp(time);
        zoned.map_or(Self(0), |timestamp| Self::from_micros(timestamp.as_microsecond()))
    }

    fn jiff(self) -> jiff::Timestamp {
        jiff::Timestamp::from_microsecond(self.0).unwrap_or_default()
    }
}

impl fmt::Display for Timestamp {
    /// Formats as RFC 3339 in UTC, with as many digits as necessary.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.jiff().fmt(f)
    }
}

impl FromStr for Timestamp {
    type Err = Invalid;

    /// Parses RFC 3339. A date, or a date with a time and no zone, is UTC.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let text = text.trim();
        if let Ok(timestamp) = text.parse::<jiff::Timestamp>() {
            return Ok(Self::from_micros(timestamp.as_microsecond()));
        }
        if let Ok(time) = text.parse::<civil::DateTime>() {
            return Ok(Self::from_civil(time));
        }
        Err(Invalid::new(
            format!("date {text:?}"),
            "expected a date like 2026-03-02 or 2026-03-02T08:41:00Z",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(text.parse::<Timestamp>().unwrap().to_string(), expected);
    }

    #[test]
    fn reads_the_dates_that_people_and_programs_write() {
        check("2026-03-02", "2026-03-02T00:00:00Z");
        check("2026-03-02T08:41", "2026-03-02T08:41:00Z");
        check("2026-03-02 08:41:07", "2026-03-02T08:41:07Z");
        check("2026-03-02T08:41:00.123456Z", "2026-03-02T08:41:00.123456Z");
        check("2026-03-02T08:41:00+02:00", "2026-03-02T06:41:00Z");
        assert!(
            "yesterday-ish".parse::<Timestamp>().unwrap_err().to_string().contains("2026-03-02")
        );
    }

    #[test]
    fn the_limits_have_dates_and_come_back() {
        for micros in [i64::MIN, Timestamp::MIN, 0, Timestamp::MAX, i64::MAX] {
            let timestamp = Timestamp::from_micros(micros);
            assert_eq!(timestamp.to_string().parse::<Timestamp>().unwrap(), timestamp);
        }
        assert_eq!(Timestamp::from_seconds(f64::NAN), None);
        assert_eq!(
            Timestamp::from_seconds(1_700_000_000.25).unwrap().to_string(),
            "2023-11-14T22:13:20.25Z"
        );
    }

    #[test]
    fn reads_other_formats_by_pattern() {
        let timestamp = Timestamp::parse_with("%I:%M %p on %d %B, %Y", "1:56 pm on 8 May, 2023");
        assert_eq!(timestamp.unwrap().to_minute(), "2023-05-08 13:56");
        assert_eq!(timestamp.unwrap().day(), "20230508");
    }
}
