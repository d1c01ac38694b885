//! The disk's share of a delivery: rows that are due at the same rate, each committed as soon as the disk lets it.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::sync::mpsc;

use super::super::process::{BenchFolder, Pid};
use super::super::rounds::{Latencies, Sample};
use super::bare_store::{BareStore, RowLayout};
use super::ticker::{due, tick};

/// Commits to a SQLite file, and nothing else.
pub(super) struct BareCommits {
    store: BareStore,
    gap: Duration,
}

impl BareCommits {
    pub(super) async fn new(folder: &BenchFolder, gap: Duration) -> anyhow::Result<Self> {
        let store = BareStore::sqlite(&folder.file("bare_commits.db"), RowLayout::Plain).await;
        Ok(Self { store: store.context("the bare commits have no store")?, gap })
    }

    /// From the moment each row was due to the end of its commit. Rows that are late share one, as they do in ours.
    pub(super) async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        let (gap, count) = (self.gap, (span.as_secs_f64() / self.gap.as_secs_f64()) as u64);
        let meter = Pid::own().meter()?;
        let start = Instant::now() + Duration::from_millis(10);
        let (queue, mut numbers) = mpsc::channel(count as usize);
        let ticker = tokio::task::spawn_blocking(move || tick(start, gap, count, &[queue]));
        let (mut latencies, mut group) = (Latencies::new()?, Vec::new());
        while numbers.recv_many(&mut group, count as usize).await > 0 {
            self.store.commit(&vec![0; group.len()]).await?;
            let now = Instant::now();
            for number in group.drain(..) {
                latencies.record(now.saturating_duration_since(due(start, gap, number)));
            }
        }
        ticker.await.context("the ticker panicked")?;
        meter.stop(&latencies)
    }
}
