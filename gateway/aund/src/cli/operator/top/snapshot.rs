//! The metrics of one process at one moment, and how much they increased since an earlier one.

use super::samples::MetricSamples;
use std::time::Instant;

/// The metrics of one process at one moment.
pub struct ProcessSnapshot {
    pub process: String,
    /// Nothing if the process did not answer.
    pub samples: Option<MetricSamples>,
    pub at: Instant,
}

/// What one process counted, and over how long: per second if there was an earlier snapshot.
pub(super) struct Increase {
    pub samples: MetricSamples,
    pub seconds: f64,
}

impl Increase {
    pub fn new(
        per_second: bool,
        before: Option<&ProcessSnapshot>,
        now: &ProcessSnapshot,
        samples: &MetricSamples,
    ) -> Increase {
        match before.and_then(|snapshot| Some((snapshot, snapshot.samples.as_ref()?))) {
            Some((snapshot, earlier)) => Increase {
                samples: samples.since(earlier),
                seconds: now.at.duration_since(snapshot.at).as_secs_f64().max(0.001),
            },
            // A process that answers for the first time tells nothing yet about the time between.
            None if per_second => Increase { samples: samples.since(samples), seconds: 1.0 },
            None => Increase { samples: samples.clone(), seconds: 1.0 },
        }
    }

    pub fn calls(&self, wanted: impl Fn(&str) -> bool) -> f64 {
        let rows = self.samples.of("aund_requests_total").filter(|(labels, _)| wanted(labels.get("code")));
        // Folded, because the sum of no floats is -0.
        rows.fold(0.0, |sum, (_, count)| sum + count) / self.seconds
    }
}
