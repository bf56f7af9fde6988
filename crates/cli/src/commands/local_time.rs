//! Times as people write and read them: in the zone of this machine. JSON stays in UTC.

use jiff::Timestamp as Instant;
use jiff::civil;
use jiff::tz::TimeZone;
use treering_core::Timestamp;

/// A time with its zone, such as `2026-03-02 09:41 CET`.
pub(super) fn local(at: Timestamp) -> String {
    format(at, "%Y-%m-%d %H:%M %Z")
}

/// A time of a JSON view, like [`local`].
pub(super) fn local_of(at: &str) -> String {
    at.parse().map_or_else(|_| at.to_owned(), local)
}

/// The time of day, such as `09:41:07`.
pub(super) fn local_clock(at: Timestamp) -> String {
    format(at, "%H:%M:%S")
}

fn format(at: Timestamp, form: &str) -> String {
    let instant = Instant::from_microsecond(at.as_micros()).unwrap_or_default();
    instant.to_zoned(TimeZone::system()).strftime(form).to_string()
}

/// Parses a date of the command line. A date without a zone is in the zone of this machine.
pub(super) fn parse(text: &str) -> Result<Timestamp, String> {
    let civil = text.trim().parse::<civil::DateTime>().ok();
    let local = civil.filter(|_| text.trim().parse::<Instant>().is_err());
    match local.and_then(|time| time.to_zoned(TimeZone::system()).ok()) {
        Some(zoned) => Ok(Timestamp::from_micros(zoned.timestamp().as_microsecond())),
        None => text.parse::<Timestamp>().map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_parsed_and_printed_in_the_same_zone() {
        let at = parse("2026-03-02 08:41").unwrap();
        assert!(local(at).starts_with("2026-03-02 08:41 "), "{}", local(at));
        assert_eq!(local_clock(at), "08:41:00");
        assert_eq!(parse("2026-03-02T08:41:00Z").unwrap().to_string(), "2026-03-02T08:41:00Z");
        assert!(parse("soon").unwrap_err().contains("2026-03-02"));
    }
}
