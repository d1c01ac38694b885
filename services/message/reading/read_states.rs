//! How far each agent has read in each of its topics, on whichever device. Cursors are something else: they say what a device
//! has received.

#[cfg(test)]
mod tests;

use crate::store::stored_message::{MessageKey, StoredMessage};
use crate::{Error, MessageService};
use kernel::{Aid, Db, DeviceId, Engine};
use sqlx::{Any, Transaction};
use std::sync::Arc;

/// The topics of an agent, or of one of its devices, that were not updated for longest are removed.
const MAX_TOPICS: i64 = 1000;

pub(crate) struct ReadStates {
    db: Db,
}

/// The last message read in a topic. The order is the time of the message, or 0 while the message is not found.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct ReadPosition {
    pub topic: String,
    pub message_id: String,
    pub read_order: i64,
    pub updated_at: i64,
}

/// A position that is to be moved. It is that of one device if the message was sent to that device alone: the others never see
/// such a message, and their position has nothing to do with it.
pub(crate) struct ReportedPosition {
    pub position: ReadPosition,
    pub device: Option<DeviceId>,
}

impl ReadStates {
    pub fn new(db: Db) -> ReadStates {
        ReadStates { db }
    }

    /// Moves each position forward, all in one transaction, and says of each whether it moved.
    pub async fn advance(&self, aid: &Aid, reported: &[ReportedPosition]) -> sqlx::Result<Vec<bool>> {
        let mut tx = self.db.begin().await?;
        let mut moved = Vec::with_capacity(reported.len());
        for ReportedPosition { position, device } in reported {
            moved.push(match device {
                // A caller without a device cannot have got a message to one.
                Some(device) if device.is_empty() => false,
                Some(device) => self.advance_one(&mut tx, aid, device.as_str(), position).await?,
                None => self.advance_one(&mut tx, aid, "", position).await?,
            });
        }
        if moved.contains(&true) {
            let mut devices: Vec<&str> = reported.iter().map(ReportedPosition::device).collect();
            devices.sort_unstable();
            devices.dedup();
            for device in devices {
                remove_oldest(&mut tx, aid, device).await?;
            }
        }
        self.db.commit(tx).await?;
        Ok(moved)
    }

