//! A link of the other gateway to ours: its hello is real, and its frames are handed over without a socket.

use super::two_domains::{OURS, THEIRS, TwoDomains};
use crate::connection::{Connection, ConnectionOutbox, OutboxBudget, OutboxItem};
use crate::federation::InboundPeer;
use crate::federation::wire::hello::HelloParams;
use crate::frame::RpcRequest;
use kernel::{CallTerm, Caller, CallingAgent, OnAnswer, PendingAnswer, RemoteService, RpcError};
use parking_lot::Mutex;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::task::TaskTracker;

const NONCE: &str = "the nonce of the challenge";

pub struct InboundLink {
    pub domains: TwoDomains,
    /// Answers for the message service of our domain.
    pub service: Arc<RecordingService>,
    inbound: Arc<InboundPeer>,
    connection: Arc<Connection>,
}

/// Records who called which method, and answers with the parameters.
#[derive(Default)]
pub struct RecordingService {
    pub calls: Mutex<Vec<(Caller, String)>>,
}

impl RemoteService for RecordingService {
    fn call(&self, caller: Caller, method: &str, params: Option<&RawValue>, _: Duration) -> PendingAnswer {
        self.calls.lock().push((caller, method.to_owned()));
        Box::pin(ready(Ok(params.unwrap_or(RawValue::NULL).to_owned().into())))
    }

    fn send(&self, _: &CallingAgent, _: &str, _: Option<&RawValue>, _: CallTerm, _: OnAnswer) {
        unreachable!("a relay has no session here")
    }

    fn is_up(&self) -> bool {
        true
    }
}

impl InboundLink {
    pub async fn open(domains: TwoDomains) -> InboundLink {
        let service = Arc::<RecordingService>::default();
        domains.fed.mesh.add_remote("message", service.clone());
        let budget = OutboxBudget::new(1 << 20, 1 << 20, domains.fed.metrics.clone());
        let outbox = ConnectionOutbox::new(Arc::new(budget));
        let connection = Arc::new(Connection::new(1, [127, 0, 0, 1].into(), outbox));
        let (theirs, now) = (&domains.remote.fed, domains.fed.clock.now_ms());
        let hello = HelloParams::new(&theirs.identity, THEIRS, OURS, NONCE, "c".repeat(43), now);
        let hello = to_raw_value(&hello).unwrap();
        let accepted = domains.fed.accept_hello(&connection, NONCE, 0, Some(&hello)).await;
        let (inbound, _) = accepted.unwrap();
        InboundLink { domains, service, inbound, connection }
    }

    /// What the other gateway gets for a relay: how the method ended, or why the relay was refused.
    pub fn relay(&self, relay: &Value) -> Result<Value, RpcError> {
        let (id, params) = (to_raw_value(&1).unwrap(), to_raw_value(relay).unwrap());
        let request = RpcRequest { id: Some(&id), method: "federation.relay".into(), params: Some(&params) };
        self.domains.fed.receive_frame(&self.inbound, &self.connection, &TaskTracker::new(), &request)?;
        let Some(OutboxItem::Frame(answer)) = self.connection.outbox.pop() else { panic!("no answer") };
        let mut answer: Value = serde_json::from_str(&answer).unwrap();
        match answer.get_mut("error") {
            Some(error) => Err(serde_json::from_value(error.take()).unwrap()),
            None => Ok(answer["result"].take()),
        }
    }

    pub fn refusal(&self, relay: &Value) -> Option<(i32, String)> {
        let error = self.relay(relay).err()?;
        let reason = error.data("reason").and_then(Value::as_str).unwrap_or_default();
        Some((error.code(), reason.to_owned()))
    }

    /// With which code the link is closed, if it is.
    pub fn close_code(&self) -> Option<u16> {
        match self.connection.outbox.pop() {
            Some(OutboxItem::CloseReason(reason)) => Some(reason.code),
            _ => None,
        }
    }

    /// Who called the service last.
    pub fn last_caller(&self) -> Caller {
        self.service.calls.lock().last().expect("somebody called").0.clone()
    }
}

/// A relay of a method of `message` by this caller.
pub fn relay_by(kind: &str, aid: &str, method: &str, params: Value) -> Value {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    json!({
        "relay_id": format!("r-{number}"), "namespace": "message", "method": method, "hop": 1, "depth": 0,
        "caller": { "type": kind, "aid": aid }, "params": params,
    })
}

/// The same with some members changed.
pub fn with(mut relay: Value, change: Value) -> Value {
    relay.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    relay
}
