//! Events and deliveries that were written with the change that caused them, and are sent afterwards.
//!
//! Several processes may send from one database: each takes rows for a while, and what a process did not finish in that time is taken
//! by another. So nothing is lost, and now and then something is sent twice.

use super::Store;
use super::agents::WriteTx;
use sqlx::Any;

/// How many deliveries of one agent are kept: those that wait, and those that ended.
pub(crate) const KEPT: i64 = 100;

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct EventRow {
    pub id: String,
    pub agent_id: String,
    pub event: String,
    pub payload: String,
    /// A JSON list of AIDs; none for the users of all active relations.
    pub targets: Option<String>,
    pub after_relation: String,
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct DeliveryRow {
    pub id: String,
    pub agent_id: String,
    pub kind: String,
    pub body: String,
    pub status: String,
    pub attempts: i64,
    pub next_at: i64,
    pub last_error: Option<String>,
    pub created_at: i64,
    pub ended_at: Option<i64>,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AttemptEnd {
    Delivered,
    /// Another one follows at this time.
    Again {
        at: i64,
        error: String,
    },
    /// It was the last one.
    Dead {
        error: String,
    },
}

impl Store {
    /// Takes the oldest event that nobody works on.
    pub async fn take_event(&self, now: i64, until: i64) -> sqlx::Result<Option<EventRow>> {
        let any: Option<String> =
            sqlx::query_scalar("SELECT id FROM agent_event WHERE leased_until <= $1 LIMIT 1")
                .bind(now)
                .fetch_optional(self.db.read())
                .await?;
        // Mostly there is none: only reading is no write.
        if any.is_none() {
            return Ok(None);
        }
        let taken = sqlx::query_as::<Any, EventRow>(
            "UPDATE agent_event SET leased_until = $2
             WHERE id = (SELECT id FROM agent_event WHERE leased_until <= $1 ORDER BY id LIMIT 1) AND leased_until <= $1
             RETURNING id, agent_id, event, payload, targets, after_relation",
        )
        .bind(now)
        .bind(until)
        .fetch_all(self.db.write_alone())
        .await?;
        Ok(taken.into_iter().next())
    }

    /// The users up to this relation were told.
    pub async fn event_progress(&self, id: &str, after_relation: &str, until: i64) -> sqlx::Result<()> {
        let write =
            sqlx::query("UPDATE agent_event SET after_relation = $2, leased_until = $3 WHERE id = $1")
                .bind(id)
                .bind(after_relation)
                .bind(until)
                .execute(self.db.write_alone());
        self.db.counted(write).await?;
        Ok(())
    }

    pub async fn event_done(&self, id: &str) -> sqlx::Result<()> {
        let write =
            sqlx::query("DELETE FROM agent_event WHERE id = $1").bind(id).execute(self.db.write_alone());
        self.db.counted(write).await?;
        Ok(())
    }

    /// Takes deliveries whose time has come: of each agent the oldest that waits, so that they come in order, and one agent that does
    /// not answer holds up itself only.
    pub async fn take_deliveries(&self, now: i64, until: i64, most: i64) -> sqlx::Result<Vec<DeliveryRow>> {
        let any: Option<String> = sqlx::query_scalar(
            "SELECT id FROM delivery WHERE status = 'waiting' AND next_at <= $1 AND leased_until <= $1 LIMIT 1",
        )
        .bind(now)
        .fetch_optional(self.db.read())
        .await?;
        if any.is_none() {
            return Ok(Vec::new());
        }
        sqlx::query_as::<Any, DeliveryRow>(
            "UPDATE delivery SET leased_until = $2
             WHERE leased_until <= $1 AND status = 'waiting' AND id IN (
                 SELECT due.id FROM delivery AS due
                 WHERE due.status = 'waiting' AND due.next_at <= $1 AND due.leased_until <= $1
                     AND NOT EXISTS (
                         SELECT 1 FROM delivery AS older
                         WHERE older.agent_id = due.agent_id AND older.status = 'waiting' AND older.id < due.id
                     )
                 ORDER BY due.next_at LIMIT $3
             )
             RETURNING id, agent_id, kind, body, status, attempts, next_at, last_error, created_at, ended_at",
        )
        .bind(now)
        .bind(until)
        .bind(most)
        .fetch_all(self.db.write_alone())
        .await
    }

    /// Stores how an attempt ended, and whether the agent can be reached.
    pub async fn end_attempt(&self, delivery: &DeliveryRow, end: &AttemptEnd, now: i64) -> sqlx::Result<()> {
        let (status, next_at, error, ended_at) = match end {
            AttemptEnd::Delivered => ("delivered", delivery.next_at, None, Some(now)),
            AttemptEnd::Again { at, error } => ("waiting", *at, Some(error.as_str()), None),
            AttemptEnd::Dead { error } => ("dead", delivery.next_at, Some(error.as_str()), Some(now)),
        };
        let mut tx = self.db.write().await?;
        // The agent first, as whoever changes an agent and its deliveries locks them.
        let unreachable = match end {
            AttemptEnd::Delivered => Some(0_i64),
            AttemptEnd::Dead { .. } => Some(1),
            AttemptEnd::Again { .. } => None,
        };
        if let Some(unreachable) = unreachable {
            sqlx::query(
                "UPDATE agent SET webhook_unreachable = $2 WHERE id = $1 AND webhook_unreachable <> $2",
            )
            .bind(delivery.agent_id.as_str())
            .bind(unreachable)
            .execute(&mut *tx)
            .await?;
        }
        sqlx::query(
            "UPDATE delivery SET status = $2, next_at = $3, last_error = $4, ended_at = $5, attempts = attempts + 1,
                 leased_until = 0
             WHERE id = $1 AND status = 'waiting'",
        )
        .bind(delivery.id.as_str())
        .bind(status)
        .bind(next_at)
        .bind(error)
        .bind(ended_at)
        .execute(&mut *tx)
        .await?;
        if unreachable.is_some() {
            sqlx::query(
                "DELETE FROM delivery WHERE agent_id = $1 AND status <> 'waiting' AND id NOT IN (
                     SELECT id FROM delivery WHERE agent_id = $1 AND status <> 'waiting' ORDER BY id DESC LIMIT $2
                 )",
            )
            .bind(delivery.agent_id.as_str())
            .bind(KEPT)
            .execute(&mut *tx)
            .await?;
        }
        self.commit(tx).await
    }

    /// The deliveries of an agent before an id, the newest first.
    pub async fn deliveries(
        &self,
        agent_id: &str,
        status: Option<&str>,
        before: &str,
        limit: i64,
    ) -> sqlx::Result<Vec<DeliveryRow>> {
        sqlx::query_as::<Any, DeliveryRow>(
            "SELECT id, agent_id, kind, body, status, attempts, next_at, last_error, created_at, ended_at
             FROM delivery WHERE agent_id = $1 AND id < $2 AND ($3 = '' OR status = $3) ORDER BY id DESC LIMIT $4",
        )
        .bind(agent_id)
        .bind(before)
        .bind(status.unwrap_or_default())
        .bind(limit)
        .fetch_all(self.db.read())
        .await
    }

    /// Removes proofs that are too old to be used again.
    pub async fn remove_proofs(&self, before: i64) -> sqlx::Result<()> {
        let query = sqlx::query("DELETE FROM used_proof WHERE expires_at < $1");
        self.db.counted(query.bind(before).execute(self.db.write_alone())).await?;
        Ok(())
    }
}

pub(crate) async fn add_event(tx: &mut WriteTx, row: &EventRow) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO agent_event (id, agent_id, event, payload, targets, after_relation, leased_until)
         VALUES ($1, $2, $3, $4, $5, $6, 0)",
    )
    .bind(row.id.as_str())
    .bind(row.agent_id.as_str())
    .bind(row.event.as_str())
    .bind(row.payload.as_str())
    .bind(row.targets.as_deref())
    .bind(row.after_relation.as_str())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Adds a delivery. Where too many wait, the oldest ones are given up: what they would say is older than what follows.
pub(crate) async fn add_delivery(
    tx: &mut WriteTx,
    agent_id: &str,
    id: &str,
    kind: &str,
    body: &str,
    now: i64,
) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO delivery (id, agent_id, kind, body, status, attempts, next_at, leased_until, created_at)
         VALUES ($1, $2, $3, $4, 'waiting', 0, $5, 0, $5)",
    )
    .bind(id)
    .bind(agent_id)
    .bind(kind)
    .bind(body)
    .bind(now)
    .execute(&mut **tx)
    .await?;
    sqlx::query(
        "UPDATE delivery SET status = 'dead', last_error = 'too many newer ones wait', ended_at = $3
         WHERE agent_id = $1 AND status = 'waiting' AND id NOT IN (
             SELECT id FROM delivery WHERE agent_id = $1 AND status = 'waiting' ORDER BY id DESC LIMIT $2
         )",
    )
    .bind(agent_id)
    .bind(KEPT)
    .bind(now)
    .execute(&mut **tx)
    .await?;
    Ok(())
}
