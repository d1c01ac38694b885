//! The device that a webhook reads by: it is not connected, and does not make space for others.

use crate::store::ended_agents::keep_id;
use crate::store::inboxes::{Inbox, Inboxes};
use kernel::{Aid, DeviceId, Engine};
use proto_schemas::requests::message::DevicesRemoved;
use sqlx::{Any, Transaction};

/// An inbox of an agent, with whether a device has joined and whether a webhook reads by it.
type OwnInbox = (i64, Option<i64>, i64);

impl Inboxes {
    /// The inbox that the webhook of an agent reads, if it has one.
    pub async fn of_webhook(&self, aid: &Aid) -> sqlx::Result<Option<Inbox>> {
        let found = self.find(aid, &DeviceId::webhook()).await?;
        Ok(found.filter(|inbox| inbox.webhook))
    }

    /// Gives an agent this device. It may have had one of the same name, which is that of the webhook from now on.
    pub async fn put_webhook(&self, aid: &Aid, now: i64) -> sqlx::Result<()> {
        if self.of_webhook(aid).await?.is_some() {
            return Ok(());
        }
        let device = DeviceId::webhook();
        self.join(aid, &device, now).await?;
        let mut tx = self.lock_agent(aid).await?;
        sqlx::query("UPDATE inbox SET webhook = 1 WHERE aid = $1 AND device = $2")
            .bind(aid.as_str())
            .bind(device.as_str())
            .execute(&mut *tx)
            .await?;
        self.count_change(&mut tx, aid).await?;
        self.db.commit(tx).await?;
        self.forget(aid);
        Ok(())
    }

    /// Takes the device away. Where it is the only one, its inbox waits for the first device that connects, with what is unread in it.
    pub async fn remove_webhook(&self, aid: &Aid) -> sqlx::Result<()> {
        let mut tx = self.lock_agent(aid).await?;
        let own: Vec<OwnInbox> = sqlx::query_as("SELECT id, joined_at, webhook FROM inbox WHERE aid = $1")
            .bind(aid.as_str())
            .fetch_all(&mut *tx)
            .await?;
        let Some((id, ..)) = own.iter().find(|(.., webhook)| *webhook != 0).copied() else { return Ok(()) };
        let has_other = own.iter().any(|(other, joined_at, _)| *other != id && joined_at.is_some());
        let device = DeviceId::webhook();
        if has_other {
            self.remove(&mut tx, aid, &(id, device.as_str().to_owned())).await?;
            if self.db.engine() == Engine::Sqlite {
                keep_id(&mut tx, id).await?;
            }
        } else {
            self.leave_for_first_device(&mut tx, aid, id).await?;
        }
        self.count_change(&mut tx, aid).await?;
        self.db.commit(tx).await?;
        self.forget(aid);
        match has_other {
            true => self.tell_removed(aid, &[id]),
            false => self.bus.signal(&DevicesRemoved { aid: aid.clone() }),
        }
        Ok(())
    }

    /// The cursor stays, so that what was delivered does not come again.
    async fn leave_for_first_device(
        &self,
        tx: &mut Transaction<'static, Any>,
        aid: &Aid,
        id: i64,
    ) -> sqlx::Result<()> {
        sqlx::query(
            "UPDATE inbox SET device = '', joined_at = NULL, seen_at = 0, webhook = 0,
                 spk_id = NULL, spk_pk = NULL, spk_signature = NULL, spk_timestamp = NULL
             WHERE id = $1",
        )
        .bind(id)
        .execute(&mut **tx)
        .await?;
        self.remove_rows_of_device(tx, aid, DeviceId::webhook().as_str()).await
    }
}
