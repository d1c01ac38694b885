//! The table `[message]` of `aund.toml`.

use super::store::ephemeral::bounded::RowLimits;
use super::store::ephemeral::queue_messages::QueueLimits;
use super::store::quotas::limits::QuotaLimits;
use kernel::{AccountSettings, Kept, ServiceSettings, ShareLimits};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::time::Duration;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// How long a message is stored, in seconds; 1 to one year.
    pub retention_seconds: u64,
    /// How long after sending a message can be recalled, in seconds, up to one year; 0: never. For messages to another domain,
    /// that domain's setting applies.
    pub recall_seconds: u64,
    /// How long a queue message can be pulled, in seconds; 1 to one day.
    pub queue_seconds: u64,
    /// The maximum number of queue messages per agent, 1 to 10000. Above it, the sender with most of them loses its oldest.
    pub queue_messages: u64,
    /// The maximum size of an agent's queue messages in bytes, 2 MiB to 1 GiB.
    pub queue_bytes: u64,
    /// The maximum size of all agents' queue messages in bytes (on PostgreSQL over all processes); 2 MiB to 1 TiB, and at least
    /// `queue_bytes`. Above it, the sender that holds most loses its oldest; another domain counts as one sender.
    pub queue_total_bytes: u64,
    /// The maximum size of all messages with a ttl in bytes, and again as much for their answers; like `queue_total_bytes`.
    pub ttl_total_bytes: u64,
    /// The maximum size of all agents' thoughts in bytes; like `queue_total_bytes`.
    pub thought_total_bytes: u64,
    /// How long a message waits for an unreachable domain, in seconds, up to one year; 0: its sender gets an error immediately.
    pub peer_retention_seconds: u64,
    /// The maximum number of devices per agent, 16 to 256. A further device replaces the one that has been away longest.
    pub devices_per_agent: u64,
    /// A device that has been away for this many seconds is removed; one day to ten years.
    pub device_seconds: u64,
    /// The maximum size of one agent's sent messages in the store, in bytes; 2 MiB to 1 PiB.
    pub sender_bytes: u64,
    /// The maximum number of rows of one agent's sent messages in the store, one per recipient device; 1000 to a billion.
    pub sender_rows: u64,
    /// The maximum size of one agent's received messages in the store, in bytes; 2 MiB to 1 PiB.
    pub inbox_bytes: u64,
}

const DAY_SECONDS: u64 = 86_400;
const MIB: u64 = 1 << 20;
const MOST_BYTES: u64 = 1 << 50;
const MOST_TOTAL_BYTES: u64 = 1 << 40;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            retention_seconds: DAY_SECONDS,
            recall_seconds: 120,
            queue_seconds: 300,
            queue_messages: 200,
            queue_bytes: 16 * MIB,
            queue_total_bytes: 128 * MIB,
            ttl_total_bytes: 64 * MIB,
            thought_total_bytes: 128 * MIB,
            peer_retention_seconds: 0,
            devices_per_agent: 64,
            device_seconds: 90 * DAY_SECONDS,
            sender_bytes: 4096 * MIB,
            sender_rows: 10_000_000,
            inbox_bytes: 4096 * MIB,
        }
    }
}

