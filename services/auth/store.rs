//! Every SQL statement of `auth.*`.

use kernel::{Db, Engine};
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
    /// The fingerprint of the key that logged in; chains of earlier versions have none.
    pub login_key: Option<String>,
    /// When the agent's tokens were revoked for the last time before the login, or 0.
    pub after_revocation: i64,
}

/// A completed login: its nonce is used up, its first refresh token is stored.
pub(super) struct Login {
    pub request_id: String,
    pub login_expires_at: i64,
    pub token: Token,
}

/// What became of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoginOutcome {
    Stored,
    /// Its nonce was used before.
    UsedBefore,
    /// The agent's tokens were revoked after the login looked at its certificate.
    Overtaken,
}

/// Whose refresh token it is, and the key that logged in.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(super) struct TokenHolder {
    pub aid: String,
    pub login_key: Option<String>,
}

pub(super) struct Refreshed {
    pub aid: String,
    pub refresh_count: i64,
    pub after_revocation: i64,
}

/// A used token is kept for longer than it may be replayed.
const CONSUMED_MS: i64 = 60_000;
/// How many refresh tokens an agent has at most, those included that were used a moment ago. A login beyond them ends the chain whose
/// token was issued first.
pub(super) const TOKENS_PER_AGENT: i64 = 1000;
/// How many expired rows one purge removes at most.
pub(super) const PURGE_ROWS: i64 = 500;

pub(super) struct Store {
    pub(super) db: Db,
}

