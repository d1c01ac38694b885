//! Messages that webhooks did not accept, and which agents get theirs by webhook.

use super::Store;
use super::agents::WriteTx;
use kernel::json_rows;
use sqlx::{Any, AssertSqlSafe};

/// How often a message was sent to a webhook without being accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct MessageAttempts {
    pub seq: i64,
    pub attempts: i64,
    /// How often the webhook answered, if not with 2xx, and when it did so first.
    pub answers: i64,
    pub first_answer_at: Option<i64>,
}

/// An agent that gets its messages by webhook.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct WebhookAgent {
    pub aid: String,
    pub owner: String,
}

impl Store {
    pub async fn message_attempts(&self, aid: &str) -> sqlx::Result<Option<MessageAttempts>> {
        sqlx::query_as::<Any, MessageAttempts>(
            "SELECT seq, attempts, answers, first_answer_at FROM message_attempt WHERE aid = $1",
        )
        .bind(aid)
        .fetch_optional(self.db.read())
        .await
    }

    pub async fn set_message_attempts(&self, aid: &str, made: &MessageAttempts) -> sqlx::Result<()> {
        let write = sqlx::query(
            "INSERT INTO message_attempt (aid, seq, attempts, answers, first_answer_at) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (aid) DO UPDATE SET seq = excluded.seq, attempts = excluded.attempts, answers = excluded.answers,
                 first_answer_at = excluded.first_answer_at",
        );
        let write = write
            .bind(aid)
            .bind(made.seq)
            .bind(made.attempts)
            .bind(made.answers)
            .bind(made.first_answer_at)
            .execute(self.db.write_alone());
        self.db.counted(write).await?;
        Ok(())
    }

    pub async fn remove_message_attempts(&self, aid: &str) -> sqlx::Result<()> {
        let write = sqlx::query("DELETE FROM message_attempt WHERE aid = $1");
        self.db.counted(write.bind(aid).execute(self.db.write_alone())).await?;
        Ok(())
    }

    /// Those of these AIDs that get their messages by webhook, in an order in which two processes never wait for each other.
    pub async fn webhook_agents(&self, aids: &[&str]) -> sqlx::Result<Vec<WebhookAgent>> {
        let given = json_rows::texts(self.db.engine(), 1);
        let text = format!(
            "SELECT aid, owner FROM agent
             WHERE aid IN {given} AND webhook_agreed IS NOT NULL AND connection_mode = 'webhook' ORDER BY aid"
        );
        sqlx::query_as::<Any, WebhookAgent>(AssertSqlSafe(text))
            .bind(json_rows::text(&aids)?)
            .fetch_all(self.db.read())
            .await
    }

    /// The agents after an AID that get their messages by webhook.
    pub async fn webhook_agents_after(&self, aid: &str, limit: usize) -> sqlx::Result<Vec<WebhookAgent>> {
        sqlx::query_as::<Any, WebhookAgent>(
            "SELECT aid, owner FROM agent
             WHERE webhook_agreed IS NOT NULL AND connection_mode = 'webhook' AND aid > $1 ORDER BY aid LIMIT $2",
        )
        .bind(aid)
        .bind(limit as i64)
        .fetch_all(self.db.read())
        .await
    }
}

/// A new URL begins anew.
pub(crate) async fn forget_attempts(tx: &mut WriteTx, aid: &str) -> sqlx::Result<()> {
    sqlx::query("DELETE FROM message_attempt WHERE aid = $1").bind(aid).execute(&mut **tx).await?;
    Ok(())
}

/// The number of a change of which agents have a device for their webhook.
pub(crate) async fn next_webhook_change(tx: &mut WriteTx) -> sqlx::Result<i64> {
    sqlx::query_scalar(
        "UPDATE agent_state SET value = value + 1 WHERE name = 'webhook_change' RETURNING value",
    )
    .fetch_one(&mut **tx)
    .await
}
