//! Who wants to hear of which tasks.

use super::Store;
use super::row::{aid, damaged, task_id};
use crate::model::tree::Trees;
use kernel::json_rows as json;
use kernel::{Aid, DeviceId, Engine, SlotId};
use proto_schemas::requests::task::TaskId;
use serde::Serialize;
use sqlx::{Any, AnyConnection, AssertSqlSafe};
use std::collections::BTreeSet;

/// A device and slot of an agent: what is left of a session when its connection is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubscriberKey {
    pub aid: Aid,
    pub device: DeviceId,
    /// The part of a slot that tells sessions apart.
    pub slot: SlotId,
}

#[derive(Clone, Debug)]
pub(crate) struct Subscriber {
    pub key: SubscriberKey,
    pub task_id: TaskId,
    /// A bit for each event.
    pub events: i64,
}

#[derive(Serialize)]
struct WrittenSubscription<'a> {
    aid: &'a Aid,
    device: &'a DeviceId,
    slot: &'a SlotId,
    task_id: &'a TaskId,
    events: i64,
    ends_at: Option<i64>,
}

#[derive(sqlx::FromRow)]
struct SubscriptionRow {
    aid: String,
    device: String,
    slot: String,
    task_id: String,
    events: i64,
}

impl Store {
    /// Subscribes to those of these tasks that `readable` gives, with when the subscription ends if the task has ended. False if
    /// there would be more than `most`: then nothing is changed.
    ///
    /// On PostgreSQL the roots are locked, so that no task ends unseen between reading and writing.
    pub async fn subscribe(
        &self,
        key: &SubscriberKey,
        tasks: &BTreeSet<TaskId>,
        events: i64,
        most: i64,
        readable: impl FnOnce(&Trees) -> Vec<(TaskId, Option<i64>)>,
    ) -> sqlx::Result<Option<Vec<TaskId>>> {
        let mut tx = self.begin().await?;
        if self.engine() == Engine::Postgres {
            self.lock_roots(&mut tx, tasks, "SHARE").await?;
            self.lock_agents(&mut tx, &BTreeSet::from([key.aid.clone()])).await?;
        }
        let trees = self.trees(&mut tx, tasks).await?;
        let readable = readable(&trees);
        let ids: Vec<TaskId> = readable.iter().map(|(id, _)| id.clone()).collect();
        if ids.is_empty() {
            return Ok(Some(ids));
        }
        if self.count_others(&mut tx, key, &ids).await? + ids.len() as i64 > most {
            return Ok(None);
        }
        let rows = readable.iter().map(|(task_id, ends_at)| WrittenSubscription {
            aid: &key.aid,
            device: &key.device,
            slot: &key.slot,
            task_id,
            events,
            ends_at: *ends_at,
        });
        let columns = [
            ("aid", "TEXT"),
            ("device", "TEXT"),
            ("slot", "TEXT"),
            ("task_id", "TEXT"),
            ("events", "BIGINT"),
            ("ends_at", "BIGINT"),
        ];
        let conflict = format!("(aid, device, slot, task_id) {}", json::replace(&["events", "ends_at"]));
        let text = json::insert(self.engine(), 1, "task_subscription", &columns, &conflict);
        let rows = json::rows_text(self.engine(), &columns, &rows.collect::<Vec<_>>())?;
        sqlx::query(AssertSqlSafe(text)).bind(rows).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(Some(ids))
    }

    /// How many subscriptions there are to other tasks.
    async fn count_others(
        &self,
        tx: &mut AnyConnection,
        key: &SubscriberKey,
        tasks: &[TaskId],
    ) -> sqlx::Result<i64> {
        let ids = json::texts(self.engine(), 4);
        let text = format!(
            "SELECT COUNT(*) FROM task_subscription
             WHERE aid = $1 AND device = $2 AND slot = $3 AND task_id NOT IN {ids}"
        );
        sqlx::query_scalar(AssertSqlSafe(text))
            .bind(key.aid.as_str())
            .bind(key.device.as_str())
            .bind(key.slot.as_str())
            .bind(json::text(&tasks)?)
            .fetch_one(tx)
            .await
    }

    /// Gives those that were subscribed.
    pub async fn unsubscribe(
        &self,
        key: &SubscriberKey,
        tasks: &BTreeSet<TaskId>,
    ) -> sqlx::Result<Vec<TaskId>> {
        let mut tx = self.begin().await?;
        if self.engine() == Engine::Postgres {
            self.lock_roots(&mut tx, tasks, "SHARE").await?;
        }
        let ids = json::texts(self.engine(), 4);
        let text = format!(
            "DELETE FROM task_subscription WHERE aid = $1 AND device = $2 AND slot = $3 AND task_id IN {ids}
             RETURNING task_id"
        );
        let removed: Vec<String> = sqlx::query_scalar(AssertSqlSafe(text))
            .bind(key.aid.as_str())
            .bind(key.device.as_str())
            .bind(key.slot.as_str())
            .bind(json::text(tasks)?)
            .fetch_all(&mut *tx)
            .await?;
        tx.commit().await?;
        removed.into_iter().map(task_id).collect()
    }

    /// Everybody who wants to hear of these tasks.
    pub async fn subscribers(&self, tasks: &BTreeSet<TaskId>, now: i64) -> sqlx::Result<Vec<Subscriber>> {
        let ids = json::texts(self.engine(), 1);
        let text = format!(
            "SELECT aid, device, slot, task_id, events FROM task_subscription
             WHERE task_id IN {ids} AND (ends_at IS NULL OR ends_at > $2) ORDER BY aid, device, slot"
        );
        let rows: Vec<SubscriptionRow> = sqlx::query_as::<Any, SubscriptionRow>(AssertSqlSafe(text))
            .bind(json::text(tasks)?)
            .bind(now)
            .fetch_all(self.db.read())
            .await?;
        rows.into_iter().map(SubscriptionRow::read).collect()
    }
}

impl SubscriptionRow {
    fn read(self) -> sqlx::Result<Subscriber> {
        let key = SubscriberKey {
            aid: aid(&self.aid)?,
            device: DeviceId::parse(&self.device).map_err(damaged)?,
            slot: SlotId::parse(&self.slot).map_err(damaged)?,
        };
        Ok(Subscriber { key, task_id: task_id(self.task_id)?, events: self.events })
    }
}
