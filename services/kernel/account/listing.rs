//! What operators and agents see of the accounts, and what operators change.

use super::payer::{DOMAIN, TENANT};
use super::{Account, Kept, ShareLimits};
use crate::{Aid, RpcError};
use proto_schemas::requests::meta::{KeptAccount, ServiceAccounts};

/// How many accounts are listed.
const MOST_LISTED: i64 = 20;

/// Whose account is asked for, and what is to be changed first.
#[derive(Clone, Debug, Default)]
pub struct AccountChange {
    /// Those for whom most is kept, if nobody is named.
    pub aid: Option<Aid>,
    pub bytes: Option<i64>,
    pub rows: Option<i64>,
    pub recount: bool,
}

impl AccountChange {
    /// Whose limits are to be changed, if anybody's are.
    pub fn limited(&self) -> Result<Option<&Aid>, RpcError> {
        for (member, number) in [("bytes", self.bytes), ("rows", self.rows)] {
            if number.is_some_and(|number| number < 0) {
                return Err(RpcError::invalid_member(member, "must not be below 0"));
            }
        }
        match (&self.aid, self.bytes.is_some() || self.rows.is_some()) {
            (_, false) => Ok(None),
            (Some(aid), true) => Ok(Some(aid)),
            (None, true) => {
                Err(RpcError::invalid_member("aid", "aid is required: a limit applies to one agent"))
            }
        }
    }
}

impl ShareLimits {
    /// An account as it is shown, with what it may keep instead of a share of the settings.
    pub fn shown(&self, payer: String, kept: Kept, given: Option<Kept>) -> KeptAccount {
        let limit = match payer.starts_with(DOMAIN) {
            true => self.share.times(self.settings.domain_shares),
            false => given.unwrap_or(self.share),
        };
        let Kept { bytes, rows } = kept;
        KeptAccount { payer, bytes, rows, bytes_limit: limit.bytes, rows_limit: limit.rows }
    }
}

impl Account {
    /// What is kept for an agent, or for those for whom most is kept; after the change that is asked for, if there is one.
    pub async fn list(&self, wanted: AccountChange) -> Result<ServiceAccounts, RpcError> {
        let limited = wanted.limited()?;
        let corrected = match wanted.recount {
            true => Some(self.0.counting.recount(&self.0.db).await?),
            false => None,
        };
        if let Some(aid) = limited {
            self.0.changed.set(aid, self.0.limits.share, wanted.bytes, wanted.rows).await?;
        }
        let accounts = match &wanted.aid {
            Some(aid) => vec![self.one(aid).await?],
            None => self.largest().await?,
        };
        Ok(ServiceAccounts { accounts, corrected })
    }

    async fn one(&self, aid: &Aid) -> sqlx::Result<KeptAccount> {
        let kept: Option<(i64, i64)> =
            sqlx::query_as("SELECT bytes, kept_rows FROM account WHERE payer = $1")
                .bind(aid.as_str())
                .fetch_optional(self.0.db.read())
                .await?;
        let (bytes, rows) = kept.unwrap_or_default();
        Ok(self.shown(aid.to_string(), Kept { bytes, rows }))
    }

    async fn largest(&self) -> sqlx::Result<Vec<KeptAccount>> {
        let rows: Vec<(String, i64, i64)> = sqlx::query_as(
            "SELECT payer, bytes, kept_rows FROM account WHERE counted_on IS NULL ORDER BY bytes DESC LIMIT $1",
        )
        .bind(MOST_LISTED)
        .fetch_all(self.0.db.read())
        .await?;
        Ok(rows.into_iter().map(|(payer, bytes, rows)| self.shown(payer, Kept { bytes, rows })).collect())
    }

    fn shown(&self, payer: String, kept: Kept) -> KeptAccount {
        let given = match payer.strip_prefix(TENANT) {
            Some(name) => Some(self.0.tenants.read().of(name)),
            None => self.0.changed.of(&payer),
        };
        self.0.limits.shown(payer, kept, given)
    }
}
