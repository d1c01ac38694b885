//! Conversations that are removed.

use super::THREAD_READ;
use crate::model::thread::ThreadRow;
use crate::store::Store;
use kernel::Aid;
use sqlx::{Any, AssertSqlSafe};

impl Store {
    /// Some conversations of an agent.
    pub async fn threads_of(&self, aid: &str, limit: i64) -> sqlx::Result<Vec<ThreadRow>> {
        let text = format!("SELECT {THREAD_READ} FROM agui_thread WHERE aid = $1 LIMIT $2");
        let query = sqlx::query_as::<Any, _>(AssertSqlSafe(text)).bind(aid).bind(limit);
        query.fetch_all(self.db.read()).await
    }

    /// Conversations that were changed before a time.
    pub async fn threads_before(&self, before: i64, limit: i64) -> sqlx::Result<Vec<ThreadRow>> {
        let text = format!(
            "SELECT {THREAD_READ} FROM agui_thread WHERE updated_at < $1 ORDER BY updated_at LIMIT $2"
        );
        let query = sqlx::query_as::<Any, _>(AssertSqlSafe(text)).bind(before).bind(limit);
        query.fetch_all(self.db.read()).await
    }

    /// A conversation with everything that was said in it. On PostgreSQL the account of its agent is taken first, as a commit does it.
    pub async fn remove_thread(&self, thread: &ThreadRow) -> sqlx::Result<()> {
        let mut tx = self.db.begin().await?;
        if let Ok(aid) = Aid::parse(&thread.aid) {
            self.account.before(&mut tx, self.account.payer_of(aid)).await?;
        }
        for (table, column) in
            [("agui_message", "thread_id"), ("agui_run", "thread_id"), ("agui_thread", "id")]
        {
            let text = format!("DELETE FROM {table} WHERE {column} = $1");
            sqlx::query::<Any>(AssertSqlSafe(text)).bind(thread.id.clone()).execute(&mut *tx).await?;
        }
        self.db.commit(tx).await
    }

    /// Its storage is removed as that of one whose time is over.
    pub async fn expire_session(&self, id: &str, now: i64) -> sqlx::Result<()> {
        let query = sqlx::query("UPDATE run_session SET expires_at = $2 WHERE id = $1 AND expires_at > $2");
        self.db.counted(query.bind(id).bind(now).execute(self.db.write_alone())).await?;
        Ok(())
    }

    pub async fn remove_time_zone(&self, aid: &str) -> sqlx::Result<()> {
        let query = sqlx::query("DELETE FROM agui_profile WHERE aid = $1").bind(aid);
        self.db.counted(query.execute(self.db.write_alone())).await?;
        Ok(())
    }
}
