//! A service tells the others for whom it keeps much, and reads what the operator has changed.

use super::Account;
use crate::{Aid, Engine};
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(5);
/// After how many of these accounts are removed that keep nothing.
const EMPTY_EVERY: u32 = 12;
/// Of how many agents it tells at a time, those for whom it keeps most.
const MOST_TOLD: i64 = 1000;

impl Account {
    /// Runs until the server stops.
    pub(super) async fn tell_others(&self) {
        for turn in 1_u32.. {
            if turn.is_multiple_of(EMPTY_EVERY)
                && let Err(error) = self.remove_empty().await
            {
                tracing::warn!(
                    "{}: empty accounts could not be removed, will retry: {error}",
                    self.0.service
                );
            }
            if let Err(error) = self.tell_once().await {
                tracing::warn!(
                    "{}: storage totals of agents could not be published, will retry: {error}",
                    self.0.service
                );
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    async fn tell_once(&self) -> sqlx::Result<()> {
        self.0.changed.read().await?;
        self.remove_old_days().await?;
        let rows: Vec<(String, i64)> = sqlx::query_as(
            "SELECT payer, bytes FROM account WHERE bytes > 1048576 AND bytes >= $1 AND counted_on IS NULL
             ORDER BY bytes DESC LIMIT $2",
        )
        .bind(self.0.accounts.much())
        .bind(MOST_TOLD)
        .fetch_all(self.0.db.read())
        .await?;
        let largest: Option<i64> =
            sqlx::query_scalar("SELECT MAX(bytes) FROM account WHERE bytes > 1048576 AND counted_on IS NULL")
                .fetch_one(self.0.db.read())
                .await?;
        self.0.largest.set(largest.unwrap_or_default());
        let agents = rows.into_iter().filter_map(|(payer, bytes)| Some((Aid::parse(&payer).ok()?, bytes)));
        self.0.accounts.tell(self.0.service, agents.collect());
        Ok(())
    }

    /// Accounts that were taken for calls which stored nothing in the end. One that a transaction has taken is waited for.
    pub(super) async fn remove_empty(&self) -> sqlx::Result<()> {
        if self.0.db.engine() == Engine::Sqlite {
            return Ok(());
        }
        let query =
            sqlx::query("DELETE FROM account WHERE kept_rows = 0 AND bytes = 0 AND counted_on IS NULL");
        self.0.db.counted(query.execute(self.0.db.write_alone())).await.map(drop)
    }

    /// What new agents of a network stored on a day that counts no more.
    async fn remove_old_days(&self) -> sqlx::Result<()> {
        let today = self.today();
        let old: Option<i64> =
            sqlx::query_scalar("SELECT MIN(counted_on) FROM account WHERE counted_on IS NOT NULL")
                .fetch_one(self.0.db.read())
                .await?;
        if old.is_none_or(|old| old > today.day - today.days) {
            return Ok(());
        }
        let query = sqlx::query("DELETE FROM account WHERE counted_on <= $1");
        let gone = query.bind(today.day - today.days).execute(self.0.db.write_alone());
        self.0.db.counted(gone).await.map(drop)
    }
}
