//! The lease of a run, as every call names it.

use proto_schemas::requests::runner::Heartbeat;
use std::time::Duration;

/// Who this runner is, and which of its owners of the run.
#[derive(Clone, Debug)]
pub(crate) struct RunnerLease {
    pub run_id: String,
    pub runner_id: String,
    pub epoch: i64,
    pub length: Duration,
}

impl RunnerLease {
    pub fn length_ms(length: Duration) -> i64 {
        i64::try_from(length.as_millis()).unwrap_or(i64::MAX)
    }

    pub fn heartbeat(&self) -> Heartbeat {
        Heartbeat {
            run_id: self.run_id.clone(),
            runner_id: self.runner_id.clone(),
            epoch: self.epoch,
            lease_ms: Some(RunnerLease::length_ms(self.length)),
            release: None,
        }
    }
}
