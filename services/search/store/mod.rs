//! Every SQL statement of `search.*`.

mod log;
mod maintenance;
pub(super) mod pages;
pub(super) mod peers;
mod query_stats;

pub(super) use log::LogWriter;
pub(super) use maintenance::SnapshotRow;
pub(super) use pages::{ChangedRow, IndexRow, ListedRow};
pub(super) use peers::{LeasedPeer, PeerRow, PeerStep};

use kernel::{Db, Ids, Leases, Tally};
use sqlx::Any;
use std::sync::Arc;

/// `valid_to` of the version that is current.
pub(super) const STILL_VALID: i64 = i64::MAX;

pub(super) struct Store {
    db: Db,
    tally: Arc<Tally>,
    /// To copy from peers.
    pub leases: Leases,
}

/// The numbers of the log at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogState {
    /// The newest sequence.
    pub sequence: i64,
    /// The highest sequence that was removed by age: cursors below it are of no use any more.
    pub floor: i64,
    /// How far the changes of the agent service were read.
    pub position: i64,
    /// When something changed last, in milliseconds; at first when the directory was made.
    pub changed_at: i64,
    /// How often a new index was asked for.
    pub rebuilds: i64,
}

/// A document that can be read by its AID.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(super) struct DocumentRow {
    pub aid: String,
    pub source_ap: String,
    pub signed: i64,
    pub content: String,
    pub sha256: String,
    pub updated_at: i64,
    pub manifest_version: Option<i64>,
    pub manifest_hash: Option<String>,
}

impl Store {
    pub fn new(db: Db, tally: Arc<Tally>) -> Store {
        let leases = Leases::new(&db, "peer", "issuer", peers::LEASE_MS);
        Store { db, tally, leases }
    }

    pub async fn state(&self) -> sqlx::Result<LogState> {
        let rows: Vec<(String, i64)> =
            sqlx::query_as("SELECT name, value FROM state").fetch_all(self.db.read()).await?;
        let mut state = LogState::default();
        for (name, value) in rows {
            match name.as_str() {
                "sequence" => state.sequence = value,
                "floor" => state.floor = value,
                "position" => state.position = value,
                "changed_at" => state.changed_at = value,
                "rebuilds" => state.rebuilds = value,
                _ => {}
            }
        }
        Ok(state)
    }

    /// A directory in which nothing has changed yet was made now, if nobody has opened it before.
    pub async fn begin(&self, now: i64) -> sqlx::Result<()> {
        let mut tx = self.db.begin().await?;
        sqlx::query("UPDATE state SET value = $1 WHERE name = 'changed_at' AND value = 0")
            .bind(now)
            .execute(&mut *tx)
            .await?;
        self.db.commit(tx).await
    }

    /// The key of cursors: whoever opens the store first makes it.
    pub async fn cursor_key(&self, ids: &Ids) -> sqlx::Result<String> {
        let mut tx = self.db.begin().await?;
        sqlx::query("INSERT INTO cursor_key (id, key) VALUES (1, $1) ON CONFLICT DO NOTHING")
            .bind(ids.secret())
            .execute(&mut *tx)
            .await?;
        let key = sqlx::query_scalar("SELECT key FROM cursor_key WHERE id = 1").fetch_one(&mut *tx).await?;
        self.db.commit(tx).await?;
        Ok(key)
    }

    pub async fn document(&self, aid: &str) -> sqlx::Result<Option<DocumentRow>> {
        sqlx::query_as::<Any, DocumentRow>(
            "SELECT aid, source_ap, signed, content, sha256, updated_at, manifest_version, manifest_hash
             FROM document WHERE aid = $1",
        )
        .bind(aid)
        .fetch_optional(self.db.read())
        .await
    }

    /// How many documents are found by searches.
    pub async fn listed(&self) -> sqlx::Result<i64> {
        sqlx::query_scalar("SELECT COUNT(*) FROM document WHERE listed = 1").fetch_one(self.db.read()).await
    }

    /// Has every process make its index anew.
    pub async fn ask_for_rebuild(&self) -> sqlx::Result<()> {
        let mut tx = self.db.begin().await?;
        sqlx::query("UPDATE state SET value = value + 1 WHERE name = 'rebuilds'").execute(&mut *tx).await?;
        self.db.commit(tx).await
    }
}
