//! Names that lapsed: no certificate of theirs can be used or renewed any longer, so anybody may register them.
//!
//! What the services keep for such a name belongs to its last holder. They remove it as for an agent that was revoked, and only when
//! all of them have said so is the name given to somebody else.

use super::{NewCertificate, Store};
use crate::{DAY, GRACE_SECONDS};
use sqlx::{Any, Transaction};

/// So long a name stays free of holders after it lapsed, at least. A service that read its name on the list before may be removing
/// things at this moment, and must not find those of the next holder.
const UNHELD_SECONDS: i64 = DAY;

impl Store {
    /// Agents that have no certificate left that is neither revoked nor lapsed, and since when: those after this second and this AID,
    /// or with the AID empty, from this second on.
    pub async fn ended_agents(
        &self,
        since: i64,
        aid: &str,
        now: i64,
        limit: i64,
    ) -> sqlx::Result<Vec<(String, i64)>> {
        sqlx::query_as(
            "SELECT c.aid, MAX(c.ended_at) FROM (
                 SELECT aid, revoked_at AS ended_at FROM certificates
                 WHERE state = 'revoked' AND revoked_at >= $1 AND key_purpose NOT IN ('service', 'tls', 'login')
                 UNION ALL
                 SELECT aid, not_after + $5 FROM certificates
                 WHERE state <> 'revoked' AND not_after >= $1 - $5 AND not_after < $4 - $5
                     AND key_purpose NOT IN ('service', 'tls', 'login')) AS c
             WHERE NOT EXISTS (SELECT 1 FROM certificates o
                               WHERE o.aid = c.aid AND o.state <> 'revoked' AND o.not_after >= $4 - $5)
             GROUP BY c.aid HAVING MAX(c.ended_at) > $1 OR c.aid > $2
             ORDER BY MAX(c.ended_at), c.aid LIMIT $3",
        )
        .bind(since)
        .bind(aid)
        .bind(limit)
        .bind(now)
        .bind(GRACE_SECONDS)
        .fetch_all(self.db.read())
        .await
    }

    /// A service has removed what it kept for all agents that ended before this second. It goes back where the service was restored
    /// from a backup: then what it had removed is there again.
    pub async fn removed_until(&self, service: &str, second: i64) -> sqlx::Result<()> {
        let known: Option<i64> =
            sqlx::query_scalar("SELECT done_until FROM agent_removal_progress WHERE service = $1")
                .bind(service)
                .fetch_optional(self.db.read())
                .await?;
        if known == Some(second) {
            return Ok(());
        }
        let stored = sqlx::query(
            "INSERT INTO agent_removal_progress (service, done_until) VALUES ($1, $2)
             ON CONFLICT (service) DO UPDATE SET done_until = excluded.done_until",
        )
        .bind(service)
        .bind(second)
        .execute(self.db.write_alone());
        self.db.counted(stored).await.map(drop)
    }
}

/// Whether a name whose certificate is to be replaced because it lapsed is free: each of its certificates lapsed, and no service
/// keeps anything for its last holder.
pub(super) async fn is_free(
    tx: &mut Transaction<'static, Any>,
    claim: &NewCertificate,
) -> sqlx::Result<bool> {
    let last_end: i64 = sqlx::query_scalar(
        "SELECT CAST(COALESCE(MAX(not_after), 0) AS BIGINT) FROM certificates WHERE aid = $1 AND state <> 'revoked'",
    )
    .bind(claim.row.aid.as_str())
    .fetch_one(&mut **tx)
    .await?;
    let lapsed_at = last_end + GRACE_SECONDS;
    if lapsed_at >= claim.issued_at / 1000 {
        return Ok(false);
    }
    let behind: Option<i64> =
        sqlx::query_scalar("SELECT done_until FROM agent_removal_progress WHERE done_until < $1 LIMIT 1")
            .bind(lapsed_at + UNHELD_SECONDS)
            .fetch_optional(&mut **tx)
            .await?;
    Ok(behind.is_none())
}
