//! `federation.relay_batch`, and what else a gateway of another domain may send after its hello.

use super::accept::InboundPeer;
use super::limits::BATCH_ITEMS;
use super::relay_task::{self, FrameTime, InboundRelay, RelayReply};
use crate::connection::Connection;
use crate::federation::Federation;
use crate::federation::errors::{quoted, refused};
use crate::frame::{self, RpcRequest};
use futures_util::FutureExt as _;
use kernel::{RpcError, codes, read_params};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// About the size of one outcome.
const ITEM_BYTES: usize = 320;

#[derive(Deserialize)]
pub(in crate::federation) struct RelayBatchParams<'a> {
    batch_id: String,
    /// Parsed one by one, so that a malformed item fails alone.
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

/// How the answer is written.
enum AnswerForm {
    One,
    Many { batch_id: String },
}

impl Federation {
    /// Begins what a frame asks for; the answer goes to the outbox of the connection. `Err` is answered at once.
    pub fn receive_frame(
        self: &Arc<Self>,
        inbound: &Arc<InboundPeer>,
        link: &Arc<Connection>,
        tracker: &TaskTracker,
        request: &RpcRequest<'_>,
    ) -> Result<(), RpcError> {
        let now = FrameTime { at: Instant::now(), ms: self.clock.now_ms() };
        let (form, relays) = self.read(inbound, request, &now)?;
        let in_flight = RelaysInFlight::new(link, u32::try_from(relays.len()).unwrap_or(u32::MAX));
        let id = request.id.map(ToOwned::to_owned);
        let (federation, inbound) = (self.clone(), inbound.clone());
        // One task for the frame, not one for each of many small relays.
        let mut answering = Box::pin(async move {
            let relays = relay_task::run_all(&federation, relays, now).await;
            if let Some(answer) = federation.answer(&inbound, form, relays, id.as_deref()) {
                in_flight.link.outbox.push(answer.into());
            }
        });
        // Polled before the next frame is read, so that the relays of one gateway begin in their order.
        if (&mut answering).now_or_never().is_none() {
            tracker.spawn(answering);
        }
        Ok(())
    }

    fn read(
        self: &Arc<Self>,
        inbound: &InboundPeer,
        request: &RpcRequest<'_>,
        now: &FrameTime,
    ) -> Result<(AnswerForm, Vec<InboundRelay>), RpcError> {
        match &*request.method {
            "federation.relay" => {
                let relay = read_params("federation.relay", request.params).map_err(malformed)?;
                Ok((AnswerForm::One, vec![self.begin_relay(inbound, relay, now)]))
            }
            "federation.relay_batch" => {
                let batch: RelayBatchParams<'_> =
                    read_params("federation.relay_batch", request.params).map_err(malformed)?;
                if batch.items.len() > BATCH_ITEMS {
                    return Err(refused("batch", format!("a batch must have at most {BATCH_ITEMS} relays")));
                }
                let relays = batch.items.into_iter().map(|item| self.read_item(inbound, item, now)).collect();
                Ok((AnswerForm::Many { batch_id: batch.batch_id }, relays))
            }
            "federation.hello" => {
                Err(refused("already_authenticated", "federation.hello was already accepted on this link"))
            }
            other => Err(RpcError::new(
                codes::METHOD_NOT_FOUND,
                format!("method {:?} not found on a link between domains", quoted(other)),
            )),
        }
    }

    fn read_item(self: &Arc<Self>, inbound: &InboundPeer, item: &RawValue, now: &FrameTime) -> InboundRelay {
        match read_params("federation.relay", Some(item)) {
            Ok(relay) => self.begin_relay(inbound, relay, now),
            Err(error) => InboundRelay::ended(relay_id(item).into(), RelayReply::Refused(malformed(error))),
        }
    }

    /// The answer to the frame; `None` for a notification.
    fn answer(
        &self,
        inbound: &InboundPeer,
        form: AnswerForm,
        relays: Vec<InboundRelay>,
        id: Option<&RawValue>,
    ) -> Option<String> {
        let mut text = match &form {
            AnswerForm::One => String::new(),
            AnswerForm::Many { batch_id } => {
                let batch_id = serde_json::to_string(batch_id).unwrap_or_default();
                let mut text = String::with_capacity(relays.len() * ITEM_BYTES + 128);
                text.extend(["{\"batch_id\":", &batch_id, ",\"results\":["]);
                text
            }
        };
        for (nth, relay) in relays.into_iter().enumerate() {
            let relay_id = relay.relay_id.clone();
            let reply = relay.into_reply();
            if let RelayReply::Refused(error) = &reply {
                self.log_refusal(inbound, error);
            }
            match (&form, reply) {
                (AnswerForm::One, RelayReply::Answered(outcome)) => {
                    return Some(frame::success(id?, &outcome));
                }
                (AnswerForm::One, RelayReply::Refused(error)) => {
                    return Some(frame::failure(Some(id?), &error));
                }
                (AnswerForm::Many { .. }, reply) => {
                    text.push_str(if nth > 0 { "," } else { "" });
                    text.push_str(&reply.item(&relay_id));
                }
            }
        }
        text.push_str("]}");
        Some(frame::success(id?, &text))
    }

    fn log_refusal(&self, inbound: &InboundPeer, error: &RpcError) {
        let reason = error.data("reason").and_then(|reason| reason.as_str()).unwrap_or("other");
        tracing::debug!(peer.issuer = %inbound.issuer, code = error.code(), reason, "refused a relay");
    }
}

fn malformed(error: RpcError) -> RpcError {
    error.with("reason", "params")
}

/// The id of a relay that is malformed otherwise, for its answer.
fn relay_id(item: &RawValue) -> String {
    #[derive(Deserialize)]
    struct RelayIdMember {
        relay_id: String,
    }
    serde_json::from_str(item.get())
        .map_or_else(|_| String::new(), |RelayIdMember { relay_id }| quoted(&relay_id))
}

/// Counts relays as in flight until it is dropped, however they end.
struct RelaysInFlight {
    link: Arc<Connection>,
    count: u32,
}

impl RelaysInFlight {
    fn new(link: &Arc<Connection>, count: u32) -> RelaysInFlight {
        link.in_flight.fetch_add(count, Ordering::Relaxed);
        RelaysInFlight { link: link.clone(), count }
    }
}

impl Drop for RelaysInFlight {
    fn drop(&mut self) {
        self.link.in_flight.fetch_sub(self.count, Ordering::Relaxed);
        self.link.outbox.wake_reader();
    }
}
