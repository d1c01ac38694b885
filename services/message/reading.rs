//! How far each agent has read in each of its topics, on whichever device. It has nothing to do with cursors: those
//! say what arrived, and this what somebody looked at.

use super::letter::{Key, Letter};
use super::{Error, Message};
use crate::kernel::{Aid, Db, Engine};
use sqlx::{Any, Transaction};
use std::sync::Arc;

/// An agent's topics that were not touched for longest are forgotten.
const MOST_TOPICS: i64 = 1000;

pub(super) struct Reading {
    db: Db,
}

/// Where reading in a topic stands. The order is the time of the message, or 0 while the message is not known.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(super) struct Stand {
    pub topic: String,
    pub message_id: String,
    pub read_order: i64,
    pub updated_at: i64,
}

impl Reading {
    pub fn new(db: Db) -> Reading {
        Reading { db }
    }

    /// Moves each stand forward, all in one transaction, and says of each whether it moved.
    pub async fn advance(&self, aid: &Aid, stands: &[Stand]) -> sqlx::Result<Vec<bool>> {
        let mut tx = self.db.write().await?;
        let mut moved = Vec::with_capacity(stands.len());
        for stand in stands {
            moved.push(self.advance_one(&mut tx, aid, stand).await?);
        }
        if moved.contains(&true) {
            sqlx::query(
                "DELETE FROM read_state WHERE aid = $1 AND topic IN (
                     SELECT topic FROM read_state WHERE aid = $2 ORDER BY updated_at DESC, topic LIMIT 1000000 OFFSET $3)",
            )
            .bind(aid.as_str())
            .bind(aid.as_str())
            .bind(MOST_TOPICS)
            .execute(&mut *tx)
            .await?;
        }
        tx.commit().await?;
        Ok(moved)
    }

    /// Of two messages of one moment the one with the greater id counts as later, as clients have it. A message nobody
    /// knows never takes the place of one that is known.
    async fn advance_one(
        &self,
        tx: &mut Transaction<'static, Any>,
        aid: &Aid,
        stand: &Stand,
    ) -> sqlx::Result<bool> {
        let query = match self.db.engine() {
            Engine::Sqlite => sqlx::query(
                "INSERT INTO read_state (aid, topic, message_id, read_order, updated_at) VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (aid, topic) DO UPDATE SET message_id = excluded.message_id,
                     read_order = excluded.read_order, updated_at = excluded.updated_at
                 WHERE excluded.read_order > read_state.read_order
                     OR (excluded.read_order = read_state.read_order AND excluded.message_id <> read_state.message_id
                         AND (excluded.read_order = 0 OR excluded.message_id > read_state.message_id))",
            ),
            Engine::Postgres => sqlx::query(
                "INSERT INTO read_state (aid, topic, message_id, read_order, updated_at) VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (aid, topic) DO UPDATE SET message_id = excluded.message_id,
                     read_order = excluded.read_order, updated_at = excluded.updated_at
                 WHERE excluded.read_order > read_state.read_order
                     OR (excluded.read_order = read_state.read_order AND excluded.message_id <> read_state.message_id
                         AND (excluded.read_order = 0
                             OR excluded.message_id COLLATE \"C\" > read_state.message_id COLLATE \"C\"))",
            ),
        };
        let written = query
            .bind(aid.as_str())
            .bind(stand.topic.as_str())
            .bind(stand.message_id.as_str())
            .bind(stand.read_order)
            .bind(stand.updated_at)
            .execute(&mut **tx)
            .await?;
        Ok(written.rows_affected() == 1)
    }

    /// The stands of an agent, the latest first; in one topic or in all.
    pub async fn of(&self, aid: &Aid, topic: Option<&str>) -> sqlx::Result<Vec<Stand>> {
        let query = match topic {
            Some(topic) => sqlx::query_as(
                "SELECT topic, message_id, read_order, updated_at FROM read_state WHERE aid = $1 AND topic = $2",
            )
            .bind(aid.as_str())
            .bind(topic),
            None => sqlx::query_as(
                "SELECT topic, message_id, read_order, updated_at FROM read_state WHERE aid = $1
                 ORDER BY updated_at DESC, topic",
            )
            .bind(aid.as_str()),
        };
        query.fetch_all(self.db.read()).await
    }
}

impl Message {
    /// A letter that an agent got or sent, by its id alone. Who sent it is part of its key, so those come into question
    /// that ever wrote to this agent: first the topic itself, which often is the peer's name.
    pub(super) async fn find_letter(
        &self,
        aid: &Aid,
        topic: &str,
        message_id: &str,
    ) -> Result<Option<Arc<Letter>>, Error> {
        let mut likely = vec![Key::new(aid, message_id)];
        likely.extend(Aid::parse(topic).ok().map(|peer| Key::new(&peer, message_id)));
        if let Some(letter) = self.of_agent(aid, &likely).await? {
            return Ok(Some(letter));
        }
        let mut others = Vec::new();
        for inbox in self.inboxes.of(aid).await?.iter() {
            let senders = self.store.senders(inbox.id).await?.into_keys();
            others.extend(senders.filter_map(|sender| Aid::parse(&sender).ok()));
        }
        others.sort_unstable();
        others.dedup();
        let keys: Vec<Key> = others.iter().map(|sender| Key::new(sender, message_id)).collect();
        self.of_agent(aid, &keys).await
    }

    async fn of_agent(&self, aid: &Aid, keys: &[Key]) -> Result<Option<Arc<Letter>>, Error> {
        let found = self.store.find_all(keys).await?;
        Ok(found.into_values().find(|letter| letter.from == *aid || letter.to == *aid))
    }
}
