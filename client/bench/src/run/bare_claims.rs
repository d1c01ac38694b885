//! The least that a claim can cost: an update of a row that has no owner, committed to SQLite, and nothing else.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures_util::future::try_join_all;
use sqlx::any::AnyPoolOptions;
use sqlx::{AnyPool, Executor as _};

use crate::process::{BenchFolder, Pid};
use crate::rounds::{Latencies, RoundLoad, Sample};

const TABLE: &str = "CREATE TABLE claimed_run (id INTEGER PRIMARY KEY, owner TEXT)";

const CLAIM: &str = "UPDATE claimed_run SET owner = $1 WHERE id = $2 AND owner IS NULL";

const RELEASE: &str = "UPDATE claimed_run SET owner = NULL WHERE id = $1";

/// Rows that many want at once. It runs inside the bench, whose CPU time is then that of the updates.
pub(super) struct BareClaims {
    pool: AnyPool,
    claimers: Vec<String>,
    runs: usize,
    next: usize,
    _folder: BenchFolder,
}

impl BareClaims {
    /// With the settings of our own stores, and as many rows as there are runs on the other side.
    pub(super) async fn new(claimers: usize, runs: usize) -> anyhow::Result<Self> {
        let folder = BenchFolder::new("bare-claims")?;
        sqlx::any::install_default_drivers();
        let url = format!("sqlite:{}?mode=rwc", folder.file("claims.db").display());
        let pool = AnyPoolOptions::new().max_connections(1).connect(&url).await;
        let pool = pool.context("the bare claims have no store")?;
        pool.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL").await?;
        pool.execute(TABLE).await?;
        for id in 0..runs {
            sqlx::query("INSERT INTO claimed_run (id) VALUES ($1)").bind(id as i64).execute(&pool).await?;
        }
        let claimers = (0..claimers).map(|number| format!("runner_{number:032x}")).collect();
        Ok(Self { pool, claimers, runs, next: 0, _folder: folder })
    }

    /// All claim the next row. Exactly one gets it, and gives it back.
    async fn race(&mut self, latencies: &mut Latencies) -> anyhow::Result<()> {
        let run = (self.next % self.runs) as i64;
        self.next += 1;
        let claims = self.claimers.iter().map(|claimer| async {
            let since = Instant::now();
            let done = sqlx::query(CLAIM).bind(claimer.as_str()).bind(run).execute(&self.pool).await?;
            anyhow::Ok((since.elapsed(), done.rows_affected()))
        });
        let mut won = 0;
        for (took, changed) in try_join_all(claims).await? {
            latencies.record(took);
            won += changed;
        }
        ensure!(won == 1, "{won} bare claims of a race succeeded");
        sqlx::query(RELEASE).bind(run).execute(&self.pool).await?;
        Ok(())
    }
}

impl RoundLoad for BareClaims {
    async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        let (meter, until, mut latencies) = (Pid::own().meter()?, Instant::now() + span, Latencies::new()?);
        while Instant::now() < until {
            self.race(&mut latencies).await?;
        }
        meter.stop(&latencies)
    }
}
