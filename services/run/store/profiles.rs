//! What is known of the credentials of profiles. Their values are in the store of secrets.

use super::Store;
use sqlx::Any;
use std::collections::BTreeMap;

#[derive(sqlx::FromRow)]
pub(crate) struct ProfileRow {
    pub profile: String,
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
    pub secret_keys: &'a str,
    pub hash_suffix: &'a str,
    pub base_url: Option<&'a str>,
    pub model: Option<&'a str>,
    pub now: i64,
}

impl Store {
    pub async fn profile(&self, profile: &str) -> sqlx::Result<Option<ProfileRow>> {
        sqlx::query_as::<Any, _>(
            "SELECT profile, secret_keys, version, hash_suffix, base_url, model, updated_at FROM run_profile
             WHERE profile = $1",
        )
        .bind(profile)
        .fetch_optional(self.db.read())
        .await
    }

    pub async fn profiles(&self) -> sqlx::Result<BTreeMap<String, ProfileRow>> {
        let rows: Vec<ProfileRow> = sqlx::query_as::<Any, _>(
            "SELECT profile, secret_keys, version, hash_suffix, base_url, model, updated_at FROM run_profile",
        )
        .fetch_all(self.db.read())
        .await?;
        Ok(rows.into_iter().map(|row| (row.profile.clone(), row)).collect())
    }

    /// Each credential has a higher version than the one before.
    pub async fn write_profile(&self, written: &WrittenProfile<'_>) -> sqlx::Result<()> {
        let query = sqlx::query(
            "INSERT INTO run_profile (profile, secret_keys, version, hash_suffix, base_url, model, updated_at)
             VALUES ($1, $2, 1, $3, $4, $5, $6)
             ON CONFLICT (profile) DO UPDATE SET version = run_profile.version + 1, secret_keys = excluded.secret_keys,
                 hash_suffix = excluded.hash_suffix, base_url = excluded.base_url, model = excluded.model,
                 updated_at = excluded.updated_at",
        );
        let query = query.bind(written.profile).bind(written.secret_keys).bind(written.hash_suffix);
        let query = query.bind(written.base_url).bind(written.model).bind(written.now);
        self.db.counted(query.execute(self.db.write_alone())).await?;
        Ok(())
    }

    pub async fn remove_profile(&self, profile: &str) -> sqlx::Result<()> {
        let query = sqlx::query("DELETE FROM run_profile WHERE profile = $1").bind(profile);
        self.db.counted(query.execute(self.db.write_alone())).await?;
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
