//! What was revoked, and who was not told of it yet.

use super::Store;

/// What a revocation is about.
#[derive(Clone, Debug)]
pub(crate) enum RevocationScope {
    /// Every certificate of this name.
    Name(String),
    /// The certificate of this serial, and the name it is of.
    Certificate { aid: String, serial: String },
}

impl RevocationScope {
    pub fn aid(&self) -> &str {
        match self {
            RevocationScope::Name(aid) | RevocationScope::Certificate { aid, .. } => aid,
        }
    }
}

impl Store {
    /// Marks certificates as revoked; those that are already keep their first reason and time. With them it stores that `auth` has to
    /// be told, and returns by which time this is known; see [`Store::announced`].
    ///
    /// Of a whole name nothing is left. Whoever replaces a certificate changes its row first, so on PostgreSQL the statement waits for
    /// a replacement that is under way, but does not see the certificate that it adds: the next one does, until there is nothing
    /// to revoke. From then on no replacement finds a certificate to begin with.
    pub async fn revoke(&self, scope: &RevocationScope, at_ms: i64, reason: &str) -> sqlx::Result<i64> {
        let (statement, which) = match scope {
            RevocationScope::Name(aid) => (
                "UPDATE certificates SET state = 'revoked', revoked_at = $2, reason = $3
                 WHERE aid = $1 AND state <> 'revoked'",
                aid,
            ),
            RevocationScope::Certificate { serial, .. } => (
                "UPDATE certificates SET state = 'revoked', revoked_at = $2, reason = $3
                 WHERE serial = $1 AND state <> 'revoked'",
                serial,
            ),
        };
        let mut tx = self.db.begin().await?;
        loop {
            let revoked = sqlx::query(statement)
                .bind(which.as_str())
                .bind(at_ms / 1000)
                .bind(reason)
                .execute(&mut *tx)
                .await?;
            if revoked.rows_affected() == 0 {
                break;
            }
        }
        sqlx::query(
            "INSERT INTO unannounced_revocations (aid, revoked_at_ms) VALUES ($1, $2)
             ON CONFLICT (aid) DO UPDATE SET revoked_at_ms =
                 CASE WHEN excluded.revoked_at_ms > unannounced_revocations.revoked_at_ms THEN excluded.revoked_at_ms
                      ELSE unannounced_revocations.revoked_at_ms + 1 END",
        )
        .bind(scope.aid())
        .bind(at_ms)
        .execute(&mut *tx)
        .await?;
        let known_by = sqlx::query_scalar("SELECT revoked_at_ms FROM unannounced_revocations WHERE aid = $1")
            .bind(scope.aid())
            .fetch_one(&mut *tx)
            .await?;
        self.db.commit(tx).await?;
        Ok(known_by)
    }

    /// Names whose revocation nobody was told of, from before this time, the oldest first.
    pub async fn unannounced(&self, before_ms: i64, limit: i64) -> sqlx::Result<Vec<(String, i64)>> {
        sqlx::query_as(
            "SELECT aid, revoked_at_ms FROM unannounced_revocations WHERE revoked_at_ms <= $1
             ORDER BY revoked_at_ms, aid LIMIT $2",
        )
        .bind(before_ms)
        .bind(limit)
        .fetch_all(self.db.read())
        .await
    }

    /// Everybody was told of it. One that was stored meanwhile has another time, and stays.
    pub async fn announced(&self, aid: &str, known_by: i64) -> sqlx::Result<()> {
        let removed =
            sqlx::query("DELETE FROM unannounced_revocations WHERE aid = $1 AND revoked_at_ms = $2")
                .bind(aid)
                .bind(known_by)
                .execute(self.db.write_alone());
        self.db.counted(removed).await.map(drop)
    }
}
