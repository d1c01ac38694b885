//! Where the bare loops put their rows: one statement a batch, which is a transaction by itself.

use std::path::Path;

use serde::Serialize;
use sqlx::any::AnyPoolOptions;
use sqlx::{AnyPool, Executor as _, PgPool};

use super::super::agent::ISSUER;
use super::payload::PAYLOAD;

const PLAIN: &str = "CREATE TABLE stored_message (id INTEGER PRIMARY KEY, payload TEXT NOT NULL)";

/// The same on both engines.
pub(super) const INBOX: &str = "
    CREATE TABLE stored_message (id TEXT PRIMARY KEY, recipient TEXT NOT NULL, seq BIGINT NOT NULL, payload TEXT NOT NULL);
    CREATE INDEX inbox ON stored_message (recipient, seq)";

/// What a row is.
#[derive(Clone, Copy)]
pub(super) enum RowLayout {
    /// A payload.
    Plain,
    /// A time-ordered key, a recipient, a seq in the recipient's inbox, and the payload.
    Inbox { recipients: usize },
}

pub(super) enum BareStore {
    SqlitePlain(AnyPool),
    SqliteInbox(AnyPool, InboxSeqs),
    PostgresInbox(PgPool, InboxSeqs),
}

/// The last time-ordered key, and the last seq of each inbox.
pub(super) struct InboxSeqs {
    key: u64,
    inboxes: Vec<(String, i64)>,
}

/// A batch, by column.
struct RowBatch<'a> {
    ids: Vec<String>,
    recipients: Vec<&'a str>,
    seqs: Vec<i64>,
}

impl BareStore {
    pub(super) async fn sqlite(file: &Path, layout: RowLayout) -> sqlx::Result<Self> {
        sqlx::any::install_default_drivers();
        let url = format!("sqlite:{}?mode=rwc", file.display());
        let pool = AnyPoolOptions::new().max_connections(1).connect(&url).await?;
        pool.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL").await?;
        match layout {
            RowLayout::Plain => {
                pool.execute(PLAIN).await?;
                Ok(BareStore::SqlitePlain(pool))
            }
            RowLayout::Inbox { recipients } => {
                pool.execute(INBOX).await?;
                Ok(BareStore::SqliteInbox(pool, InboxSeqs::new(recipients)))
            }
        }
    }

    pub(super) fn recipients(&self) -> usize {
        match self {
            BareStore::SqlitePlain(_) => 1,
            BareStore::SqliteInbox(_, seqs) | BareStore::PostgresInbox(_, seqs) => seqs.inboxes.len(),
        }
    }

    /// Makes a row for each recipient durable.
    pub(super) async fn commit(&mut self, recipients: &[usize]) -> sqlx::Result<()> {
        match self {
            BareStore::SqlitePlain(pool) => plain(pool, recipients.len()).await,
            BareStore::SqliteInbox(pool, seqs) => inbox(pool, seqs.batch(recipients)).await,
            BareStore::PostgresInbox(pool, seqs) => unnest(pool, seqs.batch(recipients)).await,
        }
    }
}

async fn plain(pool: &AnyPool, count: usize) -> sqlx::Result<()> {
    let rows = json(&vec![PAYLOAD; count])?;
    let insert = "INSERT INTO stored_message (payload) SELECT value FROM json_each($1)";
    sqlx::query(insert).bind(rows).execute(pool).await.map(drop)
}

async fn inbox(pool: &AnyPool, batch: RowBatch<'_>) -> sqlx::Result<()> {
    let RowBatch { ids, recipients, seqs } = batch;
    let rows = ids.iter().zip(recipients).zip(seqs).map(|((id, to), seq)| (id, to, seq, PAYLOAD));
    let insert = "INSERT INTO stored_message (id, recipient, seq, payload)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each($1)";
    sqlx::query(insert).bind(json(&rows.collect::<Vec<_>>())?).execute(pool).await.map(drop)
}

async fn unnest(pool: &PgPool, batch: RowBatch<'_>) -> sqlx::Result<()> {
    let insert = "INSERT INTO stored_message (id, recipient, seq, payload)
         SELECT * FROM UNNEST($1::text[], $2::text[], $3::bigint[], $4::text[])";
    let payloads = vec![PAYLOAD; batch.ids.len()];
    let query = sqlx::query(insert).bind(batch.ids).bind(batch.recipients).bind(batch.seqs);
    query.bind(payloads).execute(pool).await.map(drop)
}

fn json(rows: &impl Serialize) -> sqlx::Result<String> {
    serde_json::to_string(rows).map_err(|error| sqlx::Error::Encode(error.into()))
}

impl InboxSeqs {
    pub(super) fn new(recipients: usize) -> Self {
        Self { key: 0, inboxes: (0..recipients).map(|number| (name(number), 0)).collect() }
    }

    /// Gives each row the next seq of its recipient's inbox.
    fn batch(&mut self, recipients: &[usize]) -> RowBatch<'_> {
        let mut ids = Vec::with_capacity(recipients.len());
        let mut seqs = Vec::with_capacity(recipients.len());
        for recipient in recipients {
            self.key += 1;
            self.inboxes[*recipient].1 += 1;
            ids.push(key(self.key));
            seqs.push(self.inboxes[*recipient].1);
        }
        let recipients = recipients.iter().map(|recipient| self.inboxes[*recipient].0.as_str()).collect();
        RowBatch { ids, recipients, seqs }
    }
}

/// As long as the AIDs that the server sees.
pub(super) fn name(number: usize) -> String {
    format!("bench-{number:05}.{ISSUER}")
}

/// A key that grows with time, as long as a UUID.
pub(super) fn key(number: u64) -> String {
    format!("{number:032x}")
}
