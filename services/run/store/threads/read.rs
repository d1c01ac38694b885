//! Conversations of front ends, as they are read.

use super::THREAD_READ;
use crate::error::Error;
use crate::ids::can_exist;
use crate::model::thread::ThreadRow;
use crate::store::Store;
use kernel::CallingAgent;
use sqlx::{Any, AssertSqlSafe};

/// A run as its front end knows it, without its input.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct PartView {
    pub id: String,
    pub task_id: String,
    pub run_id: String,
    pub base: i64,
    pub input_hash: String,
    pub parent_id: Option<String>,
    pub has_protocol: i64,
    pub answers: String,
    pub starts_at: Option<i64>,
    pub ends_at: Option<i64>,
    pub ended_at: Option<i64>,
}

const PART_READ: &str = "id, task_id, run_id, base, input_hash, parent_id, has_protocol, answers, starts_at, \
     ends_at, ended_at";

/// An event, as frames are made of it.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct LogRow {
    pub seq: i64,
    pub kind: String,
    pub command_id: Option<String>,
    pub payload: String,
}

/// A message that is shown.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct MessageView {
    pub seq: i64,
    pub id: String,
    pub role: String,
    pub content: String,
    pub attachments: Option<String>,
    pub ui_schema: Option<String>,
    pub created_at: i64,
}

impl Store {
    pub async fn thread(&self, id: &str) -> sqlx::Result<Option<ThreadRow>> {
        if !can_exist(id) {
            return Ok(None);
        }
        let text = format!("SELECT {THREAD_READ} FROM agui_thread WHERE id = $1");
        sqlx::query_as::<Any, _>(AssertSqlSafe(text)).bind(id).fetch_optional(self.db.read()).await
    }

    /// The conversation of an agent that was changed last.
    pub async fn newest_thread(&self, aid: &str) -> sqlx::Result<Option<ThreadRow>> {
        let text = format!(
            "SELECT {THREAD_READ} FROM agui_thread WHERE aid = $1 ORDER BY updated_at DESC, id DESC LIMIT 1"
        );
        sqlx::query_as::<Any, _>(AssertSqlSafe(text)).bind(aid).fetch_optional(self.db.read()).await
    }

    /// How many conversations an agent has; it is not counted further than this.
    pub async fn count_threads(&self, aid: &str, most: i64) -> sqlx::Result<i64> {
        let text = "SELECT COUNT(*) FROM (SELECT id FROM agui_thread WHERE aid = $1 LIMIT $2) AS threads";
        sqlx::query_scalar(text).bind(aid).bind(most).fetch_one(self.db.read()).await
    }

    pub async fn part(&self, thread_id: &str, id: &str) -> sqlx::Result<Option<PartView>> {
        if !can_exist(thread_id) || !can_exist(id) {
            return Ok(None);
        }
        let text = format!("SELECT {PART_READ} FROM agui_run WHERE thread_id = $1 AND id = $2");
        let query = sqlx::query_as::<Any, _>(AssertSqlSafe(text)).bind(thread_id).bind(id);
        query.fetch_optional(self.db.read()).await
    }

    /// The parts of a turn, in their order.
    pub async fn parts_of_task(&self, task_id: &str) -> sqlx::Result<Vec<PartView>> {
        let text = format!("SELECT {PART_READ} FROM agui_run WHERE task_id = $1 ORDER BY position");
        sqlx::query_as::<Any, _>(AssertSqlSafe(text)).bind(task_id).fetch_all(self.db.read()).await
    }

    /// The first run of a conversation that has not ended.
    pub async fn open_part(&self, thread_id: &str) -> sqlx::Result<Option<PartView>> {
        let text = format!(
            "SELECT {PART_READ} FROM agui_run WHERE thread_id = $1 AND ended_at IS NULL ORDER BY position LIMIT 1"
        );
        sqlx::query_as::<Any, _>(AssertSqlSafe(text)).bind(thread_id).fetch_optional(self.db.read()).await
    }

    /// The first run of a conversation that has not ended before the event with this number in the frames of the conversation.
    pub async fn part_at(&self, thread_id: &str, seq: i64) -> sqlx::Result<Option<PartView>> {
        let text = format!(
            "SELECT {PART_READ} FROM agui_run
             WHERE thread_id = $1 AND starts_at IS NOT NULL AND (ends_at IS NULL OR base + ends_at >= $2)
             ORDER BY base + starts_at LIMIT 1"
        );
        let query = sqlx::query_as::<Any, _>(AssertSqlSafe(text)).bind(thread_id).bind(seq);
        query.fetch_optional(self.db.read()).await
    }

