//! The devices of an agent come and go: an agent has so many at most, and one that was not seen for long is removed.
//!
//! Every message to an agent is addressed to each of its devices, so their number bounds what a message costs. A device that
//! is one too many is not refused: it takes the place of the one that was not seen for longest and is not connected now. What
//! was removed comes back as a new device, with what is sent from then on. The device that a webhook reads by stays for as long as its
//! agent wants it.

mod webhook;

use super::inboxes::{Inbox, InboxList, Inboxes};
use kernel::{Aid, DeviceId, Engine, Event};
use proto_schemas::requests::message::DevicesRemoved;
use sqlx::{Any, Transaction};

/// How often it is written that a device was seen.
const SEEN_EVERY_MS: i64 = 3_600_000;
/// How many devices are removed at once; the others follow.
const EXPIRE_ROWS: i64 = 64;

/// An inbox that is to be removed.
pub(super) type LeavingInbox = (i64, String);

impl Inboxes {
    /// Gives a device its inbox. The first device of an agent gets the inbox with what was sent before.
    pub async fn join(&self, aid: &Aid, device: &DeviceId, now: i64) -> sqlx::Result<()> {
        // On PostgreSQL another process may have removed the device since.
        let known = self.of(aid).await?;
        if let Some(inbox) = known.iter().find(|inbox| inbox.joined && inbox.device == *device) {
            return self.saw(aid, inbox, now).await;
        }
        let mut tx = self.lock_agent(aid).await?;
        let taken_over = sqlx::query(
            "UPDATE inbox SET device = $2, joined_at = $3, seen_at = $3
             WHERE aid = $1 AND device = '' AND joined_at IS NULL",
        )
        .bind(aid.as_str())
        .bind(device.as_str())
        .bind(now)
        .execute(&mut *tx)
        .await?;
        if taken_over.rows_affected() == 0 {
            self.insert(&mut tx, aid, device.as_str(), Some(now)).await?;
        }
        // After the new one was stored: SQLite gives the highest id and one, so the id of an inbox that is removed now is
        // given to no other while one with a higher id is there.
        let removed = match known.len() >= self.most_devices {
            true => self.remove_unseen(&mut tx, aid, device).await?,
            false => Vec::new(),
        };
        self.count_change(&mut tx, aid).await?;
        self.db.commit(tx).await?;
        self.forget(aid);
        self.tell_removed(aid, &removed);
        Ok(())
    }

    /// Makes an inbox for an agent that has no device yet, unless it has got one meanwhile.
    pub async fn create_for_first_device(&self, aid: &Aid) -> sqlx::Result<InboxList> {
        let mut tx = self.lock_agent(aid).await?;
        let known: Option<i64> = sqlx::query_scalar("SELECT id FROM inbox WHERE aid = $1 LIMIT 1")
            .bind(aid.as_str())
            .fetch_optional(&mut *tx)
            .await?;
        if known.is_none() {
            self.insert(&mut tx, aid, "", None).await?;
        }
        self.count_change(&mut tx, aid).await?;
        self.db.commit(tx).await?;
        self.forget(aid);
        self.of(aid).await
    }

    /// Removes some devices that were last seen before this; one that is connected was seen now.
    pub async fn expire(&self, seen_before: i64, now: i64) -> sqlx::Result<()> {
        // The newest inbox of all stays, for its id; see `join`.
        let rows: Vec<(i64, String, String)> = sqlx::query_as(
            "SELECT id, aid, device FROM inbox
             WHERE seen_at < $1 AND joined_at IS NOT NULL AND webhook = 0 AND id < (SELECT MAX(id) FROM inbox)
             ORDER BY seen_at LIMIT $2",
        )
        .bind(seen_before)
        .bind(EXPIRE_ROWS)
        .fetch_all(self.db.read())
        .await?;
        for (id, aid, device) in rows {
            let Ok(aid) = Aid::parse(&aid) else { continue };
            if self.is_connected(&aid, &device) {
                self.write_seen(id, now).await?;
                continue;
            }
            let mut tx = self.lock_agent(&aid).await?;
            let still: Option<i64> =
                sqlx::query_scalar("SELECT id FROM inbox WHERE id = $1 AND seen_at < $2")
                    .bind(id)
                    .bind(seen_before)
                    .fetch_optional(&mut *tx)
                    .await?;
            if still.is_some() {
                self.remove(&mut tx, &aid, &(id, device)).await?;
                self.count_change(&mut tx, &aid).await?;
                self.db.commit(tx).await?;
                self.forget(&aid);
                self.tell_removed(&aid, &[id]);
            }
        }
        Ok(())
    }

    pub(super) fn tell_removed(&self, aid: &Aid, removed: &[i64]) {
        if removed.is_empty() {
            return;
        }
        self.store.inboxes_removed(removed);
        self.bus.signal(&DevicesRemoved { aid: aid.clone() });
    }

    /// Another process removed devices: what is cached of the agent here is wrong.
    pub(super) fn on_event(&self, event: &Event) {
        if let Some(DevicesRemoved { aid }) = event.as_signal() {
            self.forget(&aid);
        }
    }

    async fn saw(&self, aid: &Aid, inbox: &Inbox, now: i64) -> sqlx::Result<()> {
        if now - inbox.seen_at >= SEEN_EVERY_MS {
            self.write_seen(inbox.id, now).await?;
            self.forget(aid);
        }
        Ok(())
    }

