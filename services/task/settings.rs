//! The table `[task]` of `aund.toml`.

use super::model::tree::TaskLimits;
use kernel::ServiceSettings;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The maximum number of open tasks that an agent owns, and of open tasks assigned to it. A full assignee still accepts tasks
    /// of senders with fewer than four, up to twice the limit.
    pub open_tasks: u32,
    /// The maximum number of open tasks that one sender assigns to an agent.
    pub open_tasks_per_sender: u32,
    /// The maximum number of open tasks that all senders of one other domain assign to an agent.
    pub open_tasks_per_domain: u32,
    /// Bytes of texts and artifacts that are stored per agent, in open and ended tasks.
    pub kept_bytes: u64,
    /// How many days after the end of a task its texts and artifacts are stored in any case. Older ones are removed when the share of
    /// their author is full.
    pub keep_content_days: u32,
    /// A task that is not accepted within this many seconds is canceled, unless its owner sets another time.
    pub accept_timeout_seconds: u32,
    /// A task whose owner does not answer a question within this many seconds fails.
    pub input_timeout_seconds: u32,
    /// A task that is `working` without any change for this many seconds fails.
    pub idle_timeout_seconds: u32,
    /// How many days a task is stored after it ends.
    pub retention_days: u32,
}

const DAY_SECONDS: u32 = 86_400;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            open_tasks: 1000,
            open_tasks_per_sender: 250,
            open_tasks_per_domain: 500,
            kept_bytes: 256 << 20,
            keep_content_days: 7,
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
        days_ms(self.retention_days)
    }

    pub(super) fn keep_content_ms(&self) -> i64 {
        days_ms(self.keep_content_days)
    }
}

fn days_ms(days: u32) -> i64 {
    i64::from(days) * i64::from(DAY_SECONDS) * 1000
}

impl ServiceSettings for Settings {}
