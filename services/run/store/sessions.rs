//! Sessions of runs and how far their readers have read. What runs change of a session is written with the runs.

use super::Store;
use crate::ids::can_exist;
use sqlx::{Any, AnyConnection, AssertSqlSafe};

/// A session as it is shown to a reader.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct RunSessionView {
    pub id: String,
    pub tenant: String,
    pub project: String,
    pub profile: String,
    pub title: Option<String>,
    pub state: String,
    pub version: i64,
    pub active_run: Option<String>,
    pub active_command: Option<String>,
    pub last_run: Option<String>,
    pub last_command: Option<String>,
    pub storage_kind: String,
    pub storage_bytes: Option<i64>,
    pub storage_files: Option<i64>,
    pub storage_hash: Option<String>,
    pub storage_at: Option<i64>,
    /// The lease whose runner reported that. `None`: this server has measured it, or nobody.
    pub storage_lease: Option<String>,
    pub evicted_at: Option<i64>,
    pub created_at: i64,
    pub updated_at: i64,
    pub expires_at: i64,
    /// Of the active run, or else of the last one.
    pub last_seq: i64,
    /// Up to which version the reader has read.
    pub read_version: i64,
}

/// With the reader as the first parameter.
const VIEW: &str = "SELECT s.id, s.tenant, s.project, s.profile, s.title, s.state, s.version, s.active_run, s.active_command,
         s.last_run, s.last_command, s.storage_kind, s.storage_bytes, s.storage_files, s.storage_hash, s.storage_at, s.storage_lease,
         s.evicted_at, s.created_at, s.updated_at, s.expires_at, COALESCE(r.last_seq, 0) AS last_seq, COALESCE(c.version, 0) AS read_version
     FROM run_session AS s
     LEFT JOIN run AS r ON r.id = COALESCE(s.active_run, s.last_run)
     LEFT JOIN run_session_reader AS c ON c.session_id = s.id AND c.reader = $1";

/// Which sessions a page is about: those of these tenants, for a reader, behind one that was last changed then.
pub(crate) struct ListedSessions<'a> {
    pub tenants: Vec<&'a str>,
    pub reader: &'a str,
    pub after: Option<(i64, String)>,
    pub limit: i64,
}

/// A session that is about to be stored.
pub(crate) struct NewSession<'a> {
    pub id: &'a str,
    pub payer: &'a str,
    pub tenant: &'a str,
    pub project: &'a str,
    pub profile: &'a str,
    pub title: Option<&'a str>,
    pub now: i64,
    pub expires_at: i64,
}

/// The lease of the active run of a session.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct SessionLease {
    pub lease_runner: Option<String>,
    pub lease_attempt: Option<String>,
    pub lease_epoch: i64,
    pub lease_ms: i64,
    pub lease_until: i64,
    pub lease_released: i64,
    pub ended_at: Option<i64>,
}

impl SessionLease {
    /// Whether a runner may be working in the storage. After a start nobody loses a lease before it could be renewed for once its
    /// length.
    pub fn is_live(&self, now: i64, started_at: i64) -> bool {
        self.lease_runner.is_some()
            && self.lease_released == 0
            && self.ended_at.is_none()
            && now < self.ends_at(started_at)
    }

    pub fn ends_at(&self, started_at: i64) -> i64 {
        self.lease_until.max(started_at + self.lease_ms)
    }
}

/// What a runner, or this server, found stored.
pub(crate) struct FoundStorage<'a> {
    pub session_id: &'a str,
    pub bytes: i64,
    pub files: i64,
    pub sha256: Option<&'a str>,
    pub now: i64,
}

/// The lease of a run, as the storage of a session remembers who reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReportingLease {
    pub run: String,
    pub runner: String,
    pub epoch: i64,
}

impl ReportingLease {
    pub fn key(&self) -> String {
        format!("{} {}", self.run, self.epoch)
    }
}

/// What is stored of a report that has no lease behind it: the operator's.
const NO_LEASE: &str = "operator";

