//! What is known of the credentials of profiles. Their values are in the store of secrets.

use super::Store;
use sqlx::{Any, AnyConnection};
use std::collections::BTreeMap;

#[derive(sqlx::FromRow)]
pub(crate) struct ProfileRow {
    pub profile: String,
    /// The version of the credential that this is about.
    pub secret_version: String,
    /// The names of the keys, with spaces between them.
    pub secret_keys: String,
    pub version: i64,
    pub hash_suffix: String,
    pub base_url: Option<String>,
    pub model: Option<String>,
    pub updated_at: i64,
}

/// A credential that was stored.
pub(crate) struct WrittenProfile<'a> {
    pub profile: &'a str,
    pub secret_version: &'a str,
    pub secret_keys: &'a str,
    pub hash_suffix: &'a str,
    pub base_url: Option<&'a str>,
    pub model: Option<&'a str>,
    pub now: i64,
}

impl Store {
    pub async fn profile(&self, profile: &str) -> sqlx::Result<Option<ProfileRow>> {
        sqlx::query_as::<Any, _>(
            "SELECT profile, secret_version, secret_keys, version, hash_suffix, base_url, model, updated_at FROM run_profile
             WHERE profile = $1",
        )
        .bind(profile)
        .fetch_optional(self.db.read())
        .await
    }

    pub async fn profiles(&self) -> sqlx::Result<BTreeMap<String, ProfileRow>> {
        let rows: Vec<ProfileRow> = sqlx::query_as::<Any, _>(
            "SELECT profile, secret_version, secret_keys, version, hash_suffix, base_url, model, updated_at FROM run_profile",
        )
        .fetch_all(self.db.read())
        .await?;
        Ok(rows.into_iter().map(|row| (row.profile.clone(), row)).collect())
    }

    /// Locks the row of a profile until the commit, and makes one if there is none: whoever changes the credential holds it, also in
    /// another process that shares the store of secrets.
    pub async fn lock_profile(&self, tx: &mut AnyConnection, profile: &str, now: i64) -> sqlx::Result<()> {
        sqlx::query(
            "INSERT INTO run_profile (profile, secret_version, secret_keys, version, hash_suffix, updated_at)
             VALUES ($1, '', '', 0, '', $2)
             ON CONFLICT (profile) DO UPDATE SET version = run_profile.version",
        )
        .bind(profile)
        .bind(now)
        .execute(tx)
        .await?;
        Ok(())
    }

    /// Writes the row of a profile that is locked. Each credential has a higher version than the one before.
    pub async fn write_profile(
        &self,
        tx: &mut AnyConnection,
        written: &WrittenProfile<'_>,
    ) -> sqlx::Result<()> {
        sqlx::query(
            "UPDATE run_profile SET version = version + 1, secret_version = $2, secret_keys = $3, hash_suffix = $4,
                 base_url = $5, model = $6, updated_at = $7
             WHERE profile = $1",
        )
        .bind(written.profile)
        .bind(written.secret_version)
        .bind(written.secret_keys)
        .bind(written.hash_suffix)
        .bind(written.base_url)
        .bind(written.model)
        .bind(written.now)
        .execute(tx)
        .await?;
        Ok(())
    }

    pub async fn remove_profile(&self, tx: &mut AnyConnection, profile: &str) -> sqlx::Result<()> {
        sqlx::query("DELETE FROM run_profile WHERE profile = $1").bind(profile).execute(tx).await?;
        Ok(())
    }

    /// A run that has not ended and uses this profile.
    pub async fn open_run_of_profile(&self, profile: &str) -> sqlx::Result<Option<String>> {
        sqlx::query_scalar("SELECT id FROM run WHERE profile = $1 AND ended_at IS NULL LIMIT 1")
            .bind(profile)
            .fetch_optional(self.db.read())
            .await
    }
}
