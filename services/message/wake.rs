//! `message.wake`: events may have been lost on their way; the gateway has its devices looked at again.

use super::stored_message::Kind;
use super::tail::Span;
use super::{Error, Message, events};
use crate::kernel::{Aid, Caller, DeviceId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize)]
pub(super) struct WakeParams {
    aid: Aid,
    #[serde(default)]
    device_id: DeviceId,
}

#[derive(Clone, Serialize)]
pub(super) struct Woken {
    rung: bool,
}

impl Message {
    pub(super) async fn wake(self: Arc<Self>, _: Caller, params: WakeParams) -> Result<Woken, Error> {
        // It may have come while nobody was here to be told.
        self.inboxes.join(&params.aid, &params.device_id, self.clock.now_ms()).await?;
        let Some(inbox) = self.inboxes.find(&params.aid, &params.device_id).await? else {
            return Ok(Woken { rung: false });
        };

        let span = Span { inbox: inbox.id, after: 0, before: i64::MAX, sender: None };
        let newest = self.store.last(span, 1).await?.pop();
        // A queue message was for whoever was there.
        let Some(newest) = newest.filter(|newest| newest.message.kind != Kind::Queue) else {
            return Ok(Woken { rung: false });
        };
        if self.store.read_through(inbox.id).await? >= newest.seq {
            return Ok(Woken { rung: false });
        }

        events::ring_again(&self.bus, &newest.message, inbox.id, &params.device_id);
        Ok(Woken { rung: true })
    }
}

#[cfg(test)]
mod tests {
    use crate::kernel::Caller;
    use crate::testing::TestWorld;
    use serde_json::{Value, json};

    #[tokio::test]
    async fn the_newest_message_is_rung_for_until_it_is_read() {
        let test = TestWorld::open().await;
        let (alice, bob) = (test.register("alice").await, test.register("bobb").await);
        let on_device = json!({ "aid": bob.aid, "device_id": "" });
        test.inside("message.join", on_device.clone()).await;
        assert_eq!(test.inside("message.wake", on_device.clone()).await, json!({ "rung": false }));
        for id in ["m-1", "m-2"] {
            let params = json!({ "to": bob.aid, "message_id": id, "payload": { "text": id } });
            test.call_as(alice.caller(), "message.send", params).await.unwrap();
        }
        test.events.lock().clear();

        assert_eq!(test.inside("message.wake", on_device.clone()).await, json!({ "rung": true }));
        let events = std::mem::take(&mut *test.events.lock());
        let told: Value = serde_json::from_str(events[0].params.get()).unwrap();
        assert_eq!((events.len(), events[0].method.as_str()), (1, "event/message.received"));
        assert_eq!((&told["message_id"], &told["seq"]), (&json!("m-2"), &json!(2)));

        test.call_as(bob.caller(), "message.ack", json!({ "seq": 2 })).await.unwrap();
        assert_eq!(test.inside("message.wake", on_device).await, json!({ "rung": false }));
        let refused = test.call_as(alice.caller(), "message.wake", json!({})).await.unwrap_err();
        assert_eq!(refused.code(), -32601);
        let nobody =
            test.call_as(Caller::service("gateway"), "message.wake", json!({ "aid": "x.y.z" })).await;
        assert!(nobody.is_err());
    }
}
