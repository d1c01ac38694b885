//! Both ends of a link in one process, with no TLS between them.

use super::Wiring;
use super::link::Link;
use super::pump::socket_config;
use super::serve::{Peer, answer};
use super::waiting::Waiting;
use super::wire::{Asker, Question};
use crate::config;
use crate::telemetry::Metrics;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use services::kernel::{AnswerRef, CallTerm, Caller, Clock, Ids, Mesh, Methods, Rpc, RpcError, codes};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::DuplexStream;
use tokio::sync::{Semaphore, mpsc};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const LONG: Duration = Duration::from_secs(60);

struct Service {
    gate: Semaphore,
}

impl Service {
    /// Says what it is told to; waits at the gate, or fails, if it is told to.
    async fn answer(self: Arc<Self>, _: Caller, params: Value) -> Result<Value, RpcError> {
        if params.get("wait").is_some() {
            self.gate.acquire().await.unwrap().forget();
        }
        match params.get("fail") {
            Some(reason) => Err(RpcError::new(codes::RATE_LIMITED, reason)),
            None => Ok(params["say"].clone()),
        }
    }
}

struct Pair {
    link: Arc<Link>,
    near: Arc<Wiring>,
    service: Arc<Service>,
    drain: CancellationToken,
    tracker: TaskTracker,
}

fn wiring() -> Arc<Wiring> {
    Arc::new(Wiring {
        settings: config::Mesh::default(),
        mesh: Arc::new(Mesh::default()),
        metrics: Arc::new(Metrics::new()),
        clock: Clock::System,
        ids: Ids::default(),
        tracker: TaskTracker::new(),
        stop: CancellationToken::new(),
    })
}

async fn socket(stream: DuplexStream, role: Role) -> WebSocketStream<DuplexStream> {
    WebSocketStream::from_raw_socket(stream, role, Some(socket_config())).await
}

/// The asking end, and the other end of its socket.
async fn asking() -> (Arc<Link>, Arc<Wiring>, TaskTracker, WebSocketStream<DuplexStream>) {
    let (near, tracker) = (wiring(), TaskTracker::new());
    let link = Arc::new(Link::new("message", "wss://x", near.metrics.link("message", "wss://x")));
    let (here, there) = tokio::io::duplex(1 << 20);
    let (here, there) = (socket(here, Role::Client).await, socket(there, Role::Server).await);
    let mut changes = near.mesh.changes();
    let (speaking, wires) = (link.clone(), near.clone());
    tracker.spawn(async move { speaking.speak(here, i64::MAX, &wires).await });
    while !link.is_open() {
        changes.changed().await.unwrap();
    }
    (link, near, tracker, there)
}

async fn pair() -> Pair {
    let (link, near, tracker, there) = asking().await;
    let service = Arc::new(Service { gate: Semaphore::new(0) });
    let far = wiring();
    let methods: Methods = Rpc::new(service.clone()).method("message.send", Service::answer).into();
    far.mesh.add_local("message", methods);
    let (drain, calls) = (CancellationToken::new(), tracker.clone());
    let stop = drain.clone();
    tracker.spawn(async move {
        let peer = Peer { parts: vec!["gateway"], until: i64::MAX };
        answer(&far, there, peer, calls, stop).await;
    });
    Pair { link, near, service, drain, tracker }
}

fn call(link: &Arc<Link>, params: Value, within: Duration) -> Waiting {
    let params = to_raw_value(&params).unwrap();
    let term = CallTerm { began: Instant::now(), within };
    let question = Question { method: "message.send", params: Some(&params), term, trace: None };
    link.call(Asker::Other(&Caller::Operator), &question)
}

