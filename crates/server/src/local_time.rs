//! Times as people read them: in the zone of this machine. JSON stays in UTC.

use jiff::Timestamp as Instant;
use jiff::tz::TimeZone;
use treering_core::Timestamp;

/// A time with its zone, such as `2026-03-02 09:41 CET`.
#[must_use]
pub fn local(at: Timestamp) -> String {
    format_local(at, "%Y-%m-%d %H:%M %Z")
}

/// A time of a JSON view, like [`local`].
#[must_use]
pub fn local_of(at: &str) -> String {
    at.parse().map_or_else(|_| at.to_owned(), local)
}

/// A time in a format of `strftime`.
#[must_use]
pub fn format_local(at: Timestamp, form: &str) -> String {
    let instant = Instant::from_microsecond(at.as_micros()).unwrap_or_default();
    instant.to_zoned(TimeZone::system()).strftime(form).to_string()
}
