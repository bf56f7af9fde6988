//! Times as people write them: in the zone of this machine.

use jiff::Timestamp as Instant;
use jiff::civil;
use jiff::tz::TimeZone;
use treering_core::Timestamp;

use treering_server::local_time::format_local;
pub(super) use treering_server::local_time::{local, local_of};

/// The time of day, such as `09:41:07`.
pub(super) fn local_clock(at: Timestamp) -> String {
    format_local(at, "%H:%M:%S")
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
