//! `message.session_resync`: events may have been lost; the gateway has the newest unread message of a device published again,
//! and a connection that it names notified of it.

use super::delivery::events;
use super::reading::reminders::RemindedConnection;
use super::store::lookup::SeqRange;
use super::store::stored_message::MessageKind;
use super::{Error, MessageService};
use kernel::Caller;
use proto_schemas::requests::message::{SessionResync, SessionResyncResult};
use std::sync::Arc;

impl MessageService {
    pub(super) async fn session_resync(
        self: Arc<Self>,
        _: Caller,
        SessionResync { aid, device_id, connection }: SessionResync,
    ) -> Result<SessionResyncResult, Error> {
        // The device may have connected while this service was not reachable.
        self.inboxes.join(&aid, &device_id, self.clock.now_ms()).await?;
        let Some(inbox) = self.inboxes.find(&aid, &device_id).await? else {
            return Ok(SessionResyncResult { published: false });
        };

        let range = SeqRange { inbox: inbox.id, after: 0, before: i64::MAX, sender: None };
        let newest = self.store.last(range, 1).await?.pop();
        // A queue message was for the connection that was chosen for it.
        let Some(newest) = newest.filter(|newest| newest.message.kind != MessageKind::Queue) else {
            return Ok(SessionResyncResult { published: false });
        };
        if self.store.read_through(inbox.id).await? >= newest.seq {
            return Ok(SessionResyncResult { published: false });
        }

        events::publish_again(&self.bus, &newest.message, inbox.id, &device_id);
        if let Some(connection) = connection.filter(|connection| *connection != 0) {
            let reminded =
                RemindedConnection { connection, aid, device: device_id, inbox: inbox.id, slot: None };
            if let Some(reminder) = self.reminder(&reminded, newest.seq - 1).await? {
                let seq = reminder.seq;
                self.remind(&reminded, reminder);
                self.look_again(reminded, seq);
            }
        }
        Ok(SessionResyncResult { published: true })
    }
}

#[cfg(test)]
mod tests {
    use kernel::{Audience, Caller};
    use serde_json::{Value, json};
    use testing::TestWorld;

    #[tokio::test]
    async fn the_newest_message_is_published_again_until_it_is_read() {
        let test = TestWorld::with(&["ca", "auth", "agent"]).and(crate::open).await;
        let (alice, bob) = (test.register("alice").await, test.register("bobb").await);
        let on_device = json!({ "aid": bob.aid, "device_id": "" });
        test.inside("message.session_opened", on_device.clone()).await;
        assert_eq!(
            test.inside("message.session_resync", on_device.clone()).await,
            json!({ "published": false })
        );
        for id in ["m-1", "m-2"] {
            let params = json!({ "to": bob.aid, "message_id": id, "payload": { "text": id } });
            test.call_as(alice.caller(), "message.send", params).await.unwrap();
        }
        test.events.lock().clear();

        assert_eq!(
            test.inside("message.session_resync", on_device.clone()).await,
            json!({ "published": true })
        );
        let events = std::mem::take(&mut *test.events.lock());
        let params: Value = serde_json::from_str(events[0].params.get()).unwrap();
        assert_eq!((events.len(), events[0].method.as_str()), (1, "event/message.received"));
        assert_eq!((&params["message_id"], &params["seq"]), (&json!("m-2"), &json!(2)));

        let on_connection = json!({ "aid": bob.aid, "device_id": "", "connection": 7 });
        test.inside("message.session_resync", on_connection).await;
        let events = std::mem::take(&mut *test.events.lock());
        let params: Value = serde_json::from_str(events[1].params.get()).unwrap();
        assert_eq!(
            events[1].method, "event/peer.v2.message_received",
            "it pulls, though the message is plain"
        );
        assert!(matches!(events[1].to, Audience::Connection { connection: 7, .. }), "{events:?}");
        assert_eq!((events.len(), &params["seq"]), (2, &json!(2)));

        test.call_as(bob.caller(), "message.ack", json!({ "seq": 2 })).await.unwrap();
        assert_eq!(test.inside("message.session_resync", on_device).await, json!({ "published": false }));
        let refused = test.call_as(alice.caller(), "message.session_resync", json!({})).await.unwrap_err();
        assert_eq!(refused.code(), -32601);
        let nobody = test
            .call_as(Caller::service("gateway"), "message.session_resync", json!({ "aid": "x.y.z" }))
            .await;
        assert!(nobody.is_err());
    }
}
