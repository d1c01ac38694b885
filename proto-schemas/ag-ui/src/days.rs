//! Days, as people in a time zone have them, and times with an offset.
//!
//! Zones come from the database inside the binary, so what is a day depends on no machine.

use jiff::Timestamp;
use jiff::civil::{Date, date};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};

/// Times before the 2nd of January of the year 0 count as that one, so that every day has a year of four digits.
const EARLIEST_MS: i64 = -62_167_132_800_000;

/// Times after the 30th of December 9999 count as that one.
const LATEST_MS: i64 = 253_402_128_000_000;

/// Whether this is the name of a zone in the IANA time zone database, in its own capitals. Offsets (`+08:00`) and POSIX
/// strings are not.
pub fn is_zone(name: &str) -> bool {
    find_zone(name).is_some()
}

/// The day of a Unix time in milliseconds, as `YYYY-MM-DD`. An unknown zone is UTC.
///
/// The day is always that whose [`day_bounds`] contain the time. The two would differ where a clock was set back over
/// midnight: one minute after it began, the 29th of October 2006 was the 28th again for an hour in St John's. A day begins
/// once, and that hour belongs to the day that had begun.
pub fn day_of(ms: i64, zone: &str) -> String {
    let zone = zone_or_utc(zone);
    let ms = ms.clamp(EARLIEST_MS, LATEST_MS);
    let mut day = zone.to_datetime(timestamp(ms)).date();
    while let Ok(next) = day.tomorrow()
        && first_moment(next, &zone) <= ms
    {
        day = next;
    }
    day.to_string()
}

/// The first millisecond of a day, and the first one after it; nothing where there is no such day in the calendar. An unknown
/// zone is UTC. A day that a zone skipped has no millisecond: both are the same.
pub fn day_bounds(day: &str, zone: &str) -> Option<(i64, i64)> {
    let zone = zone_or_utc(zone);
    let day = parse_day(day)?;
    let end = day.tomorrow().map_or(i64::MAX, |next| first_moment(next, &zone));
    Some((first_moment(day, &zone), end))
}

/// Whether this is a day of the calendar, exactly as `YYYY-MM-DD`.
pub fn is_day(text: &str) -> bool {
    parse_day(text).is_some()
}

/// The Unix time in milliseconds of a time of RFC 3339, which always has an offset. Smaller parts of a second are cut off, and
/// a leap second is the last one before it.
pub fn rfc3339_ms(text: &str) -> Option<i64> {
    let (day, rest) = text.split_at_checked(10)?;
    let rest = rest.strip_prefix(['T', 't'])?;
    let (clock, rest) = rest.split_at_checked(8)?;
    let [hour, minute, second] = numbers(clock, ':')?;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (thousandths, offset) = fraction(rest)?;
    let days = parse_day(day)?.duration_since(date(1970, 1, 1)).as_hours() / 24;
    let minutes = days * 1_440 + hour * 60 + minute - offset_minutes(offset)?;
    Some((minutes * 60 + second.min(59)) * 1_000 + thousandths)
}

fn find_zone(name: &str) -> Option<TimeZone> {
    let zone = TimeZoneDatabase::bundled().get(name).ok()?;
    // The database ignores case, and has a name for the absence of a zone.
    (zone.iana_name() == Some(name) && !zone.is_unknown()).then_some(zone)
}

fn zone_or_utc(name: &str) -> TimeZone {
    find_zone(name).unwrap_or(TimeZone::UTC)
}

fn timestamp(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// When a day begins: at midnight, at the earlier one of two, or where midnight is skipped, when the clock is set forward.
fn first_moment(day: Date, zone: &TimeZone) -> i64 {
    let midnight = day.at(0, 0, 0, 0);
    let moment = match zone.to_ambiguous_timestamp(midnight).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(midnight),
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(midnight),
        // Midnight by the new offset has passed by the old one: the change is the next one after it.
        AmbiguousOffset::Gap { after, .. } => after.to_timestamp(midnight).map(|before_change| {
            zone.following(before_change).next().map_or(before_change, |change| change.timestamp())
        }),
    };
    let outside = if day.year() < 1970 { i64::MIN } else { i64::MAX };
    moment.map_or(outside, |moment| moment.as_millisecond())
}