    /// Runs for which somebody has to see that a runner works on them: the first open turn of each conversation that no runner has.
    pub async fn waiting_parts(&self, now: i64, limit: i64) -> sqlx::Result<Vec<PartView>> {
        let columns = PART_READ.split(", ").map(|name| format!("agui_run.{}", name.trim()));
        let text = format!(
            "SELECT {} FROM agui_run JOIN run ON run.id = agui_run.run_id
             WHERE agui_run.ended_at IS NULL AND run.ended_at IS NULL
                 AND (run.lease_runner IS NULL OR run.lease_released = 1 OR run.lease_until < $1)
             ORDER BY agui_run.created_at LIMIT $2",
            columns.collect::<Vec<_>>().join(", ")
        );
        let query = sqlx::query_as::<Any, _>(AssertSqlSafe(text)).bind(now).bind(limit);
        query.fetch_all(self.db.read()).await
    }

    /// The events of a run after a seq, at most so many, and so many bytes unless the first alone has more.
    pub async fn events_after(
        &self,
        run_id: &str,
        after: i64,
        (most, most_bytes): (i64, i64),
    ) -> sqlx::Result<Vec<LogRow>> {
        sqlx::query_as::<Any, _>(
            "SELECT seq, kind, command_id, payload FROM (
                 SELECT seq, kind, command_id, payload,
                     SUM(CAST(octet_length(payload) AS BIGINT)) OVER (ORDER BY seq) - octet_length(payload) AS before
                 FROM run_event WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT $3) AS page
             WHERE before < $4 ORDER BY seq",
        )
        .bind(run_id)
        .bind(after)
        .bind(most)
        .bind(most_bytes)
        .fetch_all(self.db.read())
        .await
    }

    /// The number of the last event of a turn of a conversation, in its frames.
    pub async fn end_of_frames(&self, thread_id: &str) -> sqlx::Result<Option<i64>> {
        let text = "SELECT MAX(base + ends_at) FROM agui_run WHERE thread_id = $1";
        sqlx::query_scalar(text).bind(thread_id).fetch_one(self.db.read()).await
    }

    /// How many sessions with storage a tenant has.
    pub async fn sessions_held(&self, tenant: &str) -> sqlx::Result<i64> {
        let text = "SELECT COUNT(*) FROM run_session WHERE tenant = $1 AND storage_kind = 'pvc'";
        sqlx::query_scalar(text).bind(tenant).fetch_one(self.db.read()).await
    }

    /// When the newest message was stored that is shown, before a time.
    pub async fn newest_message(&self, thread_id: &str, before: i64) -> sqlx::Result<Option<i64>> {
        sqlx::query_scalar(
            "SELECT MAX(created_at) FROM agui_message WHERE thread_id = $1 AND shown = 1 AND created_at < $2",
        )
        .bind(thread_id)
        .bind(before)
        .fetch_one(self.db.read())
        .await
    }

    /// What is shown of a time.
    pub async fn messages_of(
        &self,
        thread_id: &str,
        (from, to): (i64, i64),
        limit: i64,
    ) -> sqlx::Result<Vec<MessageView>> {
        sqlx::query_as::<Any, _>(
            "SELECT seq, id, role, content, attachments, ui_schema, created_at FROM agui_message
             WHERE thread_id = $1 AND shown = 1 AND created_at >= $2 AND created_at < $3 ORDER BY seq LIMIT $4",
        )
        .bind(thread_id)
        .bind(from)
        .bind(to)
        .bind(limit)
        .fetch_all(self.db.read())
        .await
    }

    /// Whether a user has said this in a conversation.
    pub async fn knows_message(&self, thread_id: &str, id: &str) -> sqlx::Result<bool> {
        let found: Option<i64> = sqlx::query_scalar(
            "SELECT seq FROM agui_message WHERE thread_id = $1 AND id = $2 AND role = 'user' LIMIT 1",
        )
        .bind(thread_id)
        .bind(id)
        .fetch_optional(self.db.read())
        .await?;
        Ok(found.is_some())
    }

    pub async fn time_zone(&self, aid: &str) -> sqlx::Result<Option<String>> {
        let zone = sqlx::query_scalar("SELECT timezone FROM agui_profile WHERE aid = $1");
        zone.bind(aid).fetch_optional(self.db.read()).await
    }

    pub async fn set_time_zone(
        &self,
        agent: &CallingAgent,
        zone: Option<&str>,
        now: i64,
    ) -> Result<(), Error> {
        let aid = agent.aid.as_str();
        let Some(zone) = zone else {
            let remove = sqlx::query("DELETE FROM agui_profile WHERE aid = $1").bind(aid);
            self.db.counted(remove.execute(self.db.write_alone())).await?;
            return Ok(());
        };
        let mut tx = self.db.begin().await?;
        let charge = self.account.before(&mut tx, self.account.payer(agent)).await?;
        sqlx::query(
            "INSERT INTO agui_profile (aid, timezone, updated_at) VALUES ($1, $2, $3)
             ON CONFLICT (aid) DO UPDATE SET timezone = excluded.timezone, updated_at = excluded.updated_at",
        )
        .bind(aid)
        .bind(zone)
        .bind(now)
        .execute(&mut *tx)
        .await?;
        self.account.charge(&mut tx, charge).await?;
        Ok(self.db.commit(tx).await?)
    }
}
