//! What operators and agents see of the counts, and what operators change.

use super::limits::QuotaSide;
use super::{Kept, Quotas};
use kernel::{AccountChange, RpcError};
use proto_schemas::requests::meta::KeptAccount;

/// How many accounts are listed.
const MOST_LISTED: i64 = 20;

impl Quotas {
    /// What is stored of what an agent sent, or of those who sent most; after the change that is asked for, if there is one.
    pub async fn list(&self, wanted: AccountChange, now: i64) -> Result<Vec<KeptAccount>, RpcError> {
        if let Some(aid) = wanted.limited()? {
            self.changed.set(aid, self.limits.sender.share, wanted.bytes, wanted.rows).await?;
        }
        match &wanted.aid {
            Some(aid) => {
                let name: Box<str> = aid.as_str().into();
                let stored = self.totals(QuotaSide::Sender, &[(name, Kept::default())], now).await?;
                let stored = stored.get(aid.as_str()).copied().unwrap_or_default();
                Ok(vec![self.shown(aid.to_string(), stored)])
            }
            None => self.largest(now).await,
        }
    }

    async fn largest(&self, now: i64) -> Result<Vec<KeptAccount>, RpcError> {
        let rows: Vec<(String, i64, i64)> = sqlx::query_as(
            "SELECT aid, CAST(SUM(bytes) AS BIGINT), CAST(SUM(kept_rows) AS BIGINT) FROM stored_bytes
             WHERE kind = $1 AND bucket > $2 GROUP BY aid ORDER BY SUM(bytes) DESC LIMIT $3",
        )
        .bind(QuotaSide::Sender.name())
        .bind(self.oldest(QuotaSide::Sender, now))
        .bind(MOST_LISTED)
        .fetch_all(self.db.read())
        .await?;
        Ok(rows.into_iter().map(|(aid, bytes, rows)| self.shown(aid, Kept { bytes, rows })).collect())
    }

    /// With what is not in the table yet.
    fn shown(&self, aid: String, stored: Kept) -> KeptAccount {
        let counted = self.counted.lock();
        let pending = counted.side(QuotaSide::Sender).get(aid.as_str()).map(|account| account.pending);
        drop(counted);
        let given = self.changed.of(&aid);
        self.limits.sender.shown(aid, stored.plus(pending.unwrap_or_default()), given)
    }
}
