//! The time in a zone.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The present as `2026-11-19T11:30:00+01:00[Europe/Berlin]`.
#[expect(clippy::disallowed_methods, reason = "the clock of the example tells the time of its machine")]
pub(super) fn now_in(zone: &str) -> Result<String, String> {
    time_in(Timestamp::try_from(std::time::SystemTime::now()).unwrap_or_default(), zone)
}

/// A time in a zone. The zones are those that are compiled in: the same on every machine.
fn time_in(time: Timestamp, zone: &str) -> Result<String, String> {
    let zone = TimeZone::get(zone).map_err(|_| format!("{zone:?} is no time zone"))?;
    let seconds = Timestamp::from_second(time.as_second()).unwrap_or_default();
    Ok(seconds.to_zoned(zone).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_the_zone_with_its_summers() {
        let at = |text: &str, zone| time_in(text.parse().unwrap(), zone);
        assert_eq!(
            at("2026-11-19T10:30:00.5Z", "Europe/Berlin").unwrap(),
            "2026-11-19T11:30:00+01:00[Europe/Berlin]"
        );
        assert_eq!(
            at("2026-07-19T10:30:00Z", "Europe/Berlin").unwrap(),
            "2026-07-19T12:30:00+02:00[Europe/Berlin]"
        );
        assert_eq!(
            at("2026-07-19T10:30:00Z", "Asia/Shanghai").unwrap(),
            "2026-07-19T18:30:00+08:00[Asia/Shanghai]"
        );
        assert_eq!(at("2026-07-19T10:30:00Z", "UTC").unwrap(), "2026-07-19T10:30:00+00:00[UTC]");
        assert_eq!(
            at("2026-07-19T10:30:00Z", "Mars/Olympus").unwrap_err(),
            "\"Mars/Olympus\" is no time zone"
        );
    }
}