    /// Of two messages of the same time the one with the greater id is later, as clients have it. A message that was not found
    /// never replaces one that was.
    async fn advance_one(
        &self,
        tx: &mut Transaction<'static, Any>,
        aid: &Aid,
        device: &str,
        position: &ReadPosition,
    ) -> sqlx::Result<bool> {
        let query = match self.db.engine() {
            Engine::Sqlite => sqlx::query(
                "INSERT INTO read_state (aid, device, topic, message_id, read_order, updated_at)
                 VALUES ($1, $2, $3, $4, $5, $6)
                 ON CONFLICT (aid, device, topic) DO UPDATE SET message_id = excluded.message_id,
                     read_order = excluded.read_order, updated_at = excluded.updated_at
                 WHERE excluded.read_order > read_state.read_order
                     OR (excluded.read_order = read_state.read_order AND excluded.message_id <> read_state.message_id
                         AND (excluded.read_order = 0 OR excluded.message_id > read_state.message_id))",
            ),
            Engine::Postgres => sqlx::query(
                "INSERT INTO read_state (aid, device, topic, message_id, read_order, updated_at)
                 VALUES ($1, $2, $3, $4, $5, $6)
                 ON CONFLICT (aid, device, topic) DO UPDATE SET message_id = excluded.message_id,
                     read_order = excluded.read_order, updated_at = excluded.updated_at
                 WHERE excluded.read_order > read_state.read_order
                     OR (excluded.read_order = read_state.read_order AND excluded.message_id <> read_state.message_id
                         AND (excluded.read_order = 0
                             OR excluded.message_id COLLATE \"C\" > read_state.message_id COLLATE \"C\"))",
            ),
        };
        let written = query
            .bind(aid.as_str())
            .bind(device)
            .bind(position.topic.as_str())
            .bind(position.message_id.as_str())
            .bind(position.read_order)
            .bind(position.updated_at)
            .execute(&mut **tx)
            .await?;
        Ok(written.rows_affected() == 1)
    }

    /// The positions of an agent that all its devices share, the latest first; in one topic or in all.
    pub async fn of(&self, aid: &Aid, topic: Option<&str>) -> sqlx::Result<Vec<ReadPosition>> {
        let query = match topic {
            Some(topic) => sqlx::query_as(
                "SELECT topic, message_id, read_order, updated_at FROM read_state
                 WHERE aid = $1 AND device = '' AND topic = $2",
            )
            .bind(aid.as_str())
            .bind(topic),
            None => sqlx::query_as(
                "SELECT topic, message_id, read_order, updated_at FROM read_state WHERE aid = $1 AND device = ''
                 ORDER BY updated_at DESC, topic",
            )
            .bind(aid.as_str()),
        };
        query.fetch_all(self.db.read()).await
    }

    /// Those of them whose message was not found yet.
    async fn unresolved(&self, aid: &Aid) -> sqlx::Result<Vec<ReadPosition>> {
        sqlx::query_as(
            "SELECT topic, message_id, read_order, updated_at FROM read_state
             WHERE aid = $1 AND device = '' AND read_order = 0",
        )
        .bind(aid.as_str())
        .fetch_all(self.db.read())
        .await
    }

    /// Stores the order of such a position, unless it has moved meanwhile. Gives whether it did.
    async fn resolve(&self, aid: &Aid, position: &ReadPosition, read_order: i64) -> sqlx::Result<bool> {
        let written = sqlx::query(
            "UPDATE read_state SET read_order = $4
             WHERE aid = $1 AND device = '' AND topic = $2 AND message_id = $3 AND read_order = 0",
        )
        .bind(aid.as_str())
        .bind(position.topic.as_str())
        .bind(position.message_id.as_str())
        .bind(read_order)
        .execute(self.db.write_alone())
        .await?;
        Ok(written.rows_affected() == 1)
    }

    /// Removes such a position, unless it has moved meanwhile.
    async fn withdraw(&self, aid: &Aid, position: &ReadPosition) -> sqlx::Result<()> {
        sqlx::query(
            "DELETE FROM read_state
             WHERE aid = $1 AND device = '' AND topic = $2 AND message_id = $3 AND read_order = 0",
        )
        .bind(aid.as_str())
        .bind(position.topic.as_str())
        .bind(position.message_id.as_str())
        .execute(self.db.write_alone())
        .await?;
        Ok(())
    }
}

impl ReportedPosition {
    /// As it is stored.
    fn device(&self) -> &str {
        self.device.as_ref().map_or("", DeviceId::as_str)
    }
}

async fn remove_oldest(tx: &mut Transaction<'static, Any>, aid: &Aid, device: &str) -> sqlx::Result<()> {
    sqlx::query(
        "DELETE FROM read_state WHERE aid = $1 AND device = $2 AND topic IN (
             SELECT topic FROM read_state WHERE aid = $3 AND device = $4
             ORDER BY updated_at DESC, topic LIMIT 1000000 OFFSET $5)",
    )
    .bind(aid.as_str())
    .bind(device)
    .bind(aid.as_str())
    .bind(device)
    .bind(MAX_TOPICS)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

impl MessageService {
    /// A position may be reported before its message comes. Once the message is found its time is stored, so that the position
    /// is compared with others by it, and stays where it is when the message is removed.
    /// In these topics or in all. Gives the positions that were found now: of these nobody was told yet.
    pub(crate) async fn resolve_positions(
        &self,
        aid: &Aid,
        topics: Option<&[&str]>,
    ) -> Result<Vec<ReadPosition>, Error> {
        let mut resolved = Vec::new();
        for position in self.read_states.unresolved(aid).await? {
            if topics.is_some_and(|topics| !topics.contains(&position.topic.as_str())) {
                continue;
            }
            let found = self.find_message(aid, &position.topic, &position.message_id).await?;
            let Some(message) = found else { continue };
            if message.is_targeted_at(aid) {
                self.read_states.withdraw(aid, &position).await?;
            } else if self.read_states.resolve(aid, &position, message.at).await? {
                resolved.push(ReadPosition { read_order: message.at, ..position });
            }
        }
        Ok(resolved)
    }

    /// A message that an agent got or sent, by its id alone. The sender is part of its key, so all senders in the agent's
    /// inboxes are tried: first the topic itself, which often is the peer's AID.
    pub(crate) async fn find_message(
        &self,
        aid: &Aid,
        topic: &str,
        message_id: &str,
    ) -> Result<Option<Arc<StoredMessage>>, Error> {
        let mut likely = vec![MessageKey::new(aid, message_id)];
        likely.extend(Aid::parse(topic).ok().map(|peer| MessageKey::new(&peer, message_id)));
        if let Some(message) = self.of_agent(aid, &likely).await? {
            return Ok(Some(message));
        }
        let mut others = Vec::new();
        for inbox in self.inboxes.of(aid).await?.iter() {
            let senders = self.store.senders(inbox.id).await?.into_keys();
            others.extend(senders.filter_map(|sender| Aid::parse(&sender).ok()));
        }
        others.sort_unstable();
        others.dedup();
        let keys: Vec<MessageKey> = others.iter().map(|sender| MessageKey::new(sender, message_id)).collect();
        self.of_agent(aid, &keys).await
    }

    async fn of_agent(&self, aid: &Aid, keys: &[MessageKey]) -> Result<Option<Arc<StoredMessage>>, Error> {
        let found = self.store.find_all(keys).await?;
        Ok(found.into_values().find(|message| message.from == *aid || message.to == *aid))
    }
}