impl Store {
    pub async fn insert_session(&self, tx: &mut AnyConnection, new: &NewSession<'_>) -> sqlx::Result<()> {
        sqlx::query(
            "INSERT INTO run_session (id, payer, tenant, project, profile, title, state, version, storage_kind, storage_removed,
                 created_at, updated_at, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, 'idle', 0, 'pvc', 0, $7, $7, $8)",
        )
        .bind(new.id)
        .bind(new.payer)
        .bind(new.tenant)
        .bind(new.project)
        .bind(new.profile)
        .bind(new.title)
        .bind(new.now)
        .bind(new.expires_at)
        .execute(tx)
        .await?;
        Ok(())
    }

    /// How many sessions with storage a tenant has; it is not counted further than this.
    pub async fn count_sessions(&self, tx: &mut AnyConnection, tenant: &str, most: i64) -> sqlx::Result<i64> {
        sqlx::query_scalar(
            "SELECT COUNT(*) FROM
                 (SELECT id FROM run_session WHERE tenant = $1 AND storage_kind = 'pvc' LIMIT $2) AS stored",
        )
        .bind(tenant)
        .bind(most)
        .fetch_one(tx)
        .await
    }

    pub async fn session(&self, id: &str, reader: &str) -> sqlx::Result<Option<RunSessionView>> {
        if !can_exist(id) {
            return Ok(None);
        }
        sqlx::query_as::<Any, _>(AssertSqlSafe(format!("{VIEW} WHERE s.id = $2")))
            .bind(reader)
            .bind(id)
            .fetch_optional(self.db.read())
            .await
    }

    /// The last changed first. Each tenant is read in the order of its index, so that no list is sorted to show a page of it.
    pub async fn sessions(&self, wanted: &ListedSessions<'_>) -> sqlx::Result<Vec<RunSessionView>> {
        let mut sessions: Vec<RunSessionView> = Vec::new();
        let (at, id) = wanted.after.clone().unwrap_or((i64::MAX, String::new()));
        let text = format!(
            "{VIEW} WHERE s.tenant = $2 AND (s.updated_at, s.id) < ($3, $4)
             ORDER BY s.updated_at DESC, s.id DESC LIMIT $5"
        );
        for tenant in &wanted.tenants {
            let query = sqlx::query_as::<Any, RunSessionView>(AssertSqlSafe(text.clone()));
            let query = query.bind(wanted.reader).bind(*tenant).bind(at).bind(id.as_str());
            sessions.extend(query.bind(wanted.limit).fetch_all(self.db.read()).await?);
        }
        sessions.sort_by(|a, b| (b.updated_at, &b.id).cmp(&(a.updated_at, &a.id)));
        sessions.truncate(usize::try_from(wanted.limit).unwrap_or_default());
        Ok(sessions)
    }

    /// Whether the run is one of the session.
    pub async fn is_run_of_session(&self, run_id: &str, session_id: &str) -> sqlx::Result<bool> {
        if !can_exist(run_id) {
            return Ok(false);
        }
        let found: Option<i64> =
            sqlx::query_scalar("SELECT last_seq FROM run WHERE id = $1 AND session_id = $2")
                .bind(run_id)
                .bind(session_id)
                .fetch_optional(self.db.read())
                .await?;
        Ok(found.is_some())
    }

    /// Locks a session until the commit, and gives how many readers it has. `None`: it was removed.
    pub async fn lock_readers(&self, tx: &mut AnyConnection, session_id: &str) -> sqlx::Result<Option<i64>> {
        // Changed to what it is: that locks the row on PostgreSQL.
        let lock = "UPDATE run_session SET version = version WHERE id = $1";
        if sqlx::query(lock).bind(session_id).execute(&mut *tx).await?.rows_affected() == 0 {
            return Ok(None);
        }
        let count = "SELECT COUNT(*) FROM run_session_reader WHERE session_id = $1";
        sqlx::query_scalar(count).bind(session_id).fetch_one(tx).await.map(Some)
    }

    pub async fn insert_reader(
        &self,
        tx: &mut AnyConnection,
        (session_id, reader): (&str, &str),
        version: i64,
        payer: &str,
    ) -> sqlx::Result<()> {
        sqlx::query(
            "INSERT INTO run_session_reader (session_id, reader, version, payer) VALUES ($1, $2, $3, $4)",
        )
        .bind(session_id)
        .bind(reader)
        .bind(version)
        .bind(payer)
        .execute(tx)
        .await?;
        Ok(())
    }

    /// Moves the cursor of a reader forward. False if the session does not know the reader.
    pub async fn move_reader(
        &self,
        tx: &mut AnyConnection,
        session_id: &str,
        reader: &str,
        version: i64,
    ) -> sqlx::Result<bool> {
        let moved = sqlx::query(
            "UPDATE run_session_reader SET version = CASE WHEN version < $3 THEN $3 ELSE version END
             WHERE session_id = $1 AND reader = $2",
        )
        .bind(session_id)
        .bind(reader)
        .bind(version)
        .execute(tx)
        .await?;
        Ok(moved.rows_affected() == 1)
    }
}

