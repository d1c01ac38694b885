//! The table `[task]` of `aund.toml`.

use super::model::tree::TaskLimits;
use kernel::ServiceSettings;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// How many open tasks an agent may have given, and how many it may have been given. Beyond that it is given tasks by senders of
    /// whom it has fewer than four, up to twice as many.
    pub open_tasks: u32,
    /// How many open tasks an agent may have of one sender.
    pub open_tasks_per_sender: u32,
    /// How many open tasks an agent may have of all senders of one other domain.
    pub open_tasks_per_domain: u32,
    /// After how many seconds a task is canceled that nobody has accepted, unless its owner says otherwise.
    pub accept_timeout_seconds: u32,
    /// After how many seconds a task fails whose owner was asked and has not answered.
    pub input_timeout_seconds: u32,
    /// After how many seconds a task fails that somebody works on, if nothing happens to it.
    pub idle_timeout_seconds: u32,
    /// For how many days a task is stored after its end.
    pub retention_days: u32,
}

const DAY_SECONDS: u32 = 86_400;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            open_tasks: 1000,
            open_tasks_per_sender: 250,
            open_tasks_per_domain: 500,
            accept_timeout_seconds: 7 * DAY_SECONDS,
            input_timeout_seconds: 7 * DAY_SECONDS,
            idle_timeout_seconds: 30 * DAY_SECONDS,
            retention_days: 90,
        }
    }
}

impl Settings {
    pub(super) fn limits(&self) -> TaskLimits {
        let ms = |seconds: u32| i64::from(seconds) * 1000;
        TaskLimits {
            open_tasks: i64::from(self.open_tasks),
            open_per_sender: i64::from(self.open_tasks_per_sender),
            open_per_domain: i64::from(self.open_tasks_per_domain),
            accept_ms: ms(self.accept_timeout_seconds),
            input_ms: ms(self.input_timeout_seconds),
            idle_ms: ms(self.idle_timeout_seconds),
        }
    }

    pub(super) fn retention_ms(&self) -> i64 {
        i64::from(self.retention_days) * i64::from(DAY_SECONDS) * 1000
    }
}

impl ServiceSettings for Settings {}
