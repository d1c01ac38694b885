//! `agui.subscribe`: be told of the frames of a conversation over this connection.

use super::ThreadFrames;
use crate::RunService;
use crate::error::Error;
use crate::runs::{LOOK_EVERY, PAUSE, SubscriptionKey};
use ag_ui::{Frame, FrameId};
use kernel::{Audience, Caller, CallingAgent, Event};
use proto_schemas::requests::agui::{Subscribe, SubscribedThread};
use serde::Serialize;
use serde_json::value::RawValue;
use std::sync::Arc;
use tokio::time::sleep;

/// The params of `event/agui.frame`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FrameEvent<'a> {
    thread_id: &'a str,
    run_id: &'a str,
    id: String,
    frame: &'a RawValue,
}

impl RunService {
    pub(crate) async fn agui_subscribe(
        self: Arc<Self>,
        caller: Caller,
        params: Subscribe,
    ) -> Result<SubscribedThread, Error> {
        let agent = caller.connected_agent()?;
        let thread = self.own_thread(&caller, &params.thread_id).await?;
        let has = params.last_event_id.and_then(|text| text.parse::<FrameId>().ok());
        let key = subscription_key(agent, &thread.id);
        let reader = match &params.run_id {
            Some(id) => ThreadFrames::of_run(&self, thread, id, has).await?,
            None => ThreadFrames::of_thread(&self, thread, has).await?,
        };
        let subscription = self.streams.begin(&key, self.ids.tagged("sub"))?;
        let (service, stop) = (self.clone(), self.stop.clone());
        self.tracker.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = subscription.token.cancelled() => {}
                () = service.tell_frames(&key, reader) => service.streams.ended(&key, &subscription),
            }
        });
        Ok(SubscribedThread { subscribed: true })
    }

    /// Until there will be no more, or the connection is gone.
    async fn tell_frames(&self, key: &SubscriptionKey, mut reader: ThreadFrames) {
        let to = Audience::Connection { aid: key.aid.clone(), connection: key.connection };
        let mut missed = 0;
        // The answer to the subscription is on its way.
        sleep(PAUSE).await;
        loop {
            let read = match reader.read().await {
                Ok(read) => read,
                // The client subscribes again, with the last frame that it has.
                Err(error) => {
                    tracing::debug!("frames of {} could not be read: {error}", key.run);
                    return;
                }
            };
            for frame in &read.frames {
                if let Some(event) = told(&key.run, frame) {
                    self.bus.publish(&Event::new(to.clone(), "event/agui.frame", &event));
                }
            }
            if read.is_last {
                return;
            }
            if read.has_more {
                sleep(PAUSE).await;
                continue;
            }
            reader.changed(LOOK_EVERY).await;
            if self.has_left(key, &mut missed) {
                return;
            }
        }
    }
}

/// What a connection is called that is told of a conversation.
pub(super) fn subscription_key(agent: &CallingAgent, thread_id: &str) -> SubscriptionKey {
    SubscriptionKey { aid: agent.aid.clone(), connection: agent.connection, run: thread_id.to_owned() }
}

fn told<'a>(thread_id: &'a str, frame: &'a Frame) -> Option<FrameEvent<'a>> {
    let json = serde_json::from_str::<&RawValue>(&frame.data).ok()?;
    Some(FrameEvent { thread_id, run_id: &frame.run_id, id: frame.id.to_string(), frame: json })
}
