//! What a comparison of two builds found: medians, the ratio with its range over the rounds, and what fell behind.

use std::io::Write as _;

use serde_json::{Value, json};

use super::super::Plan;
use super::super::report::{Facts, Ratio, facts, facts_json, shown};
use super::super::rounds::median;

/// Rounds of one build differ by more than this from run to run, so a median above it is no loss that could be shown.
const REACHED: f64 = 0.95;

pub(in super::super) struct Comparison {
    facts: Facts,
    measures: Vec<ComparedMeasure>,
}

/// One load, and the figures of it.
struct ComparedMeasure {
    title: String,
    figures: Vec<ComparedFigure>,
}

/// One figure, measured once of each build in each round.
pub(super) struct ComparedFigure {
    pub(super) unit: &'static str,
    pub(super) better: Better,
    pub(super) this: Vec<f64>,
    pub(super) before: Vec<f64>,
}

/// Which way a figure gets better.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Better {
    More,
    Less,
}

impl Comparison {
    pub(super) fn new(plan: &Plan) -> Self {
        Self { facts: facts(plan), measures: Vec::new() }
    }

    pub(super) fn add(&mut self, title: String, figures: Vec<ComparedFigure>) {
        self.measures.push(ComparedMeasure { title, figures });
    }

    pub(in super::super) fn print(&self, json: bool) -> anyhow::Result<()> {
        if json { self.print_json() } else { self.print_table() }
    }

    fn print_json(&self) -> anyhow::Result<()> {
        let measures: Vec<Value> = self.measures.iter().map(ComparedMeasure::json).collect();
        let report = json!({
            "machine": facts_json(&self.facts),
            "measurements": measures,
            "not_reached": self.not_reached(),
        });
        Ok(writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&report)?)?)
    }

    fn print_table(&self) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        for (name, fact) in &self.facts {
            writeln!(out, "{name:<10} {fact}")?;
        }
        for measure in &self.measures {
            writeln!(out, "\n{}", measure.title)?;
            writeln!(out, "  {:<23}{:>11}{:>11}  this/before (range)", "", "before", "this")?;
            for figure in &measure.figures {
                writeln!(out, "{}", figure.text())?;
            }
        }
        let not_reached = self.not_reached();
        if not_reached.is_empty() {
            writeln!(out, "\nevery measure reached {REACHED}")?;
        } else {
            writeln!(out, "\ndid not reach {REACHED}: {}", not_reached.join("; "))?;
        }
        Ok(())
    }

    fn not_reached(&self) -> Vec<String> {
        let figures = self.measures.iter().flat_map(|measure| {
            let title = &measure.title;
            measure.figures.iter().filter_map(move |figure| {
                let ratio = figure.ratio().filter(|ratio| ratio.median < REACHED)?;
                Some(format!("{title}, {} {:.2}", figure.unit, ratio.median))
            })
        });
        figures.collect()
    }
}

impl ComparedMeasure {
    fn json(&self) -> Value {
        json!({ "title": self.title, "figures": self.figures.iter().map(ComparedFigure::json).collect::<Vec<_>>() })
    }
}

impl ComparedFigure {
    /// More is better: of times and sizes it is the older build's over this one's.
    fn ratio(&self) -> Option<Ratio> {
        let ratios = self.this.iter().zip(&self.before).map(|(this, before)| match self.better {
            Better::More => this / before,
            Better::Less => before / this,
        });
        Ratio::of(&ratios.collect::<Vec<_>>())
    }

    fn text(&self) -> String {
        let number = |values: &[f64]| median(values).map_or_else(String::new, shown);
        let (before, this) = (number(&self.before), number(&self.this));
        let ratio = self.ratio().map_or_else(String::new, Ratio::text);
        format!("  {:<23}{before:>11}{this:>11}  {ratio}", self.unit)
    }

    fn json(&self) -> Value {
        json!({
            "unit": self.unit,
            "before": { "median": median(&self.before), "rounds": self.before },
            "this": { "median": median(&self.this), "rounds": self.this },
            "ratio": self.ratio().map(Ratio::json),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(unit: &'static str, better: Better, this: [f64; 3], before: [f64; 3]) -> ComparedFigure {
        ComparedFigure { unit, better, this: this.to_vec(), before: before.to_vec() }
    }

    #[test]
    fn less_time_is_a_higher_ratio() {
        let rate = figure("per second", Better::More, [110.0, 120.0, 90.0], [100.0; 3]);
        assert_eq!(rate.ratio().unwrap().text(), "1.10 (0.90..1.20)");
        let time = figure("p99, µs", Better::Less, [50.0, 100.0, 200.0], [100.0; 3]);
        assert_eq!(time.ratio().unwrap().text(), "1.00 (0.50..2.00)");
    }

    #[test]
    fn a_measure_is_named_that_fell_behind() {
        let mut comparison = Comparison { facts: Vec::new(), measures: Vec::new() };
        let reached = figure("per second", Better::More, [95.0, 96.0, 80.0], [100.0; 3]);
        let missed = figure("p50, µs", Better::Less, [110.0; 3], [100.0; 3]);
        comparison.add("meta.ping".to_owned(), vec![reached, missed]);
        assert_eq!(comparison.not_reached(), ["meta.ping, p50, µs 0.91"]);
    }
}