/// Of a session that was evicted before a time, and of which nothing is left: neither its folder nor a run.
const OVER: &str =
    "storage_removed = 1 AND storage_kind = 'evicted' AND evicted_at < $1 AND active_run IS NULL
     AND NOT EXISTS (SELECT 1 FROM run WHERE run.session_id = run_session.id)";

/// Storage.
impl Store {
    pub async fn lease_of_session(&self, session_id: &str) -> sqlx::Result<Option<SessionLease>> {
        sqlx::query_as::<Any, _>(
            "SELECT lease_runner, lease_attempt, lease_epoch, lease_ms, lease_until, lease_released, ended_at
             FROM run WHERE id = (SELECT active_run FROM run_session WHERE id = $1)",
        )
        .bind(session_id)
        .fetch_optional(self.db.read())
        .await
    }

    /// What the last runner of a session said that the back end needs to go on.
    pub async fn back_end_of_session(&self, session_id: &str) -> sqlx::Result<Option<String>> {
        let found: Option<Option<String>> =
            sqlx::query_scalar("SELECT back_end FROM run_session WHERE id = $1")
                .bind(session_id)
                .fetch_optional(self.db.read())
                .await?;
        Ok(found.flatten())
    }

    /// Stores what a runner reports. With a lease, only while that is the one of the session's run. False if nothing was stored.
    pub async fn report_storage(
        &self,
        found: &FoundStorage<'_>,
        lease: Option<&ReportingLease>,
    ) -> sqlx::Result<bool> {
        let query = sqlx::query(
            "UPDATE run_session SET storage_bytes = $2, storage_files = $3, storage_hash = $4, storage_at = $5,
                 storage_lease = $6
             WHERE id = $1 AND storage_kind = 'pvc' AND ($7 = '' OR EXISTS (
                 SELECT 1 FROM run WHERE run.id = run_session.active_run AND run.id = $7 AND run.lease_runner = $8
                     AND run.lease_epoch = $9 AND run.lease_released = 0 AND run.ended_at IS NULL))",
        );
        let query = query.bind(found.session_id).bind(found.bytes).bind(found.files).bind(found.sha256);
        let query =
            query.bind(found.now).bind(lease.map_or_else(|| NO_LEASE.to_owned(), ReportingLease::key));
        let (run, runner, epoch) =
            lease.map_or(("", "", 0), |lease| (&*lease.run, &*lease.runner, lease.epoch));
        let query = query.bind(run).bind(runner).bind(epoch);
        let stored = self.db.counted(query.execute(self.db.write_alone())).await?;
        Ok(stored.rows_affected() == 1)
    }

    /// Stores what this server has measured in its own folder. A runner may work in another one, so what a runner has reported stays,
    /// unless this is measured under the lease of another runner that has not reported anything, and the folder is not empty.
    pub async fn measured_storage(
        &self,
        found: &FoundStorage<'_>,
        lease: Option<&ReportingLease>,
    ) -> sqlx::Result<()> {
        let query = sqlx::query(
            "UPDATE run_session SET storage_bytes = $2, storage_files = $3, storage_hash = $4, storage_at = $5,
                 storage_lease = NULL
             WHERE id = $1 AND storage_kind = 'pvc'
                 AND (storage_lease IS NULL OR ($6 <> '' AND storage_lease <> $6 AND CAST($3 AS BIGINT) > 0))",
        );
        let query = query.bind(found.session_id).bind(found.bytes).bind(found.files).bind(found.sha256);
        let query = query.bind(found.now).bind(lease.map(ReportingLease::key).unwrap_or_default());
        self.db.counted(query.execute(self.db.write_alone())).await?;
        Ok(())
    }

