//! A commit for each row on PostgreSQL, from clients that each have one row in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use sqlx::PgPool;
use tokio::task::JoinSet;

use super::super::process::Pid;
use super::super::rounds::{Latencies, Sample};
use super::bare_store::{key, name};
use super::payload::{PAYLOAD, SplitMix64};

pub(super) const CLIENTS: usize = 64;

/// Clients that each commit one row at a time, on a connection each.
pub(super) struct SingleCommits {
    pool: PgPool,
    next: Arc<AtomicI64>,
    recipients: usize,
    rounds: u64,
}

impl SingleCommits {
    pub(super) fn new(pool: PgPool, recipients: usize) -> Self {
        Self { pool, next: Arc::default(), recipients, rounds: 0 }
    }

    pub(super) async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        self.rounds += 1;
        let (meter, until) = (Pid::own().meter()?, Instant::now() + span);
        let mut tasks = JoinSet::new();
        for number in 0..CLIENTS {
            let random = SplitMix64::new(self.rounds * CLIENTS as u64 + number as u64);
            let (pool, next) = (self.pool.clone(), self.next.clone());
            tasks.spawn(commit_until(pool, next, self.recipients, random, until));
        }
        let mut total = Latencies::new()?;
        while let Some(done) = tasks.join_next().await {
            total.add(&done.context("a client of PostgreSQL panicked")??)?;
        }
        meter.stop(&total)
    }
}

async fn commit_until(
    pool: PgPool,
    next: Arc<AtomicI64>,
    recipients: usize,
    mut random: SplitMix64,
    until: Instant,
) -> anyhow::Result<Latencies> {
    let (mut latencies, mut connection) = (Latencies::new()?, pool.acquire().await?);
    let insert = "INSERT INTO stored_message (id, recipient, seq, payload) VALUES ($1, $2, $3, $4)";
    loop {
        let since = Instant::now();
        if since >= until {
            return Ok(latencies);
        }
        // One counter for all inboxes is as good for the index, and costs the clients nothing.
        let seq = next.fetch_add(1, Ordering::Relaxed);
        let query = sqlx::query(insert).bind(key(seq as u64)).bind(name(random.below(recipients))).bind(seq);
        query.bind(PAYLOAD).execute(&mut *connection).await?;
        latencies.record(since.elapsed());
    }
}
