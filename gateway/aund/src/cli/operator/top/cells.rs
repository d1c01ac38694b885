//! Words, figures, sizes and times as they stand in a table.

use super::samples::Quantiles;
use ratatui::style::{Color, Style};

/// A word or a number, and how it looks.
pub struct StyledText {
    pub text: String,
    pub style: Style,
}

impl From<String> for StyledText {
    fn from(text: String) -> StyledText {
        StyledText { text, style: Style::new() }
    }
}

pub fn state(up: bool) -> StyledText {
    if up { "up".to_owned().into() } else { StyledText { text: "DOWN".to_owned(), style: bad().bold() } }
}

pub fn trouble(count: f64) -> StyledText {
    let style = if count > 0.0 { Style::new().fg(Color::Yellow) } else { Style::new() };
    StyledText { text: number(count), style }
}

pub fn bad() -> Style {
    Style::new().fg(Color::Red)
}

pub fn number(value: f64) -> String {
    if value < 10.0 && value.fract() != 0.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// Never more than eight characters, which is what a narrow column holds.
pub fn bytes(value: f64) -> String {
    let (mut size, mut unit) = (value, "B");
    for larger in ["KiB", "MiB", "GiB"] {
        if size < 1024.0 {
            break;
        }
        (size, unit) = (size / 1024.0, larger);
    }
    if unit == "B" || size >= 99.95 { format!("{size:.0} {unit}") } else { format!("{size:.1} {unit}") }
}

pub fn times(times: Quantiles) -> (String, String) {
    times.map_or_else(|| ("-".to_owned(), "-".to_owned()), |(p50, p99)| (time(p50), time(p99)))
}

pub fn time(seconds: f64) -> String {
    match seconds {
        0.0..0.001 => format!("{:.0} µs", seconds * 1e6),
        0.001..1.0 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_never_wider_than_its_column() {
        for (value, shown) in [
            (0.0, "0 B"),
            (1023.0, "1023 B"),
            (1024.0, "1.0 KiB"),
            (102_348.0, "99.9 KiB"),
            (102_399.0, "100 KiB"),
            (1_048_000.0, "1023 KiB"),
            (67_108_864.0, "64.0 MiB"),
            (3_221_225_472.0, "3.0 GiB"),
        ] {
            assert_eq!(bytes(value), shown);
        }
    }
}