    /// Says that the storage of a session is no longer there. The folder may be removed from here on, and no runner starts in it.
    pub async fn evict_session(&self, session_id: &str, now: i64) -> sqlx::Result<bool> {
        let query = sqlx::query(
            "UPDATE run_session SET storage_kind = 'evicted', evicted_at = $2, storage_removed = 0, storage_bytes = NULL,
                 storage_files = NULL, storage_hash = NULL, storage_at = NULL, storage_lease = NULL, updated_at = $2
             WHERE id = $1 AND storage_kind = 'pvc'",
        );
        let query = query.bind(session_id).bind(now);
        let evicted = self.db.counted(query.execute(self.db.write_alone())).await?;
        Ok(evicted.rows_affected() == 1)
    }

    /// The same of a session that has expired and has no active run, unless it got one meanwhile. Its place in lists stays.
    pub async fn evict_expired(&self, session_id: &str, now: i64) -> sqlx::Result<bool> {
        let query = sqlx::query(
            "UPDATE run_session SET storage_kind = 'evicted', evicted_at = $2, storage_removed = 0, storage_bytes = NULL,
                 storage_files = NULL, storage_hash = NULL, storage_at = NULL, storage_lease = NULL
             WHERE id = $1 AND storage_kind = 'pvc' AND expires_at <= $2 AND active_run IS NULL",
        );
        let query = query.bind(session_id).bind(now);
        let evicted = self.db.counted(query.execute(self.db.write_alone())).await?;
        Ok(evicted.rows_affected() == 1)
    }

    pub async fn expired_sessions(&self, now: i64, limit: i64) -> sqlx::Result<Vec<String>> {
        sqlx::query_scalar(
            "SELECT id FROM run_session WHERE storage_kind = 'pvc' AND expires_at <= $1 AND active_run IS NULL
             ORDER BY expires_at LIMIT $2",
        )
        .bind(now)
        .bind(limit)
        .fetch_all(self.db.read())
        .await
    }

    /// Evicted sessions after an id whose folders are not removed yet.
    pub async fn evicted_sessions(&self, after: &str, limit: i64) -> sqlx::Result<Vec<String>> {
        sqlx::query_scalar(
            "SELECT id FROM run_session WHERE storage_kind = 'evicted' AND storage_removed = 0 AND id > $1
             ORDER BY id LIMIT $2",
        )
        .bind(after)
        .bind(limit)
        .fetch_all(self.db.read())
        .await
    }

    pub async fn storage_removed(&self, session_id: &str) -> sqlx::Result<()> {
        let query = sqlx::query("UPDATE run_session SET storage_removed = 1 WHERE id = $1").bind(session_id);
        self.db.counted(query.execute(self.db.write_alone())).await?;
        Ok(())
    }

    /// Sessions whose storage was evicted before this time, and which no run is left of.
    pub async fn sessions_over(&self, before: i64, limit: i64) -> sqlx::Result<Vec<String>> {
        let text = format!("SELECT id FROM run_session WHERE {OVER} ORDER BY evicted_at LIMIT $2");
        sqlx::query_scalar::<Any, String>(AssertSqlSafe(text))
            .bind(before)
            .bind(limit)
            .fetch_all(self.db.read())
            .await
    }

    /// Removes a session with its readers, unless it got a run meanwhile: whoever creates one locks the session, and what is asked here of
    /// its row is asked again when that lock was waited for.
    pub async fn remove_session(&self, session_id: &str, before: i64) -> sqlx::Result<bool> {
        let mut tx = self.db.begin().await?;
        let text = format!("DELETE FROM run_session WHERE {OVER} AND id = $2");
        let session = sqlx::query::<Any>(AssertSqlSafe(text)).bind(before).bind(session_id.to_owned());
        if session.execute(&mut *tx).await?.rows_affected() == 0 {
            tx.rollback().await?;
            return Ok(false);
        }
        let readers = "DELETE FROM run_session_reader WHERE session_id = $1";
        sqlx::query(readers).bind(session_id.to_owned()).execute(&mut *tx).await?;
        self.db.commit(tx).await?;
        Ok(true)
    }
}
