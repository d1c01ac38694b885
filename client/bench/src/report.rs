//! The report: medians, the ratio of ours to raw with its range over the rounds, and the goals beside them.

use std::io::Write as _;

use serde_json::{Value, json};

use super::Plan;
use super::rounds::{SampleSeries, median};

pub(super) type Facts = Vec<(&'static str, String)>;

pub(super) struct Report {
    facts: Facts,
    rows: Vec<Measurement>,
}

/// One measurement.
pub(super) struct Measurement {
    pub(super) title: String,
    pub(super) lines: Vec<ReportedFigure>,
}

/// One figure of a measurement.
pub(super) struct ReportedFigure {
    unit: &'static str,
    series: SampleSeries,
    goal: Option<Goal>,
}

/// The ratio of two sides, over their rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratio {
    pub(super) median: f64,
    low: f64,
    high: f64,
}

/// What the build must reach now, and what it shall reach later.
#[derive(Clone, Copy)]
pub(super) enum Goal {
    RatioAtLeast { now: Option<f64>, later: f64 },
    RatioAtMost { now: Option<f64>, later: f64 },
    AtMost(f64),
}

impl Report {
    pub(super) fn new(plan: &Plan) -> Self {
        Self { facts: facts(plan), rows: Vec::new() }
    }

    pub(super) fn add(&mut self, row: Measurement) {
        self.rows.push(row);
    }

    /// Something about this run that a reader of the figures should know.
    pub(super) fn note(&mut self, name: &'static str, fact: String) {
        self.facts.push((name, fact));
    }

    pub(super) fn print(&self, json: bool) -> anyhow::Result<()> {
        if json { self.print_json() } else { self.print_table() }
    }

    fn print_json(&self) -> anyhow::Result<()> {
        let rows: Vec<Value> = self.rows.iter().map(Measurement::json).collect();
        let report = json!({ "machine": facts_json(&self.facts), "measurements": rows });
        Ok(writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&report)?)?)
    }

    fn print_table(&self) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        for (name, fact) in &self.facts {
            writeln!(out, "{name:<10} {fact}")?;
        }
        for row in &self.rows {
            writeln!(out, "\n{}", row.title)?;
            writeln!(out, "  {:<23}{:>11}{:>11}  {:<22}goal", "", "ours", "raw", "ours/raw (range)")?;
            for line in &row.lines {
                writeln!(out, "{}", line.text().trim_end())?;
            }
        }
        Ok(())
    }
}

impl Measurement {
    fn json(&self) -> Value {
        json!({ "title": self.title, "figures": self.lines.iter().map(ReportedFigure::json).collect::<Vec<_>>() })
    }
}

impl ReportedFigure {
    pub(super) fn new(unit: &'static str, series: SampleSeries) -> Self {
        Self { unit, series, goal: None }
    }

    pub(super) fn goal(self, goal: Option<Goal>) -> Self {
        Self { goal, ..self }
    }

    fn text(&self) -> String {
        let number = |values: &[f64]| median(values).map_or_else(String::new, shown);
        let (ours, raw) = (number(&self.series.ours), number(&self.series.raw));
        let ratio = self.ratio().map_or_else(|| range(&self.series.ours), Ratio::text);
        let goal = self.goal.map_or_else(String::new, Goal::text);
        format!("  {:<23}{ours:>11}{raw:>11}  {ratio:<22}{goal}", self.unit)
    }

    fn json(&self) -> Value {
        json!({
            "unit": self.unit,
            "ours": { "median": median(&self.series.ours), "rounds": self.series.ours },
            "raw": { "median": median(&self.series.raw), "rounds": self.series.raw },
            "ratio": self.ratio().map(Ratio::json),
            "goal": self.goal.map(Goal::json),
        })
    }

    fn ratio(&self) -> Option<Ratio> {
        Ratio::of(&self.series.ratios())
    }
}

impl Ratio {
    pub(super) fn of(ratios: &[f64]) -> Option<Self> {
        let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Self { median: median(ratios)?, low, high })
    }

    pub(super) fn text(self) -> String {
        format!("{:.2} ({:.2}..{:.2})", self.median, self.low, self.high)
    }

    pub(super) fn json(self) -> Value {
        json!({ "median": self.median, "min": self.low, "max": self.high })
    }
}