fn parse_day(text: &str) -> Option<Date> {
    let (year, rest) = text.split_at_checked(4)?;
    let [month, day] = numbers(rest.strip_prefix('-')?, '-')?;
    Date::new(i16::try_from(digits(year)?).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

/// Numbers of two digits each, with this between them.
fn numbers<const COUNT: usize>(text: &str, between: char) -> Option<[i64; COUNT]> {
    let mut found = [0; COUNT];
    let mut parts = text.split(between);
    for number in &mut found {
        *number = digits(parts.next().filter(|part| part.len() == 2)?)?;
    }
    parts.next().is_none().then_some(found)
}

fn digits(text: &str) -> Option<i64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The milliseconds of a part of a second, and what comes after it.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let Some(text) = text.strip_prefix('.') else { return Some((0, text)) };
    let end = text.find(|next: char| !next.is_ascii_digit()).unwrap_or(text.len());
    let (fraction, rest) = text.split_at(end);
    let thousandths = format!("{:0<3.3}", fraction);
    (!fraction.is_empty()).then_some((digits(&thousandths)?, rest))
}

fn offset_minutes(offset: &str) -> Option<i64> {
    if offset.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = match offset.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let [hours, minutes] = numbers(offset.get(1..)?, ':')?;
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 60 + minutes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn zones_have_the_names_of_the_database() {
        for zone in
            ["UTC", "America/Los_Angeles", "Asia/Shanghai", "Asia/Calcutta", "US/Pacific", "Etc/GMT+5"]
        {
            assert!(is_zone(zone), "{zone}");
        }
        for zone in [
            "",
            "utc",
            "asia/shanghai",
            "Asia/Beijing",
            "+08:00",
            "UTC+8",
            "PST8PDT,M3.2.0,M11.1.0",
            "Etc/Unknown",
        ] {
            assert!(!is_zone(zone), "{zone}");
        }
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for day in ["2026-03-16", "2024-02-29", "0000-01-01", "9999-12-31"] {
            assert!(is_day(day), "{day}");
        }
        for day in [
            "",
            "2026-3-16",
            "2026-02-29",
            "2026-13-01",
            "2026-00-10",
            "2026-01-00",
            "+026-01-01",
            "-001-01-01",
            "20260316",
            "2026-03-16 ",
            " 2026-03-16",
            "2026-03-16T00:00:00Z",
            "12026-03-16",
            "２０２６-03-16",
            "2026-0３-1",
        ] {
            assert!(!is_day(day) && day_bounds(day, "UTC").is_none(), "{day}");
        }
    }

    /// The hours of a day, and when it begins.
    fn hours(day: &str, zone: &str) -> (f64, String) {
        let (start, end) = day_bounds(day, zone).unwrap();
        ((end - start) as f64 / HOUR as f64, timestamp(start).to_string())
    }

    #[test]
    fn days_are_as_long_as_clocks_make_them() {
        let cases = [
            ("2026-03-16", "UTC", 24.0, "2026-03-16T00:00:00Z"),
            ("2026-03-16", "No/Where", 24.0, "2026-03-16T00:00:00Z"),
            ("2026-03-16", "Asia/Shanghai", 24.0, "2026-03-15T16:00:00Z"),
            ("2026-03-08", "America/Los_Angeles", 23.0, "2026-03-08T08:00:00Z"),
            ("2026-11-01", "America/Los_Angeles", 25.0, "2026-11-01T07:00:00Z"),
            // The clock is set to 01:00 at midnight.
            ("2018-11-04", "America/Sao_Paulo", 23.0, "2018-11-04T03:00:00Z"),
            // It is set back to 23:00 at midnight, which is the end of the day before.
            ("2018-02-17", "America/Sao_Paulo", 25.0, "2018-02-17T02:00:00Z"),
            ("2018-02-18", "America/Sao_Paulo", 24.0, "2018-02-18T03:00:00Z"),
            // It is set back to midnight an hour after midnight.
            ("2024-11-03", "America/Havana", 25.0, "2024-11-03T04:00:00Z"),
            // It was set from 23:30 to 00:30: the day began at half past.
            ("1919-03-31", "America/Toronto", 23.5, "1919-03-31T04:30:00Z"),
            // It was set back to 23:01 a minute after midnight: the day had begun.
            ("2006-10-28", "America/St_Johns", 24.0, "2006-10-28T02:30:00Z"),
            ("2006-10-29", "America/St_Johns", 25.0, "2006-10-29T02:30:00Z"),
            ("2011-12-29", "Pacific/Apia", 24.0, "2011-12-29T10:00:00Z"),
            ("2011-12-30", "Pacific/Apia", 0.0, "2011-12-30T10:00:00Z"),
            ("2011-12-31", "Pacific/Apia", 24.0, "2011-12-30T10:00:00Z"),
        ];
        for (day, zone, length, start) in cases {
            assert_eq!(hours(day, zone), (length, start.to_owned()), "{day} in {zone}");
        }
        assert_eq!(day_of(rfc3339_ms("2006-10-29T02:45:00Z").unwrap(), "America/St_Johns"), "2006-10-29");
        assert_eq!(day_of(rfc3339_ms("2011-12-30T10:00:00Z").unwrap(), "Pacific/Apia"), "2011-12-31");
        assert_eq!(day_of(rfc3339_ms("2011-12-30T09:59:59.999Z").unwrap(), "Pacific/Apia"), "2011-12-29");
        assert_eq!(day_of(i64::MIN, "Asia/Tokyo"), "0000-01-02");
        assert_eq!(day_of(i64::MAX, "Pacific/Kiritimati"), "9999-12-30");
        assert!(day_bounds("9999-12-31", "UTC").is_some() && day_bounds("0000-01-01", "UTC").is_some());
    }

    #[test]
    fn times_have_an_offset() {
        let cases = [
            ("2026-03-16T09:12:33-07:00", 1_773_677_553_000),
            ("2026-03-16t16:12:33z", 1_773_677_553_000),
            ("2026-03-16T16:12:33.5Z", 1_773_677_553_500),
            ("2026-03-16T16:12:33.123456789+00:00", 1_773_677_553_123),
            ("2026-03-17T00:12:33.0009+08:00", 1_773_677_553_000),
            ("1969-12-31T23:59:59.999-00:00", -1),
            ("2016-12-31T23:59:60Z", 1_483_228_799_000),
            ("9999-12-31T23:59:59Z", 253_402_300_799_000),
        ];
        for (text, ms) in cases {
            assert_eq!(rfc3339_ms(text), Some(ms), "{text}");
        }
        for text in [
            "",
            "2026-03-16",
            "2026-03-16T09:12:33",
            "2026-03-16 09:12:33Z",
            "2026-03-16T09:12Z",
            "2026-03-16T24:00:00Z",
            "2026-03-16T09:60:00Z",
            "2026-03-16T09:12:61Z",
            "2026-02-29T09:12:33Z",
            "2026-03-16T09:12:33.Z",
            "2026-03-16T09:12:33+8:00",
            "2026-03-16T09:12:33+0800",
            "2026-03-16T09:12:33+24:00",
            "2026-03-16T09:12:33+08",
            "2026-03-16T09:12:33Z ",
            "2026-03-16T09:12:33Z[UTC]",
            "2026-03-16T9:12:33Z",
            "2026-03-16T09:12:33,5Z",
            "２026-03-16T09:12:33Z",
            "2026-03-16T09:12:33é",
            "2026-03-16T09:12:33+０8:00",
        ] {
            assert_eq!(rfc3339_ms(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_time_lies_in_its_day_and_days_follow_each_other(
            ms in -2_500_000_000_000_i64..4_000_000_000_000,
            zone in prop::sample::select(vec![
                "UTC", "America/St_Johns", "America/Sao_Paulo", "America/Havana", "America/Toronto", "Pacific/Apia",
                "Pacific/Kwajalein", "Asia/Manila", "Africa/Casablanca", "Australia/Lord_Howe", "Asia/Gaza", "Europe/Dublin",
            ]),
        ) {
            let day = day_of(ms, zone);
            let (start, end) = day_bounds(&day, zone).unwrap();
            prop_assert!(start <= ms && ms < end, "{ms} in {zone}: {day} is {start}..{end}");
            prop_assert_eq!(day_of(start, zone), day.clone());
            prop_assert_eq!(day_of(end - 1, zone), day.clone());
            prop_assert!(day_of(end, zone) > day);
        }

        #[test]
        fn no_text_is_too_odd(text in "\\PC{0,40}", ms in any::<i64>()) {
            rfc3339_ms(&text);
            day_bounds(&text, &text);
            prop_assert!(is_day(&day_of(ms, &text)));
        }
    }
}
