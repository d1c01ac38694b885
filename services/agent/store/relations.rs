//! The rows of relations: what users granted agents.

use super::Store;
use super::agents::WriteTx;
use kernel::json_rows;
use sqlx::{Any, AssertSqlSafe};
use std::collections::BTreeSet;

/// Relations that are read at once where all of an agent are looked at.
pub(crate) const PAGE: i64 = 500;

const COLUMNS: &str =
    "id, agent_id, agent_aid, user_aid, status, granted_scopes, granted_manifest_version, reauth_required,
    reauth_manifest_version, reauth_scopes, created_at, updated_at";

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct RelationRow {
    pub id: String,
    pub agent_id: String,
    pub agent_aid: String,
    pub user_aid: String,
    pub status: String,
    /// A JSON list, sorted.
    pub granted_scopes: String,
    pub granted_manifest_version: i64,
    pub reauth_required: i64,
    pub reauth_manifest_version: Option<i64>,
    /// A JSON list, sorted.
    pub reauth_scopes: String,
    pub created_at: i64,
    pub updated_at: i64,
}

/// Whose relations are listed, and which of them.
pub(crate) struct RelationsWanted<'a> {
    pub user: Option<&'a str>,
    pub agent_id: Option<&'a str>,
    pub status: Option<&'a str>,
    pub reauth_required: Option<bool>,
    pub after: &'a str,
    pub limit: i64,
}

impl Store {
    pub async fn relation(&self, id: &str) -> sqlx::Result<Option<RelationRow>> {
        let text = format!("SELECT {COLUMNS} FROM relation WHERE id = $1");
        sqlx::query_as::<Any, RelationRow>(AssertSqlSafe(text)).bind(id).fetch_optional(self.db.read()).await
    }

    /// The relation of a user with an agent that is not revoked.
    pub async fn open_relation(&self, agent_aid: &str, user: &str) -> sqlx::Result<Option<RelationRow>> {
        let text = format!(
            "SELECT {COLUMNS} FROM relation WHERE agent_aid = $1 AND user_aid = $2 AND status <> 'revoked'"
        );
        sqlx::query_as::<Any, RelationRow>(AssertSqlSafe(text))
            .bind(agent_aid)
            .bind(user)
            .fetch_optional(self.db.read())
            .await
    }

    pub async fn relations(&self, wanted: &RelationsWanted<'_>) -> sqlx::Result<Vec<RelationRow>> {
        let mut text = format!("SELECT {COLUMNS} FROM relation WHERE id > $1");
        let filters = [("user_aid", wanted.user), ("agent_id", wanted.agent_id), ("status", wanted.status)];
        let filters: Vec<(&str, &str)> =
            filters.into_iter().filter_map(|(column, value)| Some((column, value?))).collect();
        for (at, (column, _)) in filters.iter().enumerate() {
            text += &format!(" AND {column} = ${}", at + 3);
        }
        if let Some(required) = wanted.reauth_required {
            text += if required { " AND reauth_required = 1" } else { " AND reauth_required = 0" };
        }
        text += " ORDER BY id LIMIT $2";
        let mut query =
            sqlx::query_as::<Any, RelationRow>(AssertSqlSafe(text)).bind(wanted.after).bind(wanted.limit);
        for (_, value) in filters {
            query = query.bind(value);
        }
        query.fetch_all(self.db.read()).await
    }

    /// What a user has to agree to.
    pub async fn pending_of(&self, user: &str, most: i64) -> sqlx::Result<Vec<RelationRow>> {
        let text = format!(
            "SELECT {COLUMNS} FROM relation WHERE user_aid = $1 AND reauth_required = 1 AND status = 'active'
             ORDER BY id LIMIT $2"
        );
        sqlx::query_as::<Any, RelationRow>(AssertSqlSafe(text))
            .bind(user)
            .bind(most)
            .fetch_all(self.db.read())
            .await
    }

    /// Those of some users who should be asked about something.
    pub async fn users_to_ask(&self, users: &BTreeSet<&str>) -> sqlx::Result<BTreeSet<String>> {
        let given = json_rows::texts(self.db.engine(), 1);
        let text = format!(
            "SELECT DISTINCT user_aid FROM relation
             WHERE user_aid IN {given} AND reauth_required = 1 AND status = 'active'"
        );
        let found: Vec<(String,)> = sqlx::query_as(AssertSqlSafe(text))
            .bind(json_rows::text(users)?)
            .fetch_all(self.db.read())
            .await?;
        Ok(found.into_iter().map(|(user,)| user).collect())
    }

    /// The users of the active relations of an agent after a relation, each with the id of the relation.
    pub async fn active_users(&self, agent_id: &str, after: &str) -> sqlx::Result<Vec<(String, String)>> {
        sqlx::query_as(
            "SELECT id, user_aid FROM relation WHERE agent_id = $1 AND id > $2 AND status = 'active' ORDER BY id LIMIT $3",
        )
        .bind(agent_id)
        .bind(after)
        .bind(PAGE)
        .fetch_all(self.db.read())
        .await
    }

