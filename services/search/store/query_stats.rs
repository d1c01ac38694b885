//! What was asked often, without a word on who asked.

use super::Store;

/// The most different queries that are remembered of one day.
const MOST_A_DAY: i64 = 10_000;

impl Store {
    /// Adds what agents asked on a day. A query that is new is left out where the day has enough.
    pub async fn add_queries(&self, day: i64, queries: &[(String, i64)]) -> sqlx::Result<()> {
        let mut tx = self.db.begin().await?;
        let mut known: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM query_stat WHERE day = $1")
            .bind(day)
            .fetch_one(&mut *tx)
            .await?;
        for (query, askers) in queries {
            let updated =
                sqlx::query("UPDATE query_stat SET askers = askers | $3 WHERE day = $1 AND query = $2")
                    .bind(day)
                    .bind(query.as_str())
                    .bind(askers)
                    .execute(&mut *tx)
                    .await?;
            if updated.rows_affected() > 0 || known >= MOST_A_DAY {
                continue;
            }
            known += 1;
            sqlx::query(
                "INSERT INTO query_stat (day, query, askers) VALUES ($1, $2, $3)
                 ON CONFLICT (day, query) DO UPDATE SET askers = query_stat.askers | excluded.askers",
            )
            .bind(day)
            .bind(query.as_str())
            .bind(askers)
            .execute(&mut *tx)
            .await?;
        }
        self.db.commit(tx).await
    }

    /// The queries of these days, with the bits of their askers.
    pub async fn queries(&self, from_day: i64) -> sqlx::Result<Vec<(String, i64)>> {
        sqlx::query_as("SELECT query, askers FROM query_stat WHERE day >= $1")
            .bind(from_day)
            .fetch_all(self.db.read())
            .await
    }

    pub async fn remove_queries(&self, before_day: i64) -> sqlx::Result<()> {
        let mut tx = self.db.begin().await?;
        sqlx::query("DELETE FROM query_stat WHERE day < $1").bind(before_day).execute(&mut *tx).await?;
        self.db.commit(tx).await
    }
}
