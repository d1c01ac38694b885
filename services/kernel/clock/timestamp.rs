//! Times as text: RFC 3339 in UTC, as the protocol writes them.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A time in whole seconds with a `Z`, such as `2026-11-14T22:13:20Z`; empty for one outside of the calendar. What is finer than a second
/// is cut off, so nothing is ordered or compared by these texts: a version or a seq says which of two came first.
pub fn iso(unix_ms: i64) -> String {
    let time = OffsetDateTime::from_unix_timestamp(unix_ms.div_euclid(1000)).ok();
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}

/// A time in milliseconds with a `Z`, such as `2026-11-14T22:13:20.045Z`; empty for one outside of the calendar.
pub fn iso_ms(unix_ms: i64) -> String {
    let seconds = iso(unix_ms);
    match seconds.strip_suffix('Z') {
        Some(seconds) => format!("{seconds}.{:03}Z", unix_ms.rem_euclid(1000)),
        None => seconds,
    }
}

/// In unix milliseconds, of a time with any offset and any fraction. What is finer than a millisecond is cut off.
pub fn from_iso(text: &str) -> Option<i64> {
    let nanos = OffsetDateTime::parse(text, &Rfc3339).ok()?.unix_timestamp_nanos();
    i64::try_from(nanos / 1_000_000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_whole_seconds_of_utc() {
        for (unix_ms, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (1_794_701_761_000, "2026-11-15T00:16:01Z"),
            (1_794_701_761_020, "2026-11-15T00:16:01Z"),
            (1_794_701_761_999, "2026-11-15T00:16:01Z"),
            (-1, "1969-12-31T23:59:59Z"),
        ] {
            assert_eq!(iso(unix_ms), text, "{unix_ms}");
            assert_eq!(from_iso(text), Some(unix_ms.div_euclid(1000) * 1000), "{text}");
        }
        assert_eq!(iso(i64::MAX), "", "no calendar has it");
    }

    #[test]
    fn a_time_in_milliseconds_has_three_digits_of_them() {
        for (unix_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_794_701_761_020, "2026-11-15T00:16:01.020Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(iso_ms(unix_ms), text, "{unix_ms}");
            assert_eq!(from_iso(text), Some(unix_ms), "{text}");
        }
        assert_eq!(iso_ms(i64::MAX), "", "no calendar has it");
    }

    #[test]
    fn fractions_and_offsets_are_read() {
        for text in
            ["2026-11-15T00:16:01.02Z", "2026-11-15T01:16:01.0209+01:00", "2026-11-14T19:16:01.020-05:00"]
        {
            assert_eq!(from_iso(text), Some(1_794_701_761_020), "{text}");
        }
        for wrong in ["", "2026-11-15", "2026-11-15T00:16:01", "1794701761"] {
            assert_eq!(from_iso(wrong), None, "{wrong}");
        }
    }
}
