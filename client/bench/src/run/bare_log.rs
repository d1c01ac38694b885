//! The bare log: appends that arrive while a commit runs share the next one, and each is answered after its commit.
//!
//! The rows are those of the server, with its two indexes: the log by seq, and the name that the runner gave each event, without which
//! a repetition could not be told. Nothing is read or checked, and the seqs are in memory.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sqlx::any::AnyPoolOptions;
use sqlx::{AnyPool, Executor as _};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

const TABLE: &str = "
    CREATE TABLE run_event (run_id TEXT NOT NULL, seq BIGINT NOT NULL, kind TEXT NOT NULL, command_id TEXT, attempt_id TEXT,
        payload TEXT NOT NULL, client_event_id TEXT, created_at BIGINT NOT NULL, PRIMARY KEY (run_id, seq));
    CREATE UNIQUE INDEX run_event_of_client ON run_event (run_id, client_event_id) WHERE client_event_id IS NOT NULL";

const INSERT: &str = "
    INSERT INTO run_event (run_id, seq, kind, command_id, attempt_id, payload, client_event_id, created_at)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7
    FROM json_each($1)";

/// As long as an id of the server.
const ATTEMPT: &str = "attempt_00000000000000000000000000000000";

/// Reading a clock is the server's cost.
const CREATED_AT: i64 = 1_700_000_000_000;

/// Appends that wait for a commit, at most.
const WAITING: usize = 1024;

/// An event as a runner appends it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BareEvent {
    client_event_id: String,
    #[serde(rename = "type")]
    kind: String,
    command_id: Option<String>,
    payload: Box<RawValue>,
}

/// What became of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BareAppended {
    client_event_id: String,
    pub(super) seq: i64,
}

#[derive(Clone)]
pub(super) struct BareLog(mpsc::Sender<PendingAppend>);

/// Events for a run, and the request that waits for them.
struct PendingAppend {
    run: String,
    events: Vec<BareEvent>,
    answer: oneshot::Sender<Vec<BareAppended>>,
}

/// Where they are committed.
struct BareLogWriter {
    pool: AnyPool,
    /// The last seq of each run.
    seqs: HashMap<String, i64>,
}

/// The columns of a row, in order.
type BareLogRow<'a> = (&'a str, i64, &'a str, Option<&'a str>, &'a str, &'a str, &'a str, i64);

impl BareLog {
    pub(super) async fn start(file: &Path, tasks: &TaskTracker) -> anyhow::Result<Self> {
        let writer = BareLogWriter::open(file).await.context("the bare handler has no store")?;
        let (queue, waiting) = mpsc::channel(WAITING);
        tasks.spawn(writer.commit_all(waiting));
        Ok(Self(queue))
    }

    /// Answers when the events are durable; none if they could not be stored.
    pub(super) async fn append(&self, run: String, events: Vec<BareEvent>) -> Option<Vec<BareAppended>> {
        let (answer, done) = oneshot::channel();
        self.0.send(PendingAppend { run, events, answer }).await.ok()?;
        done.await.ok()
    }
}

impl BareLogWriter {
    /// With the settings of our own stores.
    async fn open(file: &Path) -> sqlx::Result<Self> {
        sqlx::any::install_default_drivers();
        let url = format!("sqlite:{}?mode=rwc", file.display());
        let pool = AnyPoolOptions::new().max_connections(1).connect(&url).await?;
        pool.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL").await?;
        pool.execute(TABLE).await?;
        Ok(Self { pool, seqs: HashMap::new() })
    }

    /// There is no timer: appends are collected for as long as the running commit takes.
    async fn commit_all(mut self, mut waiting: mpsc::Receiver<PendingAppend>) {
        let mut group = Vec::with_capacity(WAITING);
        while waiting.recv_many(&mut group, WAITING).await > 0 {
            let firsts: Vec<i64> = group.iter().map(|append| self.first_seq(append)).collect();
            if let Err(error) = self.commit(&group, &firsts).await {
                eprintln!("the bare handler could not commit: {error}");
                return;
            }
            for (append, first) in group.drain(..).zip(firsts) {
                let PendingAppend { events, answer, .. } = append;
                let appended = (first..).zip(events);
                let appended =
                    appended.map(|(seq, event)| BareAppended { client_event_id: event.client_event_id, seq });
                // A request waits for each append, except while the bench ends.
                let _ = answer.send(appended.collect());
            }
        }
    }

    /// The seq of the first event of an append. Those after it follow without a gap.
    fn first_seq(&mut self, append: &PendingAppend) -> i64 {
        let last = self.seqs.entry(append.run.clone()).or_default();
        let first = *last + 1;
        *last += append.events.len() as i64;
        first
    }

    /// One statement, which is a transaction by itself.
    async fn commit(&self, group: &[PendingAppend], firsts: &[i64]) -> sqlx::Result<()> {
        let rows: Vec<BareLogRow<'_>> =
            group.iter().zip(firsts).flat_map(|(append, first)| append.rows(*first)).collect();
        let rows = serde_json::to_string(&rows).map_err(|error| sqlx::Error::Encode(error.into()))?;
        sqlx::query(INSERT).bind(rows).execute(&self.pool).await.map(drop)
    }
}

impl PendingAppend {
    fn rows(&self, first: i64) -> impl Iterator<Item = BareLogRow<'_>> {
        (first..).zip(&self.events).map(|(seq, event)| {
            let BareEvent { client_event_id, kind, command_id, payload } = event;
            let (run, payload) = (self.run.as_str(), payload.get());
            (
                run,
                seq,
                kind.as_str(),
                command_id.as_deref(),
                ATTEMPT,
                payload,
                client_event_id.as_str(),
                CREATED_AT,
            )
        })
    }
}
