//! Rounds: the same load for one server, then for the other, again and again.

use std::time::Duration;

use hdrhistogram::Histogram;

/// How long each request took, in nanoseconds.
pub(super) struct Latencies(Histogram<u64>);

/// What one server did in one round.
pub(super) struct Sample {
    pub(super) per_second: f64,
    pub(super) per_cpu_second: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) resident_kib: f64,
}

/// One figure, measured once on each side in each round; `raw` is empty where there is nothing to compare.
#[derive(Default)]
pub(super) struct SampleSeries {
    pub(super) ours: Vec<f64>,
    pub(super) raw: Vec<f64>,
}

/// A server and the load it is given, a round at a time.
pub(super) trait RoundLoad {
    async fn round(&mut self, span: Duration) -> anyhow::Result<Sample>;
}

/// Runs `rounds` pairs. The order within a pair changes each time, so that a machine that changes its speed
/// favours neither side.
pub(super) async fn alternate<T>(
    rounds: usize,
    mut ours: impl AsyncFnMut() -> anyhow::Result<T>,
    mut raw: impl AsyncFnMut() -> anyhow::Result<T>,
) -> anyhow::Result<Vec<(T, T)>> {
    let mut pairs = Vec::with_capacity(rounds);
    for round in 0..rounds {
        pairs.push(if round % 2 == 0 {
            let raw = raw().await?;
            (ours().await?, raw)
        } else {
            (ours().await?, raw().await?)
        });
    }
    Ok(pairs)
}

impl Latencies {
    pub(super) fn new() -> anyhow::Result<Self> {
        const MICROSECOND: u64 = 1_000;
        const TWO_MINUTES: u64 = 120_000_000_000;
        // Two digits are enough for a percentile, and keep the table of each connection inside the cache.
        Ok(Self(Histogram::new_with_bounds(MICROSECOND, TWO_MINUTES, 2)?))
    }

    pub(super) fn record(&mut self, took: Duration) {
        self.0.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        Ok(self.0.add(&other.0)?)
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    pub(super) fn quantile_ms(&self, quantile: f64) -> f64 {
        self.quantile_us(quantile) / 1_000.0
    }

    fn quantile_us(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1_000.0
    }
}

impl Sample {
    pub(super) fn new(latencies: &Latencies, seconds: f64, cpu_seconds: f64, resident_kib: f64) -> Self {
        let count = latencies.0.len() as f64;
        Self {
            per_second: count / seconds,
            per_cpu_second: count / cpu_seconds,
            p50_us: latencies.quantile_us(0.50),
            p99_us: latencies.quantile_us(0.99),
            resident_kib,
        }
    }
}

impl SampleSeries {
    pub(super) fn of(pairs: &[(Sample, Sample)], figure: impl Fn(&Sample) -> f64) -> Self {
        Self {
            ours: pairs.iter().map(|(ours, _)| figure(ours)).collect(),
            raw: pairs.iter().map(|(_, raw)| figure(raw)).collect(),
        }
    }

    /// Two sides whose rounds were run in turn.
    pub(super) fn pair(ours: &[Sample], raw: &[Sample], figure: impl Fn(&Sample) -> f64) -> Self {
        Self { ours: ours.iter().map(&figure).collect(), raw: raw.iter().map(&figure).collect() }
    }

    /// A figure that nothing is compared with.
    pub(super) fn alone(samples: &[Sample], figure: impl Fn(&Sample) -> f64) -> Self {
        Self { ours: samples.iter().map(figure).collect(), raw: Vec::new() }
    }

    /// Ours against raw, round by round.
    pub(super) fn ratios(&self) -> Vec<f64> {
        self.ours.iter().zip(&self.raw).map(|(ours, raw)| ours / raw).collect()
    }
}

pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_or_between_the_two_middles() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
