//! Every SQL statement of `auth.*`.

use crate::kernel::{Db, Engine};
use sqlx::{Any, Transaction};

/// A refresh token, by its hash.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(super) struct Token {
    pub hash: String,
    pub chain: String,
    pub parent: Option<String>,
    pub aid: String,
    pub first_issued_at: i64,
    pub refresh_count: i64,
    pub issued_at: i64,
    pub expires_at: i64,
}

/// A completed login: its nonce is used up, its first refresh token is stored.
pub(super) struct Login {
    pub request_id: String,
    pub login_expires_at: i64,
    pub token: Token,
}

pub(super) struct Refreshed {
    pub aid: String,
    pub refresh_count: i64,
}

/// A used token is kept for longer than it may be replayed.
const CONSUMED_MS: i64 = 60_000;
/// How many expired rows one purge removes at most.
pub(super) const PURGE_ROWS: i64 = 500;

pub(super) struct Store {
    db: Db,
}

impl Store {
    pub fn new(db: Db) -> Store {
        Store { db }
    }

    /// Stores a group of logins in one transaction; false for those whose nonce was used before.
    pub async fn log_in_all(&self, logins: Vec<Login>) -> sqlx::Result<Vec<bool>> {
        let mut tx = self.db.write().await?;
        let mut outcomes = Vec::with_capacity(logins.len());
        for login in &logins {
            let fresh = use_login(&mut tx, &login.request_id, login.login_expires_at).await?;
            if fresh {
                insert(&mut tx, &login.token).await?;
            }
            outcomes.push(fresh);
        }
        tx.commit().await?;
        Ok(outcomes)
    }

    /// Marks a login as used that issues no tokens; false if it was used before.
    pub async fn use_login(&self, request_id: &str, expires_at: i64) -> sqlx::Result<bool> {
        let mut tx = self.db.begin().await?;
        let fresh = use_login(&mut tx, request_id, expires_at).await?;
        self.db.commit(tx).await?;
        Ok(fresh)
    }

    /// Consumes the token `old` and stores its successor `next`, or changes nothing and returns `None`.
    ///
    /// A token consumed after `replay_after` may be used once more, provided its successor was not: then that successor
    /// never reached the agent, and a new one replaces it.
    pub async fn refresh(
        &self,
        old: &str,
        next: &str,
        now: i64,
        replay_after: i64,
        links: i64,
    ) -> sqlx::Result<Option<Refreshed>> {
        let mut tx = self.db.begin().await?;
        // The row is locked first: of two refreshes with one token the second waits here, and sees what the first did.
        let consumed = sqlx::query(
            "UPDATE refresh_tokens SET consumed_at = $2
             WHERE hash = $1 AND consumed_at IS NULL AND expires_at > $2 AND refresh_count < $3",
        )
        .bind(old)
        .bind(now)
        .bind(links)
        .execute(&mut *tx)
        .await?
        .rows_affected();
        if consumed == 0 && !replay(&mut tx, old, now, replay_after).await? {
            return Ok(None);
        }
        let Token { chain, aid, first_issued_at, refresh_count, expires_at, .. } = sqlx::query_as(
            "SELECT hash, chain, parent, aid, first_issued_at, refresh_count, issued_at, expires_at
             FROM refresh_tokens WHERE hash = $1",
        )
        .bind(old)
        .fetch_one(&mut *tx)
        .await?;
        let refresh_count = refresh_count + 1;
        let parent = Some(old.to_owned());
        let hash = next.to_owned();
        let token =
            Token { hash, chain, parent, aid, first_issued_at, refresh_count, issued_at: now, expires_at };
        insert(&mut tx, &token).await?;
        self.db.commit(tx).await?;
        Ok(Some(Refreshed { aid: token.aid, refresh_count }))
    }