impl ServiceSettings for Settings {
    /// Refuses numbers that this service cannot do with. The least bytes of a queue have space for the largest message.
    fn check(&self) -> anyhow::Result<()> {
        let ranges: [(&str, u64, RangeInclusive<u64>); 14] = [
            ("retention_seconds", self.retention_seconds, 1..=365 * DAY_SECONDS),
            ("recall_seconds", self.recall_seconds, 0..=365 * DAY_SECONDS),
            ("queue_seconds", self.queue_seconds, 1..=DAY_SECONDS),
            ("queue_messages", self.queue_messages, 1..=10_000),
            ("queue_bytes", self.queue_bytes, 2 * MIB..=1024 * MIB),
            ("queue_total_bytes", self.queue_total_bytes, 2 * MIB..=MOST_TOTAL_BYTES),
            ("ttl_total_bytes", self.ttl_total_bytes, 2 * MIB..=MOST_TOTAL_BYTES),
            ("thought_total_bytes", self.thought_total_bytes, 2 * MIB..=MOST_TOTAL_BYTES),
            ("peer_retention_seconds", self.peer_retention_seconds, 0..=365 * DAY_SECONDS),
            // More than can be connected at once: those are never removed.
            ("devices_per_agent", self.devices_per_agent, 16..=256),
            ("device_seconds", self.device_seconds, DAY_SECONDS..=3650 * DAY_SECONDS),
            ("sender_bytes", self.sender_bytes, 2 * MIB..=MOST_BYTES),
            ("sender_rows", self.sender_rows, 1000..=1_000_000_000),
            ("inbox_bytes", self.inbox_bytes, 2 * MIB..=MOST_BYTES),
        ];
        for (name, value, range) in ranges {
            if !range.contains(&value) {
                let (least, most) = (range.start(), range.end());
                anyhow::bail!("message.{name}: must be {least} to {most}, and is {value}");
            }
        }
        Ok(())
    }
}

impl Settings {
    pub(super) fn peer_retention(&self) -> Option<Duration> {
        (self.peer_retention_seconds > 0).then(|| Duration::from_secs(self.peer_retention_seconds))
    }

    pub(super) fn retention_ms(&self) -> i64 {
        ms(self.retention_seconds)
    }

    pub(super) fn recall_ms(&self) -> i64 {
        ms(self.recall_seconds)
    }

    pub(super) fn devices_per_agent(&self) -> usize {
        usize::try_from(self.devices_per_agent).unwrap_or(usize::MAX)
    }

    pub(super) fn device_ms(&self) -> i64 {
        ms(self.device_seconds)
    }

    pub(super) fn quota_limits(&self, accounts: AccountSettings) -> QuotaLimits {
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let sender = ShareLimits {
            share: Kept { bytes: signed(self.sender_bytes), rows: signed(self.sender_rows) },
            bytes_setting: "message.sender_bytes",
            rows_setting: "message.sender_rows",
            settings: accounts,
        };
        QuotaLimits { sender, inbox_bytes: signed(self.inbox_bytes) }
    }

    pub(super) fn queue_limits(&self) -> QueueLimits {
        let rows = RowLimits {
            rows: usize::try_from(self.queue_messages).unwrap_or(usize::MAX),
            bytes: bytes(self.queue_bytes),
            total_bytes: bytes(self.queue_total_bytes.max(self.queue_bytes)),
        };
        QueueLimits { window_ms: ms(self.queue_seconds), rows }
    }
}

pub(super) fn bytes(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn ms(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_their_range_are_refused_by_name() {
        Settings::default().check().unwrap();
        let wrong = [
            Settings { retention_seconds: 0, ..Settings::default() },
            Settings { recall_seconds: u64::MAX, ..Settings::default() },
            Settings { queue_seconds: DAY_SECONDS + 1, ..Settings::default() },
            Settings { queue_messages: 0, ..Settings::default() },
            Settings { queue_bytes: MIB, ..Settings::default() },
            Settings { queue_total_bytes: MIB, ..Settings::default() },
            Settings { ttl_total_bytes: 0, ..Settings::default() },
            Settings { thought_total_bytes: u64::MAX, ..Settings::default() },
            Settings { devices_per_agent: 15, ..Settings::default() },
            Settings { device_seconds: 1, ..Settings::default() },
            Settings { sender_bytes: 0, ..Settings::default() },
            Settings { inbox_bytes: u64::MAX, ..Settings::default() },
        ];
        let names = [
            "retention_seconds",
            "recall_seconds",
            "queue_seconds",
            "queue_messages",
            "queue_bytes",
            "queue_total_bytes",
            "ttl_total_bytes",
            "thought_total_bytes",
            "devices_per_agent",
            "device_seconds",
            "sender_bytes",
            "inbox_bytes",
        ];
        for (settings, name) in wrong.iter().zip(names) {
            let sentence = settings.check().unwrap_err().to_string();
            assert!(sentence.starts_with(&format!("message.{name}: must be ")), "{sentence}");
        }
    }
}