    /// Removes relations that were revoked before a time.
    pub async fn remove_revoked_relations(&self, before: i64) -> sqlx::Result<u64> {
        let query = sqlx::query("DELETE FROM relation WHERE status = 'revoked' AND updated_at < $1");
        let gone = self.db.counted(query.bind(before).execute(self.db.write_alone())).await?;
        Ok(gone.rows_affected())
    }

    /// Removes some of the revoked relations of a user, and gives how many.
    pub async fn remove_relations_of(&self, user: &str) -> sqlx::Result<u64> {
        let query = sqlx::query(
            "DELETE FROM relation WHERE id IN (
                 SELECT id FROM relation WHERE user_aid = $1 AND status = 'revoked' ORDER BY id LIMIT $2)",
        );
        let gone = self.db.counted(query.bind(user).bind(PAGE).execute(self.db.write_alone())).await?;
        Ok(gone.rows_affected())
    }
}

/// The relation, in a transaction that has locked its agent.
pub(crate) async fn read(tx: &mut WriteTx, id: &str) -> sqlx::Result<Option<RelationRow>> {
    let text = format!("SELECT {COLUMNS} FROM relation WHERE id = $1");
    sqlx::query_as::<Any, RelationRow>(AssertSqlSafe(text)).bind(id).fetch_optional(&mut **tx).await
}

pub(crate) async fn open_with(
    tx: &mut WriteTx,
    agent_id: &str,
    user: &str,
) -> sqlx::Result<Option<RelationRow>> {
    let text = format!(
        "SELECT {COLUMNS} FROM relation WHERE agent_id = $1 AND user_aid = $2 AND status <> 'revoked'"
    );
    sqlx::query_as::<Any, RelationRow>(AssertSqlSafe(text))
        .bind(agent_id)
        .bind(user)
        .fetch_optional(&mut **tx)
        .await
}

/// How many relations a user has, the revoked ones included: they are kept for a while.
pub(crate) async fn count_of(tx: &mut WriteTx, user: &str) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT COUNT(*) FROM relation WHERE user_aid = $1")
        .bind(user)
        .fetch_one(&mut **tx)
        .await
}

/// The relations of an agent after one of them that are not revoked, or of those only the ones whose user has to be asked, in a
/// transaction that has locked the agent.
pub(crate) async fn page_of(
    tx: &mut WriteTx,
    agent_id: &str,
    after: &str,
    only_pending: bool,
) -> sqlx::Result<Vec<RelationRow>> {
    let pending = if only_pending { "AND reauth_required = 1" } else { "" };
    let text = format!(
        "SELECT {COLUMNS} FROM relation WHERE agent_id = $1 AND id > $2 AND status <> 'revoked' {pending}
         ORDER BY id LIMIT $3"
    );
    sqlx::query_as::<Any, RelationRow>(AssertSqlSafe(text))
        .bind(agent_id)
        .bind(after)
        .bind(PAGE)
        .fetch_all(&mut **tx)
        .await
}

/// Marks every relation of an agent whose user has not to be asked yet.
pub(crate) async fn mark_all(
    tx: &mut WriteTx,
    agent_id: &str,
    version: i64,
    scopes: &str,
    now: i64,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE relation SET reauth_required = 1, reauth_manifest_version = $2, reauth_scopes = $3, updated_at = $4
         WHERE agent_id = $1 AND status <> 'revoked' AND reauth_required = 0",
    )
    .bind(agent_id)
    .bind(version)
    .bind(scopes)
    .bind(now)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Everything that can change of a relation; a new one is stored as it is.
pub(crate) async fn put(tx: &mut WriteTx, row: &RelationRow) -> sqlx::Result<()> {
    let text = format!(
        "INSERT INTO relation ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
         ON CONFLICT (id) DO UPDATE SET status = excluded.status, granted_scopes = excluded.granted_scopes,
             granted_manifest_version = excluded.granted_manifest_version, reauth_required = excluded.reauth_required,
             reauth_manifest_version = excluded.reauth_manifest_version, reauth_scopes = excluded.reauth_scopes,
             updated_at = excluded.updated_at"
    );
    sqlx::query(AssertSqlSafe(text))
        .bind(row.id.as_str())
        .bind(row.agent_id.as_str())
        .bind(row.agent_aid.as_str())
        .bind(row.user_aid.as_str())
        .bind(row.status.as_str())
        .bind(row.granted_scopes.as_str())
        .bind(row.granted_manifest_version)
        .bind(row.reauth_required)
        .bind(row.reauth_manifest_version)
        .bind(row.reauth_scopes.as_str())
        .bind(row.created_at)
        .bind(row.updated_at)
        .execute(&mut **tx)
        .await?;
    Ok(())
}