    async fn write_seen(&self, inbox: i64, now: i64) -> sqlx::Result<()> {
        let query = sqlx::query("UPDATE inbox SET seen_at = $2 WHERE id = $1 AND seen_at < $2");
        self.db.counted(query.bind(inbox).bind(now).execute(self.db.write_alone())).await?;
        Ok(())
    }

    fn is_connected(&self, aid: &Aid, device: &str) -> bool {
        self.presence.sessions(aid).iter().any(|session| session.device.as_str() == device)
    }

    /// A new inbox, unless the device has one. Its seqs follow those of devices of this agent that were removed: one of them
    /// may be this one, and asks for what comes after the last seq it knows.
    async fn insert(
        &self,
        tx: &mut Transaction<'static, Any>,
        aid: &Aid,
        device: &str,
        joined_at: Option<i64>,
    ) -> sqlx::Result<()> {
        let floor: Option<i64> = sqlx::query_scalar("SELECT seq FROM removed_device WHERE aid = $1")
            .bind(aid.as_str())
            .fetch_optional(&mut **tx)
            .await?;
        let floor = floor.unwrap_or(0);
        let id: Option<i64> = sqlx::query_scalar(
            "INSERT INTO inbox (aid, device, joined_at, seen_at, floor) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT DO NOTHING RETURNING id",
        )
        .bind(aid.as_str())
        .bind(device)
        .bind(joined_at)
        .bind(joined_at.unwrap_or(0))
        .bind(floor)
        .fetch_optional(&mut **tx)
        .await?;
        let Some(id) = id else { return Ok(()) };
        match self.db.engine() {
            // Before the commit: after it a message may come at any moment. If it fails, the next inbox with this id says anew
            // where it begins.
            Engine::Sqlite => self.store.inbox_begins_at(id, floor),
            Engine::Postgres => {
                sqlx::query("INSERT INTO head (inbox, floor, changes) VALUES ($1, $2, 0)")
                    .bind(id)
                    .bind(floor)
                    .execute(&mut **tx)
                    .await?;
            }
        }
        Ok(())
    }

    /// Removes as many of an agent's devices as are too many beside this one.
    async fn remove_unseen(
        &self,
        tx: &mut Transaction<'static, Any>,
        aid: &Aid,
        joining: &DeviceId,
    ) -> sqlx::Result<Vec<i64>> {
        let others: Vec<(i64, String, i64)> = sqlx::query_as(
            "SELECT id, device, webhook FROM inbox WHERE aid = $1 AND device <> $2 ORDER BY seen_at, id",
        )
        .bind(aid.as_str())
        .bind(joining.as_str())
        .fetch_all(&mut **tx)
        .await?;
        let excess = (others.len() + 1).saturating_sub(self.most_devices);
        let absent = others
            .into_iter()
            .filter(|(_, device, webhook)| *webhook == 0 && !self.is_connected(aid, device));
        let leaving: Vec<LeavingInbox> = absent.map(|(id, device, _)| (id, device)).take(excess).collect();
        for inbox in &leaving {
            self.remove(tx, aid, inbox).await?;
        }
        Ok(leaving.into_iter().map(|(id, _)| id).collect())
    }

    /// Everything of a device but its messages, which are removed when they are old.
    pub(super) async fn remove(
        &self,
        tx: &mut Transaction<'static, Any>,
        aid: &Aid,
        (id, device): &LeavingInbox,
    ) -> sqlx::Result<()> {
        let last = match self.db.engine() {
            Engine::Sqlite => self.store.head(*id),
            Engine::Postgres => {
                let last: Option<i64> =
                    sqlx::query_scalar("SELECT last_number(inbox, floor) FROM head WHERE inbox = $1")
                        .bind(*id)
                        .fetch_optional(&mut **tx)
                        .await?;
                last.unwrap_or(0)
            }
        };
        if last > 0 {
            sqlx::query(
                "INSERT INTO removed_device (aid, seq) VALUES ($1, $2)
                 ON CONFLICT (aid) DO UPDATE SET seq = excluded.seq WHERE excluded.seq > removed_device.seq",
            )
            .bind(aid.as_str())
            .bind(last)
            .execute(&mut **tx)
            .await?;
        }
        let by_inbox = ["DELETE FROM cursor WHERE inbox = $1", "DELETE FROM consumer WHERE inbox = $1"];
        for statement in by_inbox.into_iter().chain(["DELETE FROM inbox WHERE id = $1"]) {
            sqlx::query(statement).bind(*id).execute(&mut **tx).await?;
        }
        if self.db.engine() == Engine::Postgres {
            sqlx::query("DELETE FROM head WHERE inbox = $1").bind(*id).execute(&mut **tx).await?;
        }
        self.remove_rows_of_device(tx, aid, device).await
    }

    /// What a device published, and how far it has read.
    async fn remove_rows_of_device(
        &self,
        tx: &mut Transaction<'static, Any>,
        aid: &Aid,
        device: &str,
    ) -> sqlx::Result<()> {
        // The read position without a device is that of all devices.
        for statement in [
            "DELETE FROM prekey WHERE aid = $1 AND device = $2",
            "DELETE FROM read_state WHERE aid = $1 AND device = $2 AND device <> ''",
        ] {
            sqlx::query(statement).bind(aid.as_str()).bind(device).execute(&mut **tx).await?;
        }
        Ok(())
    }
}
