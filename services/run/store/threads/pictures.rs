//! Pictures of messages, without their bytes.

use crate::error::Error;
use crate::store::Store;
use kernel::CallingAgent;
use sqlx::{Any, AssertSqlSafe};

impl Store {
    pub async fn insert_picture(
        &self,
        agent: &CallingAgent,
        path: &str,
        mime_type: &str,
        bytes: i64,
        now: i64,
    ) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        let charge = self.account.before(&mut tx, self.account.payer(agent)).await?;
        sqlx::query(
            "INSERT INTO agui_attachment (path, aid, mime_type, stored_rows, stored_bytes, created_at)
             VALUES ($1, $2, $3, 0, $4, $5)",
        )
        .bind(path)
        .bind(agent.aid.as_str())
        .bind(mime_type)
        .bind(bytes)
        .bind(now)
        .execute(&mut *tx)
        .await?;
        self.account.charge(&mut tx, charge).await?;
        Ok(self.db.commit(tx).await?)
    }

    pub async fn remove_picture(&self, path: &str) -> sqlx::Result<()> {
        let remove = sqlx::query("DELETE FROM agui_attachment WHERE path = $1").bind(path);
        self.db.counted(remove.execute(self.db.write_alone())).await?;
        Ok(())
    }

    /// Whether all of these are pictures of an agent.
    pub async fn has_pictures(&self, aid: &str, paths: &[String]) -> sqlx::Result<bool> {
        for path in paths {
            let found: Option<i64> =
                sqlx::query_scalar("SELECT stored_bytes FROM agui_attachment WHERE path = $1 AND aid = $2")
                    .bind(path.as_str())
                    .bind(aid)
                    .fetch_optional(self.db.read())
                    .await?;
            if found.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a turn of a run has said that it uses a picture.
    pub async fn is_picture_of_run(&self, path: &str, run_id: &str) -> sqlx::Result<bool> {
        let found: Option<i64> = sqlx::query_scalar(
            "SELECT p.created_at FROM agui_run AS p JOIN agui_message AS m ON m.task_id = p.task_id
             WHERE p.run_id = $1 AND m.role = 'user' AND m.attachments LIKE $2 LIMIT 1",
        )
        .bind(run_id)
        .bind(format!("%\"{path}\"%"))
        .fetch_optional(self.db.read())
        .await?;
        Ok(found.is_some())
    }

    pub async fn pictures_since(&self, aid: &str, since: i64) -> sqlx::Result<i64> {
        let text = "SELECT COUNT(*) FROM agui_attachment WHERE aid = $1 AND created_at > $2";
        sqlx::query_scalar(text).bind(aid).bind(since).fetch_one(self.db.read()).await
    }

    /// Pictures that no message has used, from before a time.
    pub async fn unused_pictures(&self, before: i64, limit: i64) -> sqlx::Result<Vec<String>> {
        let text = "SELECT path FROM agui_attachment WHERE task_id IS NULL AND created_at < $1 LIMIT $2";
        sqlx::query_scalar::<Any, String>(AssertSqlSafe(text))
            .bind(before)
            .bind(limit)
            .fetch_all(self.db.read())
            .await
    }

    /// Some pictures of an agent.
    pub async fn pictures_of(&self, aid: &str, limit: i64) -> sqlx::Result<Vec<String>> {
        let text = "SELECT path FROM agui_attachment WHERE aid = $1 LIMIT $2";
        sqlx::query_scalar::<Any, String>(AssertSqlSafe(text))
            .bind(aid)
            .bind(limit)
            .fetch_all(self.db.read())
            .await
    }

    /// The secret with which URLs are signed: this one, unless there is one.
    pub async fn picture_secret(&self, new: &str) -> sqlx::Result<String> {
        let insert =
            sqlx::query("INSERT INTO agui_key (id, value) VALUES (1, $1) ON CONFLICT (id) DO NOTHING");
        self.db.counted(insert.bind(new).execute(self.db.write_alone())).await?;
        sqlx::query_scalar("SELECT value FROM agui_key WHERE id = 1").fetch_one(self.db.read()).await
    }

    /// The pictures that the messages of a conversation use.
    pub async fn pictures_of_thread(&self, thread_id: &str) -> sqlx::Result<Vec<String>> {
        let text = "SELECT path FROM agui_attachment WHERE task_id IN
                        (SELECT task_id FROM agui_run WHERE thread_id = $1)";
        sqlx::query_scalar::<Any, String>(AssertSqlSafe(text)).bind(thread_id).fetch_all(self.db.read()).await
    }
}
