//! How far each agent has read in each of its topics, on whichever device. Cursors are something else: they say what a device
//! has received.

use crate::kernel::{Aid, Db, Engine};
use crate::message::store::stored_message::{MessageKey, StoredMessage};
use crate::message::{Error, Message};
use sqlx::{Any, Transaction};
use std::sync::Arc;

/// The topics of an agent that were not updated for longest are removed.
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

impl ReadStates {
    pub fn new(db: Db) -> ReadStates {
        ReadStates { db }
    }

    /// Moves each position forward, all in one transaction, and says of each whether it moved.
    pub async fn advance(&self, aid: &Aid, positions: &[ReadPosition]) -> sqlx::Result<Vec<bool>> {
        let mut tx = self.db.write().await?;
        let mut moved = Vec::with_capacity(positions.len());
        for position in positions {
            moved.push(self.advance_one(&mut tx, aid, position).await?);
        }
        if moved.contains(&true) {
            sqlx::query(
                "DELETE FROM read_state WHERE aid = $1 AND topic IN (
                     SELECT topic FROM read_state WHERE aid = $2 ORDER BY updated_at DESC, topic LIMIT 1000000 OFFSET $3)",
            )
            .bind(aid.as_str())
            .bind(aid.as_str())
            .bind(MAX_TOPICS)
            .execute(&mut *tx)
            .await?;
        }
        tx.commit().await?;
        Ok(moved)
    }

    /// Of two messages of the same time the one with the greater id is later, as clients have it. A message that was not found
    /// never replaces one that was.
    async fn advance_one(
        &self,
        tx: &mut Transaction<'static, Any>,
        aid: &Aid,
        position: &ReadPosition,
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
            .bind(position.topic.as_str())
            .bind(position.message_id.as_str())
            .bind(position.read_order)
            .bind(position.updated_at)
            .execute(&mut **tx)
            .await?;
        Ok(written.rows_affected() == 1)
    }

    /// The positions of an agent, the latest first; in one topic or in all.
    pub async fn of(&self, aid: &Aid, topic: Option<&str>) -> sqlx::Result<Vec<ReadPosition>> {
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

#[cfg(test)]
mod tests {
    use crate::kernel::{Audience, Caller, DeviceId, Session, codes};
    use crate::testing::{TestAgent, TestWorld, code};
    use serde_json::{Value, json};

    fn on(agent: &TestAgent, device: &str, connection: u64) -> Caller {
        let Caller::Agent(session) = agent.caller() else { unreachable!() };
        Caller::Agent(Session { device: DeviceId::parse(device).unwrap(), connection, ..session })
    }

    async fn join(test: &TestWorld, agent: &TestAgent, device: &str) {
        test.inside("message.session_opened", json!({ "aid": agent.aid, "device_id": device })).await;
    }

    /// A message with a later time at each call.
    async fn send(test: &TestWorld, from: &TestAgent, to: &TestAgent, id: &str) -> i64 {
        test.world.clock.advance_ms(10);
        let params = json!({ "to": to.aid, "message_id": id, "payload": {} });
        let sent = test.call_as(on(from, "d1", 9), "message.send", params).await.unwrap();
        sent["timestamp"].as_i64().unwrap()
    }

    async fn read(test: &TestWorld, who: &TestAgent, topic: &str, id: &str) -> Value {
        let params = json!({ "states": [{ "topic_key": topic, "last_read_message_id": id }] });
        test.call_as(on(who, "d1", 1), "message.read", params).await.unwrap()["states"][0]["changed"].clone()
    }

    async fn state(test: &TestWorld, who: &TestAgent, device: &str, topic: &str) -> Value {
        let params = json!({ "topic_key": topic });
        test.call_as(on(who, device, 2), "message.read_state", params).await.unwrap()["states"][0].clone()
    }

    fn changes(test: &TestWorld) -> Vec<(Audience, Value)> {
        let mut events = test.events.lock();
        let all = std::mem::take(&mut *events).into_iter();
        let ours = all.filter(|event| event.method == "event/message.read_changed");
        ours.map(|event| (event.to, serde_json::from_str(event.params.get()).unwrap())).collect()
    }

    #[tokio::test]
    async fn a_read_state_moves_forward_in_the_time_of_the_messages_and_other_devices_are_told() {
        let test = TestWorld::open().await;
        let (alice, bob) = (test.register("alice").await, test.register("bobb").await);
        join(&test, &bob, "d1").await;
        send(&test, &alice, &bob, "m-1").await;
        let second = send(&test, &alice, &bob, "m-2").await;
        join(&test, &bob, "d2").await;

        assert_eq!(read(&test, &bob, "inbox:primary", "m-2").await, true);
        let published = changes(&test);
        let Audience::Others { connection: 1, .. } = &published[0].0 else { panic!("{published:?}") };
        let event = json!({ "owner_aid": bob.aid, "scope": "p2p", "topic_key": "inbox:primary",
            "last_read_message_id": "m-2", "last_read_order": second, "updated_at": test.world.clock.now_ms() });
        assert_eq!((published.len(), &published[0].1), (1, &event));

        assert_eq!(read(&test, &bob, "inbox:primary", "m-1").await, false);
        assert_eq!(read(&test, &bob, "inbox:primary", "m-2").await, false);
        assert_eq!(changes(&test).len(), 0);
        let here = state(&test, &bob, "d1", "inbox:primary").await;
        assert_eq!((&here["current_device_seq"], &here["mapping_status"]), (&json!(2), &json!("resolved")));
        let there = state(&test, &bob, "d2", "inbox:primary").await;
        assert_eq!(
            (&there["current_device_seq"], &there["mapping_status"]),
            (&Value::Null, &json!("not_received"))
        );
        let again = test.restart().await;
        assert_eq!(state(&again, &bob, "d1", "inbox:primary").await, here);
    }

    #[tokio::test]
    async fn a_message_that_is_not_found_is_stored_only_where_no_other_is() {
        let test = TestWorld::open().await;
        let (alice, bob) = (test.register("alice").await, test.register("bobb").await);
        join(&test, &bob, "d1").await;
        assert_eq!(read(&test, &bob, &alice.aid, "m-unknown").await, true);
        assert_eq!(read(&test, &bob, &alice.aid, "m-unknown").await, false);
        assert_eq!(read(&test, &bob, &alice.aid, "a-unknown").await, true);
        let noted = state(&test, &bob, "d1", &alice.aid).await;
        assert_eq!((&noted["last_read_order"], &noted["mapping_status"]), (&json!(0), &json!("unresolved")));
        send(&test, &alice, &bob, "m-1").await;
        assert_eq!(read(&test, &bob, &alice.aid, "m-1").await, true);
        assert_eq!(changes(&test).len(), 1, "only a message that was found is published");
        assert_eq!(read(&test, &bob, &alice.aid, "m-unknown").await, false);
        assert_eq!(state(&test, &bob, "d1", &alice.aid).await["last_read_message_id"], "m-1");
        let unasked = send(&test, &bob, &alice, "m-own").await;
        assert_eq!(read(&test, &bob, &alice.aid, "m-own").await, true);
        assert_eq!(
            state(&test, &bob, "d1", &alice.aid).await["last_read_order"],
            unasked,
            "own messages count"
        );
    }

    #[tokio::test]
    async fn what_others_have_read_is_not_shown_and_bad_lists_change_nothing() {
        let test = TestWorld::open().await;
        let (alice, bob) = (test.register("alice").await, test.register("bobb").await);
        let ask = async |method: &str, params: Value| test.call_as(on(&bob, "d1", 1), method, params).await;
        assert_eq!(
            code(ask("message.read_state", json!({ "aid": alice.aid })).await),
            codes::PERMISSION_DENIED.code
        );
        let good = json!({ "topic_key": "t", "last_read_message_id": "m" });
        let long = json!({ "topic_key": "t".repeat(129), "last_read_message_id": "m" });
        for bad in [
            json!({}),
            json!({ "states": null }),
            json!({ "states": [] }),
            json!({ "states": [good, long] }),
            json!({ "states": [good, { "topic_key": "t" }] }),
            json!({ "states": [good, { "scope": "group", "topic_key": "t", "last_read_message_id": "m" }] }),
            json!({ "states": vec![good.clone(); 101] }),
        ] {
            assert_eq!(code(ask("message.read", bad.clone()).await), codes::INVALID_PARAMS.code, "{bad}");
        }
        let nothing = json!({ "scope": "p2p", "states": [] });
        assert_eq!(ask("message.read_state", json!({})).await.unwrap(), nothing);
        assert_eq!(ask("message.read", good).await.unwrap()["updated"], 1, "one alone needs no list");
        let one = ask("message.read_state", json!({})).await.unwrap();
        assert_eq!(one["topic_key"], one["states"][0]["topic_key"]);
    }

    #[tokio::test]
    async fn of_two_messages_of_the_same_time_the_greater_id_is_later() {
        let test = TestWorld::open().await;
        let (alice, bob) = (test.register("alice").await, test.register("bobb").await);
        join(&test, &bob, "d1").await;
        for id in ["m-B", "m-a"] {
            let params = json!({ "to": bob.aid, "message_id": id, "payload": {} });
            test.call_as(on(&alice, "d1", 9), "message.send", params).await.unwrap();
        }
        assert_eq!(read(&test, &bob, "t", "m-a").await, true);
        assert_eq!(read(&test, &bob, "t", "m-B").await, false, "by code points, on either engine");
    }
}
