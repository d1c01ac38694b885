//! The metrics of one process as it prints them, and how much they increased between two snapshots.

use std::collections::BTreeMap;

/// Every sample under its own text, labels and all: `aund_closes_total{code="1012"}`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricSamples(BTreeMap<String, f64>);

impl MetricSamples {
    pub fn parse(text: &str) -> MetricSamples {
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let samples = samples.filter_map(|line| line.rsplit_once(' '));
        MetricSamples(
            samples.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect(),
        )
    }

    /// How much was counted since. A process that was restarted counts from zero again.
    pub fn since(&self, before: &MetricSamples) -> MetricSamples {
        let increase = self.0.iter().map(|(name, now)| {
            let then = before.0.get(name).copied().unwrap_or_default();
            (name.clone(), if *now < then { *now } else { now - then })
        });
        MetricSamples(increase.collect())
    }

    /// All samples of one metric together.
    pub fn sum(&self, name: &str) -> f64 {
        self.of(name).fold(0.0, |sum, (_, value)| sum + value)
    }

    pub fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (Labels<'a>, f64)> {
        let from = self.0.range(name.to_owned()..).take_while(move |(key, _)| key.starts_with(name));
        from.filter_map(move |(key, value)| {
            let rest = &key[name.len()..];
            let labels = if rest.is_empty() { "" } else { rest.strip_prefix('{')?.strip_suffix('}')? };
            Some((Labels(labels), *value))
        })
    }
}

/// Our own labels hold no quotation marks.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a>(&'a str);

impl<'a> Labels<'a> {
    pub fn get(&self, name: &str) -> &'a str {
        let pairs = self.0.split("\",").filter_map(|pair| pair.split_once("=\""));
        let mut values = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value.trim_end_matches('"'));
        values.next().unwrap_or_default()
    }
}

/// How long the median and all but one in a hundred took, in seconds.
pub type Quantiles = Option<(f64, f64)>;

/// A histogram: how many took at most so many seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram(Vec<(f64, f64)>);

impl Histogram {
    pub fn add(&mut self, at_most: &str, count: f64) {
        let Ok(at_most) = at_most.trim_start_matches('+').parse::<f64>() else { return };
        self.put(at_most, count);
    }

    pub fn join(&mut self, other: &Histogram) {
        for (at_most, count) in &other.0 {
            self.put(*at_most, *count);
        }
    }

    fn put(&mut self, at_most: f64, count: f64) {
        match self.0.iter_mut().find(|(bound, _)| *bound == at_most) {
            Some((_, counted)) => *counted += count,
            None => self.0.push((at_most, count)),
        }
    }

    /// The median and what all but one in a hundred took; nothing if nothing was counted.
    pub fn times(&self) -> Quantiles {
        Some((self.quantile(0.5)?, self.quantile(0.99)?))
    }

    /// The time within which this share was done, in seconds: somewhere inside its bucket, as if spread evenly there.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let mut buckets = self.0.clone();
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let all = buckets.last().filter(|(_, all)| *all > 0.0)?.1;
        let (mut below, mut counted) = (0.0, 0.0);
        for (bound, so_far) in buckets {
            if so_far >= all * share && so_far > counted {
                let inside = (all * share - counted) / (so_far - counted);
                return Some(if bound.is_finite() { below + (bound - below) * inside } else { below });
            }
            (below, counted) = (bound, so_far);
        }
        Some(below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# HELP aund_requests Calls answered.
# TYPE aund_requests counter
aund_requests_total{method="message.send",code="0"} 40
aund_requests_total{method="message.send",code="5003"} 2
aund_sockets 7
aund_sockets_total 1
# EOF
"#;

    #[test]
    fn samples_are_found_by_name_and_labels() {
        let samples = MetricSamples::parse(TEXT);
        assert_eq!(samples.sum("aund_requests_total"), 42.0);
        assert_eq!(samples.sum("aund_sockets"), 7.0, "a longer name is another metric");
        let codes: Vec<_> =
            samples.of("aund_requests_total").map(|(labels, n)| (labels.get("code"), n)).collect();
        assert_eq!(codes, [("0", 40.0), ("5003", 2.0)]);
        assert_eq!(samples.of("aund_requests_total").next().map(|(labels, _)| labels.get("x")), Some(""));
    }

    #[test]
    fn an_increase_is_right_also_after_a_restart() {
        let (before, now) = (MetricSamples::parse("a 10\nb 10"), MetricSamples::parse("a 15\nb 3\nc 1"));
        assert_eq!(now.since(&before), MetricSamples::parse("a 5\nb 3\nc 1"));
    }

    #[test]
    fn a_quantile_lies_inside_its_bucket() {
        let mut histogram = Histogram::default();
        for (bound, count) in [("+Inf", 100.0), ("0.001", 50.0), ("0.01", 98.0), ("0.1", 100.0)] {
            histogram.add(bound, count);
        }
        assert_eq!(histogram.quantile(0.5), Some(0.001));
        assert!(histogram.quantile(0.99).is_some_and(|p99| p99 > 0.01 && p99 < 0.1));
        assert_eq!(Histogram::default().quantile(0.5), None);
        let mut beyond = Histogram::default();
        for (bound, count) in [("1.0", 0.0), ("+Inf", 4.0)] {
            beyond.add(bound, count);
        }
        assert_eq!(beyond.quantile(0.5), Some(1.0), "beyond the last bound is at least that");
    }
}
