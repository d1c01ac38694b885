//! Validations of profiles, and how they have ended.

use super::Store;
use crate::ids::can_exist;
use sqlx::{Any, AnyConnection, AssertSqlSafe};
use std::collections::BTreeMap;

/// How many validations of a profile are stored.
const MOST_STORED: i64 = 20;

/// The members of [`ValidationRow`].
const COLUMNS: &str = "id, profile, run_id, command_id, job_id, failed, failure_kind, created_at, ended_at";

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct ValidationRow {
    pub id: String,
    pub profile: String,
    pub run_id: String,
    pub command_id: String,
    pub job_id: String,
    /// 1 if it has ended and failed.
    pub failed: i64,
    pub failure_kind: Option<String>,
    pub created_at: i64,
    pub ended_at: Option<i64>,
}

/// How a validation has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValidationEnd {
    pub failed: bool,
    pub failure_kind: Option<String>,
}

impl Store {
    /// Stores a validation that has begun, and removes the oldest ones of its profile. Those that go on stay: their runs are still open.
    pub async fn insert_validation(&self, tx: &mut AnyConnection, new: &ValidationRow) -> sqlx::Result<()> {
        sqlx::query(
            "INSERT INTO run_validation (id, profile, run_id, command_id, job_id, failed, created_at)
             VALUES ($1, $2, $3, $4, $5, 0, $6)",
        )
        .bind(new.id.as_str())
        .bind(new.profile.as_str())
        .bind(new.run_id.as_str())
        .bind(new.command_id.as_str())
        .bind(new.job_id.as_str())
        .bind(new.created_at)
        .execute(&mut *tx)
        .await?;
        sqlx::query(
            "DELETE FROM run_validation WHERE profile = $1 AND ended_at IS NOT NULL AND id NOT IN
                 (SELECT id FROM run_validation WHERE profile = $1 ORDER BY created_at DESC, id DESC LIMIT $2)",
        )
        .bind(new.profile.as_str())
        .bind(MOST_STORED)
        .execute(tx)
        .await?;
        Ok(())
    }

    pub async fn validation(&self, id: &str) -> sqlx::Result<Option<ValidationRow>> {
        if !can_exist(id) {
            return Ok(None);
        }
        let text = format!("SELECT {COLUMNS} FROM run_validation WHERE id = $1");
        sqlx::query_as::<Any, _>(AssertSqlSafe(text)).bind(id).fetch_optional(self.db.read()).await
    }

    /// The newest validation of a profile.
    pub async fn newest_validation(&self, profile: &str) -> sqlx::Result<Option<ValidationRow>> {
        let text = format!(
            "SELECT {COLUMNS} FROM run_validation WHERE profile = $1 ORDER BY created_at DESC, id DESC LIMIT 1"
        );
        sqlx::query_as::<Any, _>(AssertSqlSafe(text)).bind(profile).fetch_optional(self.db.read()).await
    }

    /// The newest validation of each profile.
    pub async fn newest_validations(&self) -> sqlx::Result<BTreeMap<String, ValidationRow>> {
        let text = format!(
            "SELECT {COLUMNS} FROM run_validation AS one WHERE NOT EXISTS
                 (SELECT 1 FROM run_validation AS newer WHERE newer.profile = one.profile
                      AND (newer.created_at, newer.id) > (one.created_at, one.id))"
        );
        let query = sqlx::query_as::<Any, ValidationRow>(AssertSqlSafe(text));
        let rows = query.fetch_all(self.db.read()).await?;
        Ok(rows.into_iter().map(|row| (row.profile.clone(), row)).collect())
    }

    /// Validations that have not ended, and those whose runs are open although they have.
    pub async fn open_validations(&self) -> sqlx::Result<Vec<ValidationRow>> {
        let text = format!(
            "SELECT {COLUMNS} FROM run_validation WHERE ended_at IS NULL OR EXISTS
                 (SELECT 1 FROM run WHERE run.id = run_validation.run_id AND run.ended_at IS NULL)"
        );
        sqlx::query_as::<Any, _>(AssertSqlSafe(text)).fetch_all(self.db.read()).await
    }

    /// Open runs of validations that were not stored before this time.
    pub async fn lost_runs_of_validations(&self, tenant: &str, before: i64) -> sqlx::Result<Vec<String>> {
        sqlx::query_scalar(
            "SELECT id FROM run WHERE tenant = $1 AND ended_at IS NULL AND created_at < $2
                 AND idempotency_key LIKE 'validation val%'
                 AND NOT EXISTS (SELECT 1 FROM run_validation WHERE run_validation.run_id = run.id)",
        )
        .bind(tenant.to_owned())
        .bind(before)
        .fetch_all(self.db.read())
        .await
    }

    /// Stores how a validation has ended. What is known already stays.
    pub async fn end_validation(&self, id: &str, end: &ValidationEnd, now: i64) -> sqlx::Result<()> {
        let query = sqlx::query(
            "UPDATE run_validation SET failed = $2, failure_kind = $3, ended_at = $4
             WHERE id = $1 AND ended_at IS NULL",
        );
        let query = query.bind(id).bind(i64::from(end.failed)).bind(end.failure_kind.as_deref()).bind(now);
        self.db.counted(query.execute(self.db.write_alone())).await?;
        Ok(())
    }

    pub async fn remove_validations(&self, tx: &mut AnyConnection, profile: &str) -> sqlx::Result<()> {
        sqlx::query("DELETE FROM run_validation WHERE profile = $1").bind(profile).execute(tx).await?;
        Ok(())
    }
}
