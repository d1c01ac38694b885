//! `federation.relay_batch`, and what else a gateway of another domain may send after its hello.

use super::accept::{BATCH_ITEMS, Guest};
use super::relay::short;
use super::wire::Relay;
use super::work::{self, Now, Told, Work};
use super::{Federation, refused};
use crate::connection::Connection;
use crate::frame::{self, RpcRequest};
use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::value::RawValue;
use services::kernel::{RpcError, codes};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// What one outcome weighs, about.
const ITEM_BYTES: usize = 320;

#[derive(Deserialize)]
struct Batch<'a> {
    batch_id: String,
    /// Each stands or falls by itself, so each is read by itself.
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

/// How the answer is written.
enum Form {
    One,
    Many { batch_id: String },
}

impl Federation {
    /// Begins what a frame asks for; the answer goes to the link's outbox. `Err` is answered at once.
    pub fn asked(
        self: &Arc<Self>,
        guest: &Arc<Guest>,
        link: &Arc<Connection>,
        tracker: &TaskTracker,
        request: &RpcRequest<'_>,
    ) -> Result<(), RpcError> {
        let now = Now { at: Instant::now(), ms: self.clock.now_ms() };
        let (form, works) = self.read(guest, request, &now)?;
        let under_way = UnderWay::new(link, u32::try_from(works.len()).unwrap_or(u32::MAX));
        let id = request.id.map(ToOwned::to_owned);
        let (federation, guest) = (self.clone(), guest.clone());
        // In one task: a frame of many small relays must not become a crowd of tasks.
        let mut answering = Box::pin(async move {
            let works = work::all(&federation, works, now).await;
            if let Some(answer) = federation.answer(&guest, form, works, id.as_deref()) {
                under_way.link.outbox.push(answer.into());
            }
        });
        // Begun here and now, so that what one gateway relays is begun in the order it was relayed.
        if (&mut answering).now_or_never().is_none() {
            tracker.spawn(answering);
        }
        Ok(())
    }

    fn read(
        self: &Arc<Self>,
        guest: &Guest,
        request: &RpcRequest<'_>,
        now: &Now,
    ) -> Result<(Form, Vec<Work>), RpcError> {
        let text = request.params.map_or("{}", RawValue::get);
        match &*request.method {
            "federation.relay" => {
                let relay: Relay<'_> = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
                Ok((Form::One, vec![self.begin_relay(guest, relay, now)]))
            }
            "federation.relay_batch" => {
                let batch: Batch<'_> = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
                if batch.items.len() > BATCH_ITEMS {
                    return Err(refused("batch", format!("a batch holds at most {BATCH_ITEMS} relays")));
                }
                let works = batch.items.into_iter().map(|item| self.read_item(guest, item, now)).collect();
                Ok((Form::Many { batch_id: batch.batch_id }, works))
            }
            "federation.hello" => Err(refused("already_authenticated", "this link said hello already")),
            other => Err(RpcError::new(
                codes::METHOD_NOT_FOUND,
                format!("there is no method {:?} on this link", short(other)),
            )),
        }
    }

    fn read_item(self: &Arc<Self>, guest: &Guest, item: &RawValue, now: &Now) -> Work {
        match serde_json::from_str::<Relay<'_>>(item.get()) {
            Ok(relay) => self.begin_relay(guest, relay, now),
            Err(error) => Work::told(relay_id(item).into(), Told::Refused(unreadable(&error))),
        }
    }

    /// What all of them came to, if somebody wants to know.
    fn answer(&self, guest: &Guest, form: Form, works: Vec<Work>, id: Option<&RawValue>) -> Option<String> {
        let mut text = match &form {
            Form::One => String::new(),
            Form::Many { batch_id } => {
                let batch_id = serde_json::to_string(batch_id).unwrap_or_default();
                let mut text = String::with_capacity(works.len() * ITEM_BYTES + 128);
                text.extend(["{\"batch_id\":", &batch_id, ",\"results\":["]);
                text
            }
        };
        for (nth, work) in works.into_iter().enumerate() {
            let relay_id = work.relay_id.clone();
            let told = work.into_told();
            if let Told::Refused(error) = &told {
                self.note_refusal(guest, error);
            }
            match (&form, told) {
                (Form::One, Told::Outcome(outcome)) => return Some(frame::success(id?, &outcome)),
                (Form::One, Told::Refused(error)) => return Some(frame::failure(Some(id?), &error)),
                (Form::Many { .. }, told) => {
                    text.push_str(if nth > 0 { "," } else { "" });
                    text.push_str(&told.item(&relay_id));
                }
            }
        }
        text.push_str("]}");
        Some(frame::success(id?, &text))
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

/// Counts relays as under way until it is dropped, however they end.
struct UnderWay {
    link: Arc<Connection>,
    count: u32,
}

impl UnderWay {
    fn new(link: &Arc<Connection>, count: u32) -> UnderWay {
        link.in_flight.fetch_add(count, Ordering::Relaxed);
        UnderWay { link: link.clone(), count }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.link.in_flight.fetch_sub(self.count, Ordering::Relaxed);
        self.link.outbox.wake_reader();
    }
}
