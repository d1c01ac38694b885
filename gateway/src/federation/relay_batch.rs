//! `federation.relay_batch`, and what else a gateway of another domain may send after its hello.

use super::accept::{BATCH_ITEMS, Guest};
use super::relay::{Told, short};
use super::wire::Relay;
use super::{Federation, refused};
use crate::frame::{self, Request};
use crate::session::Link;
use futures_util::FutureExt as _;
use futures_util::stream::{FuturesOrdered, StreamExt as _};
use serde::Deserialize;
use serde_json::value::RawValue;
use services::kernel::{RpcError, codes};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio_util::task::TaskTracker;

#[derive(Deserialize)]
struct Batch {
    batch_id: String,
    /// Each stands or falls by itself, so each is read by itself.
    items: Vec<Box<RawValue>>,
}

/// What a frame asks for.
enum Asked {
    One(Box<Relay>),
    Many(Batch),
}

impl Federation {
    /// Begins what a frame asks for; the answer goes to the link's outbox. `Err` is answered at once.
    pub fn asked(
        self: &Arc<Self>,
        guest: &Arc<Guest>,
        link: &Arc<Link>,
        tracker: &TaskTracker,
        request: &Request<'_>,
    ) -> Result<(), RpcError> {
        let asked = read(request)?;
        let count = match &asked {
            Asked::One(_) => 1,
            Asked::Many(batch) => u32::try_from(batch.items.len()).unwrap_or(u32::MAX),
        };
        let under_way = UnderWay::new(link, count);
        let id = request.id.map(ToOwned::to_owned);
        let (federation, guest) = (self.clone(), guest.clone());
        let mut answering = Box::pin(async move {
            let id = id.as_deref();
            let answer = match asked {
                Asked::One(relay) => federation.one(&guest, *relay, id).await,
                Asked::Many(batch) => federation.many(&guest, batch, id).await,
            };
            if id.is_some() {
                under_way.link.outbox.push(answer.into());
            }
        });
        // Begun here and now, so that what one gateway relays is begun in the order it was relayed.
        if (&mut answering).now_or_never().is_none() {
            tracker.spawn(answering);
        }
        Ok(())
    }

    async fn one(self: &Arc<Self>, guest: &Guest, relay: Relay, id: Option<&RawValue>) -> String {
        match self.relayed(guest, relay).await {
            Told::Outcome(text) => frame::success(id.unwrap_or(RawValue::NULL), &text),
            Told::Refused(error) => {
                self.note_refusal(guest, &error);
                frame::failure(id, &error)
            }
        }
    }

    /// In one task: a frame of many small relays must not become a crowd of tasks.
    async fn many(self: &Arc<Self>, guest: &Guest, batch: Batch, id: Option<&RawValue>) -> String {
        let mut running: FuturesOrdered<_> = batch
            .items
            .into_iter()
            .map(|item| async move {
                let (relay_id, told) = match serde_json::from_str::<Relay>(item.get()) {
                    Ok(relay) => (relay.relay_id.clone(), self.relayed(guest, relay).await),
                    Err(error) => (relay_id(&item), Told::Refused(unreadable(&error))),
                };
                if let Told::Refused(error) = &told {
                    self.note_refusal(guest, error);
                }
                told.item(&relay_id)
            })
            .collect();
        let batch_id = serde_json::to_string(&batch.batch_id).unwrap_or_default();
        let mut text = format!("{{\"batch_id\":{batch_id},\"results\":[");
        let mut first = true;
        while let Some(item) = running.next().await {
            if !std::mem::take(&mut first) {
                text.push(',');
            }
            text.push_str(&item);
        }
        text.push_str("]}");
        frame::success(id.unwrap_or(RawValue::NULL), &text)
    }

    fn note_refusal(&self, guest: &Guest, error: &RpcError) {
        let reason = error.data("reason").and_then(|reason| reason.as_str()).unwrap_or("other");
        tracing::debug!(peer.issuer = %guest.issuer, code = error.code(), reason, "refused a relay");
    }
}

fn unreadable(error: &serde_json::Error) -> RpcError {
    RpcError::new(codes::INVALID_PARAMS, format!("params: {error}")).with("reason", "params")
}

/// The id of a relay that cannot be read otherwise, so that its answer finds it.
fn relay_id(item: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Named {
        relay_id: String,
    }
    serde_json::from_str(item.get()).map_or_else(|_| String::new(), |Named { relay_id }| short(&relay_id))
}

fn read(request: &Request<'_>) -> Result<Asked, RpcError> {
    let text = request.params.map_or("{}", RawValue::get);
    match &*request.method {
        "federation.relay" => {
            Ok(Asked::One(Box::new(serde_json::from_str(text).map_err(|error| unreadable(&error))?)))
        }
        "federation.relay_batch" => {
            let batch: Batch = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
            if batch.items.len() > BATCH_ITEMS {
                return Err(refused("batch", format!("a batch holds at most {BATCH_ITEMS} relays")));
            }
            Ok(Asked::Many(batch))
        }
        "federation.hello" => Err(refused("already_authenticated", "this link said hello already")),
        other => Err(RpcError::new(
            codes::METHOD_NOT_FOUND,
            format!("there is no method {:?} on this link", short(other)),
        )),
    }
}

/// Counts relays as under way until it is dropped, however they end.
struct UnderWay {
    link: Arc<Link>,
    count: u32,
}

impl UnderWay {
    fn new(link: &Arc<Link>, count: u32) -> UnderWay {
        link.in_flight.fetch_add(count, Ordering::Relaxed);
        UnderWay { link: link.clone(), count }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.link.in_flight.fetch_sub(self.count, Ordering::Relaxed);
        self.link.outbox.nudge();
    }
}