#[tokio::test]
async fn what_is_ready_is_answered_in_the_order_it_was_asked() {
    let Pair { link, .. } = pair().await;
    let (heard, mut answers) = mpsc::unbounded_channel();
    for number in 0..1000 {
        let (params, heard) = (to_raw_value(&json!({ "say": number })).unwrap(), heard.clone());
        let term = CallTerm { began: Instant::now(), within: LONG };
        let question = Question { method: "message.send", params: Some(&params), term, trace: None };
        let then = move |outcome: Result<AnswerRef<'_>, RpcError>, _| {
            heard.send(outcome.unwrap().result.get().to_owned()).unwrap();
        };
        link.send(Asker::Other(&Caller::Operator), &question, Box::new(then));
    }
    for number in 0..1000 {
        assert_eq!(answers.recv().await.unwrap(), number.to_string());
    }
    assert_eq!(link.pending(), 0);
}

#[tokio::test]
async fn an_error_arrives_as_it_was_said_and_holds_up_nobody() {
    let Pair { link, service, .. } = pair().await;
    let slow = call(&link, json!({ "wait": 1, "say": "slow" }), LONG);
    let failed = call(&link, json!({ "fail": "because" }), LONG).await.unwrap_err();
    assert_eq!((failed.code(), failed.to_string()), (-32029, "\"because\"".to_owned()));
    service.gate.add_permits(1);
    assert_eq!(slow.await.unwrap().result.get(), "\"slow\"");
}

#[tokio::test]
async fn nobody_waits_longer_than_was_said_even_if_the_other_side_is_silent() {
    let (link, _near, _tracker, _silent) = asking().await;
    let error = call(&link, json!({}), Duration::from_millis(1)).await.unwrap_err();
    assert!(error.to_string().starts_with("rpc handler timeout"), "{error}");
    assert_eq!(link.pending(), 0);
}

#[tokio::test]
async fn the_answering_side_gives_up_in_time_too() {
    let Pair { link, service, .. } = pair().await;
    let at_rest = Arc::strong_count(&service);
    let hurried = call(&link, json!({ "wait": 1 }), Duration::from_millis(1));
    assert!(hurried.await.unwrap_err().to_string().starts_with("rpc handler timeout"));
    // Whoever is at work in the service holds it.
    let given_up = async {
        while Arc::strong_count(&service) > at_rest {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LONG, given_up).await.expect("it does not give up");
    service.gate.add_permits(1);
    assert_eq!(call(&link, json!({ "wait": 1, "say": 1 }), LONG).await.unwrap().result.get(), "1");
}

#[tokio::test]
async fn whoever_stops_waiting_leaves_no_place_taken() {
    let Pair { link, .. } = pair().await;
    let waiting = call(&link, json!({ "wait": 1 }), LONG);
    assert_eq!(link.pending(), 1);
    drop(waiting);
    assert_eq!(link.pending(), 0);
}

#[tokio::test]
async fn a_process_that_leaves_answers_first_what_it_has_begun() {
    let Pair { link, near, service, drain, tracker } = pair().await;
    let mut changes = near.mesh.changes();
    let begun = call(&link, json!({ "wait": 1, "say": "begun" }), LONG);
    // Answered after the first was begun: the other side is at work on it.
    call(&link, json!({ "say": 1 }), LONG).await.unwrap();
    drain.cancel();
    while link.is_open() {
        changes.changed().await.unwrap();
    }
    let refused = call(&link, json!({}), LONG).await.unwrap_err();
    assert!(refused.to_string().contains("not available"), "{refused}");
    service.gate.add_permits(1);
    assert_eq!(begun.await.unwrap().result.get(), "\"begun\"");
    tracker.close();
    tracker.wait().await;
    assert_eq!(near.mesh.losses("message"), 0, "it said close reason");
}

#[tokio::test]
async fn those_who_wait_are_told_when_the_wire_breaks() {
    let (link, near, tracker, there) = asking().await;
    let waiting = call(&link, json!({}), LONG);
    drop(there);
    let error = waiting.await.unwrap_err();
    assert!(error.to_string().contains("went away before it answered"), "{error}");
    tracker.close();
    tracker.wait().await;
    assert_eq!(near.mesh.losses("message"), 1);
}