impl Store {
    pub fn new(db: Db) -> Store {
        Store { db }
    }

    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Stores a group of logins in one transaction, each only if its nonce was not used and its tokens were not revoked.
    pub async fn log_in_all(&self, logins: Vec<Login>) -> sqlx::Result<Vec<LoginOutcome>> {
        let mut tx = self.db.write().await?;
        let mut outcomes = Vec::with_capacity(logins.len());
        for login in &logins {
            let outcome = if !use_login(&mut tx, &login.request_id, login.login_expires_at).await? {
                LoginOutcome::UsedBefore
            } else if insert(&mut tx, &login.token).await? {
                end_oldest(&mut tx, &login.token).await?;
                LoginOutcome::Stored
            } else {
                LoginOutcome::Overtaken
            };
            outcomes.push(outcome);
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

    /// Whose token this is, used or not.
    pub async fn holder(&self, hash: &str) -> sqlx::Result<Option<TokenHolder>> {
        sqlx::query_as("SELECT aid, login_key FROM refresh_tokens WHERE hash = $1")
            .bind(hash)
            .fetch_optional(self.db.read())
            .await
    }

    /// Consumes the token `old` and stores its successor `next`, or returns `None`.
    ///
    /// A token consumed after `replay_after` may be used once more, provided its successor was not: then that successor
    /// never reached the agent, and a new one replaces it. One that was consumed before that is in the hands of two, and its
    /// chain ends: `chain` is what the token says of it, for one that was removed meanwhile.
    pub async fn refresh(
        &self,
        old: &str,
        chain: Option<&str>,
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
            if end_chain_of_spent(&mut tx, old, chain, replay_after).await? {
                self.db.commit(tx).await?;
            }
            return Ok(None);
        }
        let used: Token = sqlx::query_as(
            "SELECT hash, chain, parent, aid, first_issued_at, refresh_count, issued_at, expires_at, login_key,
                 after_revocation
             FROM refresh_tokens WHERE hash = $1",
        )
        .bind(old)
        .fetch_one(&mut *tx)
        .await?;
        let token = Token {
            hash: next.to_owned(),
            parent: Some(old.to_owned()),
            refresh_count: used.refresh_count + 1,
            issued_at: now,
            ..used
        };
        // Not stored if the tokens were revoked: then nothing of this is.
        if !insert(&mut tx, &token).await? {
            return Ok(None);
        }
        self.db.commit(tx).await?;
        let Token { aid, refresh_count, after_revocation, .. } = token;
        Ok(Some(Refreshed { aid, refresh_count, after_revocation }))
    }

    /// Ends the chains of an agent that began with another key than this one.
    pub async fn end_chains_of_other_keys(&self, aid: &str, key: &str) -> sqlx::Result<()> {
        let ended = sqlx::query(
            "DELETE FROM refresh_tokens WHERE aid = $1 AND (login_key IS NULL OR login_key <> $2)",
        )
        .bind(aid)
        .bind(key)
        .execute(self.db.write_alone());
        self.db.counted(ended).await.map(drop)
    }

    /// Revokes every token of an agent, and returns the time by which this revocation is known: it is later than that of the one
    /// before, also where both are of one second.
    ///
    /// On PostgreSQL a row that another transaction stores at this moment is not deleted. It is of no use: it names the revocation
    /// before this one, and only a token of the last one is accepted.
    pub async fn revoke_tokens(&self, aid: &str, at: i64) -> sqlx::Result<i64> {
        let mut tx = self.db.begin().await?;
        sqlx::query(
            "INSERT INTO revocations (aid, revoked_at) VALUES ($1, $2)
             ON CONFLICT (aid) DO UPDATE SET revoked_at =
                 CASE WHEN excluded.revoked_at > revocations.revoked_at THEN excluded.revoked_at
                      ELSE revocations.revoked_at + 1 END",
        )
        .bind(aid)
        .bind(at)
        .execute(&mut *tx)
        .await?;
        sqlx::query("DELETE FROM refresh_tokens WHERE aid = $1").bind(aid).execute(&mut *tx).await?;
        let revoked_at = sqlx::query_scalar("SELECT revoked_at FROM revocations WHERE aid = $1")
            .bind(aid)
            .fetch_one(&mut *tx)
            .await?;
        self.db.commit(tx).await?;
        Ok(revoked_at)
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
        let agents = sqlx::query(
            "DELETE FROM new_agents WHERE aid IN (SELECT aid FROM new_agents WHERE until < $1 LIMIT $2)",
        )
        .bind(now)
        .bind(PURGE_ROWS)
        .execute(&mut *tx)
        .await?;
        self.db.commit(tx).await?;
        Ok(logins.rows_affected() + tokens.rows_affected() + agents.rows_affected())
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
    // The successor that was lost counts as used up: whoever shows it later has what the agent never got.
    sqlx::query("UPDATE refresh_tokens SET consumed_at = $2, replayed_at = $2 WHERE parent = $1")
        .bind(old)
        .bind(now)
        .execute(&mut **tx)
        .await?;
    Ok(true)
}

/// Ends the chain of a token that was used before `replay_after`. Returns whether it did.
async fn end_chain_of_spent(
    tx: &mut Transaction<'static, Any>,
    old: &str,
    chain: Option<&str>,
    replay_after: i64,
) -> sqlx::Result<bool> {
    let row: Option<(String, Option<i64>)> =
        sqlx::query_as("SELECT chain, consumed_at FROM refresh_tokens WHERE hash = $1")
            .bind(old)
            .fetch_optional(&mut **tx)
            .await?;
    let chain = match (row, chain) {
        (Some((chain, Some(consumed_at))), _) if consumed_at <= replay_after => chain,
        // Used a moment ago, by one that did not get our answer; or it has expired.
        (Some(_), _) | (None, None) => return Ok(false),
        // Only who had a token of the chain can name it, and this one was removed long after its use.
        (None, Some(chain)) => chain.to_owned(),
    };
    let ended =
        sqlx::query("DELETE FROM refresh_tokens WHERE chain = $1").bind(chain).execute(&mut **tx).await?;
    Ok(ended.rows_affected() > 0)
}

/// Ends what an agent has beyond its number of tokens, but never the chain of this one.
async fn end_oldest(tx: &mut Transaction<'static, Any>, newest: &Token) -> sqlx::Result<()> {
    let held: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM refresh_tokens WHERE aid = $1")
        .bind(newest.aid.as_str())
        .fetch_one(&mut **tx)
        .await?;
    if held <= TOKENS_PER_AGENT {
        return Ok(());
    }
    sqlx::query(
        "DELETE FROM refresh_tokens WHERE chain IN
         (SELECT chain FROM refresh_tokens WHERE aid = $1 AND chain <> $2 ORDER BY issued_at, hash LIMIT $3)",
    )
    .bind(newest.aid.as_str())
    .bind(newest.chain.as_str())
    .bind(held - TOKENS_PER_AGENT)
    .execute(&mut **tx)
    .await
    .map(drop)
}

/// False if the agent's tokens were revoked since the login that the token descends from.
async fn insert(tx: &mut Transaction<'static, Any>, token: &Token) -> sqlx::Result<bool> {
    let inserted = sqlx::query(
        "INSERT INTO refresh_tokens (hash, chain, parent, aid, first_issued_at, refresh_count, issued_at, expires_at,
             login_key, after_revocation)
         SELECT $1, $2, CAST($3 AS TEXT), $4, $5, $6, $7, $8, CAST($9 AS TEXT), $10
         WHERE NOT EXISTS (SELECT 1 FROM revocations WHERE aid = $4 AND revoked_at <> $10)",
    )
    .bind(token.hash.as_str())
    .bind(token.chain.as_str())
    .bind(token.parent.as_deref())
    .bind(token.aid.as_str())
    .bind(token.first_issued_at)
    .bind(token.refresh_count)
    .bind(token.issued_at)
    .bind(token.expires_at)
    .bind(token.login_key.as_deref())
    .bind(token.after_revocation)
    .execute(&mut **tx)
    .await?;
    Ok(inserted.rows_affected() == 1)
}