impl Goal {
    fn text(self) -> String {
        match self {
            Goal::RatioAtLeast { now: Some(now), later } => format!("≥ {now:.2} (later {later:.2})"),
            Goal::RatioAtLeast { now: None, later } => format!("(later ≥ {later:.2})"),
            Goal::RatioAtMost { now: Some(now), later } => format!("≤ {now:.2} (later {later:.2})"),
            Goal::RatioAtMost { now: None, later } => format!("(later ≤ {later:.2})"),
            Goal::AtMost(most) => format!("ours ≤ {most}"),
        }
    }

    fn json(self) -> Value {
        match self {
            Goal::RatioAtLeast { now, later } => json!({ "ratio_at_least": now, "later": later }),
            Goal::RatioAtMost { now, later } => json!({ "ratio_at_most": now, "later": later }),
            Goal::AtMost(most) => json!({ "ours_at_most": most }),
        }
    }
}

/// What the rounds of a figure gave that is compared with nothing; empty where there was one round.
fn range(values: &[f64]) -> String {
    if values.len() < 2 {
        return String::new();
    }
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("({}..{})", shown(low), shown(high))
}

/// What was run, and on which machine.
pub(super) fn facts(plan: &Plan) -> Facts {
    let cores = std::thread::available_parallelism();
    vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("command", command()),
        ("rounds", plan.rounds_text()),
        ("cores", cores.map_or_else(|_| "unknown".into(), |cores| cores.to_string())),
        ("processor", field("/proc/cpuinfo", "model name")),
        ("memory", field("/proc/meminfo", "MemTotal")),
        ("kernel", content("/proc/sys/kernel/osrelease")),
        ("load", content("/proc/loadavg") + ", before the first round"),
    ]
}

pub(super) fn facts_json(facts: &Facts) -> Value {
    facts
        .iter()
        .map(|(name, fact)| ((*name).to_owned(), json!(fact)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

pub(super) fn shown(value: f64) -> String {
    if value >= 1_000.0 { grouped(value.round() as u64) } else { format!("{value:.1}") }
}

/// 1234567 as `1,234,567`.
fn grouped(value: u64) -> String {
    match value {
        0..1_000 => value.to_string(),
        _ => format!("{},{:03}", grouped(value / 1_000), value % 1_000),
    }
}

/// The command line as typed, without the folder of the program.
fn command() -> String {
    let name = std::env::args().next().unwrap_or_default();
    let name = name.rsplit('/').next().unwrap_or_default().to_owned();
    std::iter::once(name).chain(std::env::args().skip(1)).collect::<Vec<_>>().join(" ")
}

fn content(file: &str) -> String {
    std::fs::read_to_string(file).unwrap_or_default().trim().to_owned()
}

/// The first `name: value` of a file under `/proc`.
fn field(file: &str, name: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map_or_else(|| "unknown".into(), |line| line.trim_start_matches([':', ' ', '\t']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(1_020_304), "1,020,304");
    }

    #[test]
    fn a_line_shows_the_median_ratio_and_its_range() {
        let series = SampleSeries { ours: vec![80.0, 90.0, 70.0], raw: vec![100.0, 100.0, 100.0] };
        let line = ReportedFigure::new("per second", series)
            .goal(Some(Goal::RatioAtLeast { now: Some(0.8), later: 0.9 }));
        let words = line.text().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words, "per second 80.0 100.0 0.80 (0.70..0.90) ≥ 0.80 (later 0.90)");
    }

    #[test]
    fn a_figure_that_is_compared_with_nothing_shows_its_own_range() {
        let words = |ours: Vec<f64>| {
            let line = ReportedFigure::new("p50, ms", SampleSeries { ours, raw: Vec::new() });
            line.text().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(vec![3.0, 1_200.0, 5.0]), "p50, ms 5.0 (3.0..1,200)");
        assert_eq!(words(vec![3.0]), "p50, ms 3.0");
    }
}
