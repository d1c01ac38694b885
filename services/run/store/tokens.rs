//! Tokens. What would let somebody use one is not stored.

use super::Store;
use sqlx::{Any, AnyConnection};

/// How many tokens are listed.
const LISTED: i64 = 1000;

/// A token that is about to be stored.
pub(crate) struct NewToken<'a> {
    pub hash: &'a str,
    pub prefix: &'a str,
    pub kind: &'a str,
    pub tenant: Option<&'a str>,
    /// Of the token of a runner.
    pub run_and_attempt: Option<(&'a str, &'a str)>,
    pub created_at: i64,
}

/// What decides whether a token is valid.
#[derive(Clone, Debug, Default)]
pub(crate) struct TokenFacts {
    pub kind: String,
    pub tenant: Option<String>,
    pub run_id: Option<String>,
    pub attempt_id: Option<String>,
    pub created_at: i64,
    /// Of the token of a runner whose attempt was replaced.
    pub ends_at: Option<i64>,
    pub revoked_at: Option<i64>,
    pub run: Option<TokenRun>,
}

/// The run that the token of a runner is for.
#[derive(Clone, Debug)]
pub(crate) struct TokenRun {
    pub lease_attempt: Option<String>,
    pub lease_until: i64,
    pub lease_ms: i64,
    pub lease_released: bool,
    pub ended_at: Option<i64>,
}

#[derive(sqlx::FromRow)]
struct JoinedToken {
    kind: String,
    tenant: Option<String>,
    run_id: Option<String>,
    attempt_id: Option<String>,
    created_at: i64,
    ends_at: Option<i64>,
    revoked_at: Option<i64>,
    lease_attempt: Option<String>,
    lease_until: Option<i64>,
    lease_ms: Option<i64>,
    lease_released: Option<i64>,
    ended_at: Option<i64>,
}

/// A token as it is listed.
#[derive(sqlx::FromRow)]
pub(crate) struct ListedToken {
    pub prefix: String,
    pub kind: String,
    pub tenant: Option<String>,
    pub created_at: i64,
    pub revoked_at: Option<i64>,
}

impl Store {
    pub async fn insert_token(&self, tx: &mut AnyConnection, token: &NewToken<'_>) -> sqlx::Result<()> {
        sqlx::query(
            "INSERT INTO run_token (hash, prefix, kind, tenant, run_id, attempt_id, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(token.hash)
        .bind(token.prefix)
        .bind(token.kind)
        .bind(token.tenant)
        .bind(token.run_and_attempt.map(|(run, _)| run))
        .bind(token.run_and_attempt.map(|(_, attempt)| attempt))
        .bind(token.created_at)
        .execute(tx)
        .await?;
        Ok(())
    }

    pub async fn token(&self, hash: &str) -> sqlx::Result<Option<TokenFacts>> {
        let row: Option<JoinedToken> = sqlx::query_as::<Any, _>(
            "SELECT run_token.kind, COALESCE(run_token.tenant, run.tenant) AS tenant, run_token.run_id,
                 run_token.attempt_id, run_token.created_at,
                 run_token.ends_at, run_token.revoked_at, run.lease_attempt, run.lease_until, run.lease_ms,
                 run.lease_released, run.ended_at
             FROM run_token LEFT JOIN run ON run.id = run_token.run_id WHERE run_token.hash = $1",
        )
        .bind(hash)
        .fetch_optional(self.db.read())
        .await?;
        Ok(row.map(JoinedToken::facts))
    }

    /// Tokens of tenants and administrators, the newest first.
    pub async fn tokens(&self) -> sqlx::Result<Vec<ListedToken>> {
        sqlx::query_as::<Any, _>(
            "SELECT prefix, kind, tenant, created_at, revoked_at FROM run_token WHERE run_id IS NULL
             ORDER BY created_at DESC, hash LIMIT $1",
        )
        .bind(LISTED)
        .fetch_all(self.db.read())
        .await
    }

    /// Revokes the tokens that begin like this, and gives how many those were.
    pub async fn revoke_tokens(&self, prefix: &str, now: i64) -> sqlx::Result<i64> {
        // Not LIKE, for which the underscore of every token is any character.
        let query = sqlx::query(
            "UPDATE run_token SET revoked_at = $2
             WHERE substr(prefix, 1, length($1)) = $1 AND revoked_at IS NULL",
        );
        let revoked = self.db.counted(query.bind(prefix).bind(now).execute(self.db.write_alone())).await?;
        Ok(i64::try_from(revoked.rows_affected()).unwrap_or(i64::MAX))
    }

    pub async fn revoke_token(&self, hash: &str, now: i64) -> sqlx::Result<i64> {
        let query =
            sqlx::query("UPDATE run_token SET revoked_at = $2 WHERE hash = $1 AND revoked_at IS NULL");
        let revoked = self.db.counted(query.bind(hash).bind(now).execute(self.db.write_alone())).await?;
        Ok(i64::try_from(revoked.rows_affected()).unwrap_or(i64::MAX))
    }
}

impl JoinedToken {
    fn facts(self) -> TokenFacts {
        let run = self.lease_until.zip(self.lease_ms).map(|(lease_until, lease_ms)| TokenRun {
            lease_attempt: self.lease_attempt,
            lease_until,
            lease_ms,
            lease_released: self.lease_released == Some(1),
            ended_at: self.ended_at,
        });
        TokenFacts {
            kind: self.kind,
            tenant: self.tenant,
            run_id: self.run_id,
            attempt_id: self.attempt_id,
            created_at: self.created_at,
            ends_at: self.ends_at,
            revoked_at: self.revoked_at,
            run,
        }
    }
}
