//! A service tells the others for whom it keeps much, and reads what the operator has changed.

use super::Account;
use crate::Aid;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(5);
/// Of how many agents it tells at a time, those for whom it keeps most.
const MOST_TOLD: i64 = 1000;

impl Account {
    /// Runs until the server stops.
    pub(super) async fn tell_others(&self) {
        loop {
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
