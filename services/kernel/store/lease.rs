//! Leases: the right to work on a row, which one process has for a while.
//!
//! The row is one of the service's own table, whose columns `fence` and `leased_until` are written here and nowhere else. A
//! lease that is not renewed runs out, and another process takes the row. Each lease of a row has the next fence, and every
//! change that the holder makes begins with [`Leases::renew`] in the same transaction: it locks the row until the commit, so a
//! process whose lease ran out either commits before another one takes the row, or changes nothing.

use crate::{Db, Engine};
use parking_lot::Mutex;
use sqlx::{AnyConnection, AssertSqlSafe};
use std::collections::HashMap;

/// The leases of the rows of one table.
pub struct Leases {
    db: Db,
    table: String,
    /// The column that names a row.
    column: &'static str,
    term_ms: i64,
    /// The fences of those that this process has, by their rows.
    held: Mutex<HashMap<String, i64>>,
}

/// That this process may work on a row until another one has taken it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    row: String,
    fence: i64,
}

impl Lease {
    /// The name of the row.
    pub fn row(&self) -> &str {
        &self.row
    }
}

impl Leases {
    /// A lease runs out `term_ms` after it was taken or renewed. Table and column are part of the SQL text.
    pub fn new(db: &Db, table: &str, column: &'static str, term_ms: i64) -> Leases {
        Leases { db: db.clone(), table: table.to_owned(), column, term_ms, held: Mutex::default() }
    }

    pub fn term_ms(&self) -> i64 {
        self.term_ms
    }

    /// On SQLite, when the service is opened: there is no other process, so every lease is left from before this one started.
    pub async fn end_left_over(&self) -> sqlx::Result<()> {
        if self.db.engine() == Engine::Sqlite {
            let text = format!("UPDATE {} SET leased_until = 0 WHERE leased_until > 0", self.table);
            sqlx::query(AssertSqlSafe(text)).execute(self.db.write_alone()).await?;
        }
        Ok(())
    }

    /// `None` if another process has the lease, or if there is no such row.
    pub async fn take(&self, row: &str, now: i64) -> sqlx::Result<Option<Lease>> {
        let text = format!(
            "UPDATE {} SET fence = fence + 1, leased_until = $2 WHERE {} = $1 AND leased_until <= $3 RETURNING fence",
            self.table, self.column
        );
        let take = sqlx::query_scalar(AssertSqlSafe(text))
            .bind(row)
            .bind(now + self.term_ms)
            .bind(now)
            .fetch_optional(self.db.write_alone());
        let fence: Option<i64> = self.db.counted(take).await?;
        Ok(fence.map(|fence| {
            self.held.lock().insert(row.to_owned(), fence);
            Lease { row: row.to_owned(), fence }
        }))
    }

    /// Begins a change by the holder. False: another process has the lease by now, and nothing may be changed.
    pub async fn renew(&self, tx: &mut AnyConnection, lease: &Lease, now: i64) -> sqlx::Result<bool> {
        self.set_until(tx, lease, now + self.term_ms).await
    }

    /// Begins the last change by the holder: the lease ends with its commit. False as for [`Leases::renew`].
    pub async fn end(&self, tx: &mut AnyConnection, lease: &Lease) -> sqlx::Result<bool> {
        self.forget(lease);
        self.set_until(tx, lease, 0).await
    }

    /// Gives a lease back without a change, so that another process need not wait until it runs out.
    pub async fn release(&self, lease: &Lease) -> sqlx::Result<()> {
        let mut connection = self.db.write_alone().acquire().await?;
        self.db.counted(self.end(&mut connection, lease)).await?;
        Ok(())
    }

    /// Gives back everything that this process has: it stops.
    pub async fn release_all(&self) {
        let held: Vec<(String, i64)> = self.held.lock().drain().collect();
        for (row, fence) in held {
            if let Err(error) = self.release(&Lease { row: row.clone(), fence }).await {
                tracing::debug!("other processes wait until the lease for {row} runs out: {error}");
            }
        }
    }

    fn forget(&self, lease: &Lease) {
        let mut held = self.held.lock();
        if held.get(&lease.row) == Some(&lease.fence) {
            held.remove(&lease.row);
        }
    }

