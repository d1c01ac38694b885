//! How far the directories of peers were copied, and who copies ours.

use super::{LogWriter, Store};
use kernel::{Lease, Leases};
use sqlx::Any;

/// How long after its last sign of life another process takes over from one that copies from a peer.
pub(super) const LEASE_MS: i64 = 15_000;
/// The most domains that are told of changes.
const MOST_FOLLOWERS: i64 = 1000;

/// What is next for the copy of a peer's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerStep {
    /// A page of its snapshot.
    Snapshot,
    /// What the snapshot did not have is removed.
    Sweep,
    /// A page of its log.
    Changes,
}

impl PeerStep {
    fn name(self) -> &'static str {
        match self {
            PeerStep::Snapshot => "snapshot",
            PeerStep::Sweep => "sweep",
            PeerStep::Changes => "changes",
        }
    }
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct PeerRow {
    pub issuer: String,
    step: String,
    /// Counts the copies of the whole directory.
    pub pass: i64,
    pub snapshot_version: Option<String>,
    pub snapshot_cursor: Option<String>,
    /// Entries of the snapshot that were read so far.
    pub snapshot_items: i64,
    pub cursor: Option<String>,
    /// When it answered last, in milliseconds.
    pub last_ok_at: i64,
    /// When nothing was left to copy last.
    pub level_at: Option<i64>,
    /// When it had something new last.
    pub changed_at: i64,
    pub last_error: Option<String>,
}

/// A peer that this process copies from.
#[derive(Clone, Debug)]
pub(crate) struct LeasedPeer {
    pub lease: Lease,
    pub row: PeerRow,
}

impl PeerRow {
    pub fn step(&self) -> PeerStep {
        match self.step.as_str() {
            "changes" => PeerStep::Changes,
            "sweep" => PeerStep::Sweep,
            _ => PeerStep::Snapshot,
        }
    }

    pub fn set_step(&mut self, step: PeerStep) {
        self.step = step.name().to_owned();
    }

    /// Copies the whole directory, from its beginning.
    pub fn start_again(&mut self) {
        self.set_step(PeerStep::Snapshot);
        self.pass += 1;
        (self.snapshot_version, self.snapshot_cursor, self.snapshot_items, self.cursor) =
            (None, None, 0, None);
    }
}

const COLUMNS: &str =
    "issuer, step, pass, snapshot_version, snapshot_cursor, snapshot_items, cursor, last_ok_at, level_at,
                       changed_at, last_error";

impl Store {
    /// Takes the lease to copy from a peer, which is added where it is new. None if another process has it.
    pub async fn lease_peer(&self, issuer: &str, now: i64) -> sqlx::Result<Option<LeasedPeer>> {
        let add = sqlx::query(
            "INSERT INTO peer (issuer, step, pass, snapshot_items, last_ok_at, changed_at, fence, leased_until)
             VALUES ($1, 'snapshot', 1, 0, $2, $2, 0, 0) ON CONFLICT DO NOTHING",
        );
        self.db.counted(add.bind(issuer).bind(now).execute(self.db.write_alone())).await?;
        let Some(lease) = self.leases.take(issuer, now).await? else { return Ok(None) };
        let text = format!("SELECT {COLUMNS} FROM peer WHERE issuer = $1");
        let row = sqlx::query_as::<Any, PeerRow>(sqlx::AssertSqlSafe(text))
            .bind(issuer)
            .fetch_optional(self.db.read())
            .await?;
        Ok(row.map(|row| LeasedPeer { lease, row }))
    }

    /// Keeps the lease, with what went wrong if something did. False: another process has it by now.
    pub async fn save_peer(&self, peer: &LeasedPeer, now: i64) -> sqlx::Result<bool> {
        let mut log = self.write_log(now).await?;
        let held = log.save_peer(&self.leases, peer, now).await?;
        self.commit(log).await?;
        Ok(held)
    }

    pub async fn peers(&self) -> sqlx::Result<Vec<PeerRow>> {
        sqlx::query_as::<Any, PeerRow>(sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM peer ORDER BY issuer"
        )))
        .fetch_all(self.db.read())
        .await
    }

    /// How many documents were copied from each source.
    pub async fn copied(&self) -> sqlx::Result<Vec<(String, i64)>> {
        sqlx::query_as("SELECT source_ap, COUNT(*) FROM document WHERE own = 0 GROUP BY source_ap")
            .fetch_all(self.db.read())
            .await
    }

    /// A domain copies from us: it is told when something changes.
    pub async fn add_follower(&self, issuer: &str, now: i64) -> sqlx::Result<()> {
        let mut tx = self.db.begin().await?;
        sqlx::query(
            "INSERT INTO follower (issuer, seen_at) SELECT $1, $2 WHERE (SELECT COUNT(*) FROM follower) < $3
             OR EXISTS (SELECT 1 FROM follower WHERE issuer = $1)
             ON CONFLICT (issuer) DO UPDATE SET seen_at = excluded.seen_at",
        )
        .bind(issuer)
        .bind(now)
        .bind(MOST_FOLLOWERS)
        .execute(&mut *tx)
        .await?;
        self.db.commit(tx).await
    }

    pub async fn followers(&self) -> sqlx::Result<Vec<String>> {
        sqlx::query_scalar("SELECT issuer FROM follower ORDER BY issuer").fetch_all(self.db.read()).await
    }

    pub async fn remove_followers(&self, seen_before: i64) -> sqlx::Result<()> {
        let mut tx = self.db.begin().await?;
        sqlx::query("DELETE FROM follower WHERE seen_at < $1").bind(seen_before).execute(&mut *tx).await?;
        self.db.commit(tx).await
    }
}

impl LogWriter {
    /// Stores how far the copy of a peer is, in the transaction that has its documents. False: another process has the lease by
    /// now, and nothing may be written.
    pub async fn save_peer(&mut self, leases: &Leases, peer: &LeasedPeer, now: i64) -> sqlx::Result<bool> {
        if !leases.renew(self.tx(), &peer.lease, now).await? {
            return Ok(false);
        }
        let row = &peer.row;
        sqlx::query(
            "UPDATE peer SET step = $2, pass = $3, snapshot_version = $4, snapshot_cursor = $5, snapshot_items = $6, cursor = $7,
                 last_ok_at = $8, level_at = $9, changed_at = $10, last_error = $11
             WHERE issuer = $1",
        )
        .bind(row.issuer.as_str())
        .bind(row.step.as_str())
        .bind(row.pass)
        .bind(row.snapshot_version.as_deref())
        .bind(row.snapshot_cursor.as_deref())
        .bind(row.snapshot_items)
        .bind(row.cursor.as_deref())
        .bind(row.last_ok_at)
        .bind(row.level_at)
        .bind(row.changed_at)
        .bind(row.last_error.as_deref())
        .execute(&mut **self.tx())
        .await?;
        Ok(true)
    }

    /// Nothing of this peer is stored any more; if it is still to be copied, that begins anew.
    pub async fn forget_peer(&mut self, issuer: &str) -> sqlx::Result<()> {
        sqlx::query("DELETE FROM peer WHERE issuer = $1").bind(issuer).execute(&mut **self.tx()).await?;
        Ok(())
    }
}
