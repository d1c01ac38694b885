//! Times as text: RFC 3339 in UTC, as the protocol writes them.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A time with a `Z`, such as `2026-11-14T22:13:20.5Z`; empty for one outside of the calendar.
pub fn iso(unix_ms: i64) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(unix_ms) * 1_000_000).ok();
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}

/// In unix milliseconds. What is finer than that is cut off.
pub fn from_iso(text: &str) -> Option<i64> {
    let nanos = OffsetDateTime::parse(text, &Rfc3339).ok()?.unix_timestamp_nanos();
    i64::try_from(nanos / 1_000_000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_utc_and_read_back() {
        for (unix_ms, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (1_794_701_761_000, "2026-11-15T00:16:01Z"),
            (1_794_701_761_020, "2026-11-15T00:16:01.02Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!((iso(unix_ms).as_str(), from_iso(text)), (text, Some(unix_ms)));
        }
        assert_eq!(from_iso("2026-11-15T01:16:01.0209+01:00"), Some(1_794_701_761_020), "any offset");
        for wrong in ["", "2026-11-15", "2026-11-15T00:16:01", "1794701761"] {
            assert_eq!(from_iso(wrong), None, "{wrong}");
        }
        assert_eq!(iso(i64::MAX), "", "no calendar has it");
    }
}