    async fn set_until(&self, tx: &mut AnyConnection, lease: &Lease, until: i64) -> sqlx::Result<bool> {
        let text =
            format!("UPDATE {} SET leased_until = $3 WHERE {} = $1 AND fence = $2", self.table, self.column);
        let held = sqlx::query(AssertSqlSafe(text))
            .bind(lease.row.as_str())
            .bind(lease.fence)
            .bind(until)
            .execute(tx)
            .await?;
        Ok(held.rows_affected() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::test_tables::TestTables;
    use std::sync::Arc;

    const TERM_MS: i64 = 1000;

    /// A table of one row.
    async fn fixture() -> TestTables {
        TestTables::open(
            "CREATE TABLE job (name TEXT PRIMARY KEY, fence BIGINT NOT NULL DEFAULT 0,
                 leased_until BIGINT NOT NULL DEFAULT 0, value BIGINT NOT NULL DEFAULT 0);
             INSERT INTO job (name) VALUES ('a')",
        )
        .await
    }

    fn process(fixture: &TestTables) -> Leases {
        Leases::new(&fixture.db, "job", "name", TERM_MS)
    }

    /// Changes the row as a holder does; false if it is not one any more.
    async fn change(fixture: &TestTables, leases: &Leases, lease: &Lease, value: i64, now: i64) -> bool {
        let mut tx = fixture.db.write().await.unwrap();
        if !leases.renew(&mut tx, lease, now).await.unwrap() {
            return false;
        }
        sqlx::query("UPDATE job SET value = $1").bind(value).execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
        true
    }

    async fn value(fixture: &TestTables) -> i64 {
        sqlx::query_scalar("SELECT value FROM job").fetch_one(fixture.db.read()).await.unwrap()
    }

    #[tokio::test]
    async fn one_process_has_a_row_until_its_lease_runs_out_and_then_changes_nothing_more() {
        let fixture = fixture().await;
        let (one, two) = (process(&fixture), process(&fixture));
        let first = one.take("a", 0).await.unwrap().unwrap();
        assert_eq!(two.take("a", TERM_MS - 1).await.unwrap(), None);
        assert!(change(&fixture, &one, &first, 1, 500).await);
        assert_eq!(two.take("a", TERM_MS + 499).await.unwrap(), None, "it was renewed");
        let second = two.take("a", TERM_MS + 500).await.unwrap().unwrap();
        assert!(!change(&fixture, &one, &first, 2, TERM_MS + 500).await);
        assert_eq!(value(&fixture).await, 1);
        one.release(&first).await.unwrap();
        assert!(change(&fixture, &two, &second, 3, TERM_MS + 500).await, "an old lease ends no newer one");
        assert_eq!(one.take("b", 0).await.unwrap(), None, "there is no such row");
    }

    #[tokio::test]
    async fn a_lease_that_is_given_back_is_taken_at_once() {
        let fixture = fixture().await;
        let (one, two) = (process(&fixture), process(&fixture));
        let first = one.take("a", 0).await.unwrap().unwrap();
        one.release(&first).await.unwrap();
        two.take("a", 0).await.unwrap().unwrap();
        assert_eq!(one.take("a", 0).await.unwrap(), None);
        one.release_all().await;
        assert_eq!(one.take("a", 0).await.unwrap(), None, "it is the other's");
        two.release_all().await;
        let last = one.take("a", 0).await.unwrap().unwrap();
        let mut tx = fixture.db.write().await.unwrap();
        assert!(one.end(&mut tx, &last).await.unwrap());
        tx.commit().await.unwrap();
        assert!(two.take("a", 0).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn what_is_left_from_before_the_start_ends_where_there_is_one_process() {
        let fixture = fixture().await;
        process(&fixture).take("a", 0).await.unwrap().unwrap();
        let next = process(&fixture);
        next.end_left_over().await.unwrap();
        let taken = next.take("a", 0).await.unwrap();
        assert_eq!(taken.is_some(), fixture.db.engine() == Engine::Sqlite);
    }

    #[tokio::test]
    async fn of_many_that_ask_at_once_one_gets_it() {
        let fixture = Arc::new(fixture().await);
        let mut asking = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let fixture = fixture.clone();
            asking.spawn(async move { process(&fixture).take("a", 0).await.unwrap().is_some() });
        }
        let taken = asking.join_all().await;
        assert_eq!(taken.into_iter().filter(|taken| *taken).count(), 1);
    }
}