    pub async fn revoke_tokens(&self, aid: &str, at: i64) -> sqlx::Result<()> {
        let mut tx = self.db.begin().await?;
        sqlx::query("DELETE FROM refresh_tokens WHERE aid = $1").bind(aid).execute(&mut *tx).await?;
        sqlx::query(
            "INSERT INTO revocations (aid, revoked_at) VALUES ($1, $2)
             ON CONFLICT (aid) DO UPDATE SET revoked_at = excluded.revoked_at",
        )
        .bind(aid)
        .bind(at)
        .execute(&mut *tx)
        .await?;
        self.db.commit(tx).await
    }

    /// Whether other processes may write here, too.
    pub fn is_shared(&self) -> bool {
        self.db.engine() == Engine::Postgres
    }

    pub async fn revoked_at(&self, aid: &str) -> sqlx::Result<Option<i64>> {
        sqlx::query_scalar("SELECT revoked_at FROM revocations WHERE aid = $1")
            .bind(aid)
            .fetch_optional(self.db.read())
            .await
    }

    pub async fn revocations(&self) -> sqlx::Result<Vec<(String, i64)>> {
        sqlx::query_as("SELECT aid, revoked_at FROM revocations").fetch_all(self.db.read()).await
    }

    /// Removes some of what cannot be used any more. Returns how many rows that were.
    pub async fn purge(&self, now: i64) -> sqlx::Result<u64> {
        let mut tx = self.db.begin().await?;
        let logins = sqlx::query(
            "DELETE FROM used_logins WHERE request_id IN
             (SELECT request_id FROM used_logins WHERE expires_at < $1 LIMIT $2)",
        )
        .bind(now)
        .bind(PURGE_ROWS)
        .execute(&mut *tx)
        .await?;
        let tokens = sqlx::query(
            "DELETE FROM refresh_tokens WHERE hash IN
             (SELECT hash FROM refresh_tokens WHERE expires_at < $1 OR consumed_at < $2 LIMIT $3)",
        )
        .bind(now)
        .bind(now - CONSUMED_MS)
        .bind(PURGE_ROWS)
        .execute(&mut *tx)
        .await?;
        self.db.commit(tx).await?;
        Ok(logins.rows_affected() + tokens.rows_affected())
    }
}

async fn use_login(
    tx: &mut Transaction<'static, Any>,
    request_id: &str,
    expires_at: i64,
) -> sqlx::Result<bool> {
    let used = sqlx::query(
        "INSERT INTO used_logins (request_id, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING",
    )
    .bind(request_id)
    .bind(expires_at)
    .execute(&mut **tx)
    .await?;
    Ok(used.rows_affected() == 1)
}

async fn replay(
    tx: &mut Transaction<'static, Any>,
    old: &str,
    now: i64,
    replay_after: i64,
) -> sqlx::Result<bool> {
    let replayed = sqlx::query(
        "UPDATE refresh_tokens SET replayed_at = $2
         WHERE hash = $1 AND consumed_at > $3 AND replayed_at IS NULL AND expires_at > $2
           AND NOT EXISTS (SELECT 1 FROM refresh_tokens AS next WHERE next.parent = $1 AND next.consumed_at IS NOT NULL)",
    )
    .bind(old)
    .bind(now)
    .bind(replay_after)
    .execute(&mut **tx)
    .await?;
    if replayed.rows_affected() == 0 {
        return Ok(false);
    }
    sqlx::query("DELETE FROM refresh_tokens WHERE parent = $1").bind(old).execute(&mut **tx).await?;
    Ok(true)
}

async fn insert(tx: &mut Transaction<'static, Any>, token: &Token) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO refresh_tokens (hash, chain, parent, aid, first_issued_at, refresh_count, issued_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(token.hash.as_str())
    .bind(token.chain.as_str())
    .bind(token.parent.as_deref())
    .bind(token.aid.as_str())
    .bind(token.first_issued_at)
    .bind(token.refresh_count)
    .bind(token.issued_at)
    .bind(token.expires_at)
    .execute(&mut **tx)
    .await?;
    Ok(())
}
