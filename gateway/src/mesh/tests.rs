//! Both ends of a mesh link in one process, without TLS between them.

use super::MeshContext;
use super::link::{CallFuture, MeshLink};
use super::peer::MeshPeer;
use super::serve::serve_link;
use super::socket::{ANSWER_BYTES, socket_config};
use super::wire::{CallerRef, OutgoingCall};
use crate::config;
use crate::telemetry::Metrics;
use futures_util::StreamExt as _;
use futures_util::future::select;
use kernel::{AnswerRef, CallTerm, Caller, Clock, Mesh, Methods, Rpc, RpcError, codes};
use proto_schemas::Request;
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::DuplexStream;
use tokio::sync::{Semaphore, mpsc};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const LONG: Duration = Duration::from_secs(60);

/// A call that is answered with `say`, or with so `many` characters; with `wait` after a permit, with `fail` not at all.
#[derive(Serialize, Deserialize)]
struct Echo {
    #[serde(default)]
    say: Value,
    many: Option<usize>,
    wait: Option<u8>,
    fail: Option<String>,
}

impl Request for Echo {
    const METHOD: &'static str = "message.send";
    type Result = Value;
}

struct EchoService {
    /// A call that waits needs a permit.
    permits: Semaphore,
}

impl EchoService {
    async fn answer(
        self: Arc<Self>,
        _: Caller,
        Echo { say, many, wait, fail }: Echo,
    ) -> Result<Value, RpcError> {
        if wait.is_some() {
            self.permits.acquire().await.unwrap().forget();
        }
        match fail {
            Some(reason) => Err(RpcError::new(codes::RATE_LIMITED, reason)),
            None => Ok(many.map_or(say, |many| Value::from("m".repeat(many)))),
        }
    }
}

struct LinkedPair {
    link: Arc<MeshLink>,
    context: Arc<MeshContext>,
    service: Arc<EchoService>,
    drain: CancellationToken,
    tracker: TaskTracker,
}

fn new_context() -> Arc<MeshContext> {
    Arc::new(MeshContext {
        settings: config::MeshConfig::default(),
        mesh: Arc::new(Mesh::default()),
        metrics: Arc::new(Metrics::new()),
        clock: Clock::System,
        tracker: TaskTracker::new(),
        stop: CancellationToken::new(),
    })
}

async fn socket(stream: DuplexStream, role: Role) -> WebSocketStream<DuplexStream> {
    WebSocketStream::from_raw_socket(stream, role, Some(socket_config())).await
}

/// A link, and the other end of its socket.
async fn link() -> (Arc<MeshLink>, Arc<MeshContext>, TaskTracker, WebSocketStream<DuplexStream>) {
    let (context, tracker) = (new_context(), TaskTracker::new());
    let link = Arc::new(MeshLink::new("message", "wss://x", context.metrics.link("message", "wss://x")));
    let (local, remote) = tokio::io::duplex(1 << 20);
    let (local, remote) = (socket(local, Role::Client).await, socket(remote, Role::Server).await);
    let mut changes = context.mesh.changes();
    let (running, shared) = (link.clone(), context.clone());
    tracker.spawn(async move { running.run(local, i64::MAX, &shared).await });
    while !link.is_open() {
        changes.changed().await.unwrap();
    }
    (link, context, tracker, remote)
}

async fn linked_pair() -> LinkedPair {
    let (link, context, tracker, socket) = link().await;
    let service = Arc::new(EchoService { permits: Semaphore::new(0) });
    let remote = new_context();
    let methods: Methods = Rpc::new(service.clone()).method(EchoService::answer).into();
    remote.mesh.add_local("message", methods);
    let (drain, calls) = (CancellationToken::new(), tracker.clone());
    let stop = drain.clone();
    tracker.spawn(async move {
        let peer = MeshPeer { services: vec!["gateway"], not_after: i64::MAX };
        serve_link(&remote, socket, peer, calls, stop).await;
    });
    LinkedPair { link, context, service, drain, tracker }
}

fn call(link: &Arc<MeshLink>, params: Value, within: Duration) -> CallFuture {
    let params = to_raw_value(&params).unwrap();
    let term = CallTerm { began: Instant::now(), within };
    let call = OutgoingCall { method: Echo::METHOD, params: Some(&params), term, trace: None };
    link.call(CallerRef::Other(&Caller::service("gateway")), &call)
}

#[tokio::test]
async fn calls_that_end_at_once_are_answered_in_their_order() {
    let LinkedPair { link, .. } = linked_pair().await;
    let (answered, mut answers) = mpsc::unbounded_channel();
    for n in 0..1000 {
        let (params, answered) = (to_raw_value(&json!({ "say": n })).unwrap(), answered.clone());
        let term = CallTerm { began: Instant::now(), within: LONG };
        let call = OutgoingCall { method: Echo::METHOD, params: Some(&params), term, trace: None };
        let then = move |outcome: Result<AnswerRef<'_>, RpcError>, _| {
            answered.send(outcome.unwrap().result.get().to_owned()).unwrap();
        };
        link.send(CallerRef::Other(&Caller::service("gateway")), &call, Box::new(then));
    }
    for n in 0..1000 {
        assert_eq!(answers.recv().await.unwrap(), n.to_string());
    }
    assert_eq!(link.pending(), 0);
}

#[tokio::test]
async fn the_calling_side_hears_which_namespaces_are_turned_off() {
    let (link, context, tracker, socket) = link().await;
    let (remote, calls, mut changes) = (new_context(), tracker.clone(), context.mesh.changes());
    remote.mesh.add_local("message", Methods::default());
    remote.mesh.add_local("search", Methods::default());
    remote.mesh.turn_off("search");
    assert_eq!((remote.mesh.advertised(), remote.mesh.namespaces().len()), (vec!["message"], 2));
    tracker.spawn(async move {
        let peer = MeshPeer { services: vec!["gateway"], not_after: i64::MAX };
        serve_link(&remote, socket, peer, calls, CancellationToken::new()).await;
    });
    while !link.is_turned_off("search") {
        changes.changed().await.unwrap();
    }
    assert!(link.is_open() && !link.is_turned_off("message"));
}

#[tokio::test]
async fn an_error_arrives_unchanged_and_a_slow_call_delays_no_other() {
    let LinkedPair { link, service, .. } = linked_pair().await;
    let slow = call(&link, json!({ "wait": 1, "say": "slow" }), LONG);
    let failed = call(&link, json!({ "fail": "because" }), LONG).await.unwrap_err();
    assert_eq!((failed.code(), failed.to_string()), (-32029, "because".to_owned()));
    service.permits.add_permits(1);
    assert_eq!(slow.await.unwrap().result.get(), "\"slow\"");
}

#[tokio::test]
async fn an_answer_that_no_frame_can_carry_fails_alone() {
    let LinkedPair { link, service, .. } = linked_pair().await;
    let slow = call(&link, json!({ "wait": 1, "say": "slow" }), LONG);
    let large = call(&link, json!({ "many": ANSWER_BYTES - 2 }), LONG).await.unwrap();
    assert_eq!(large.result.get().len(), ANSWER_BYTES);
    let refused = call(&link, json!({ "many": ANSWER_BYTES - 1 }), LONG).await.unwrap_err();
    assert_eq!(refused.code(), codes::INTERNAL.code);
    service.permits.add_permits(1);
    assert_eq!(slow.await.unwrap().result.get(), "\"slow\"", "the link is still there");
}

#[tokio::test]
async fn a_call_times_out_when_the_other_side_is_silent() {
    let (link, _near, _tracker, _silent) = link().await;
    let error = call(&link, json!({}), Duration::from_millis(1)).await.unwrap_err();
    assert!(error.to_string().starts_with("rpc handler timeout"), "{error}");
    assert_eq!(link.pending(), 0);
}

/// Nothing is due on a link without calls but the ping of a side that has received nothing for a while.
#[tokio::test]
async fn a_link_without_calls_sleeps() {
    let (context, (local, remote)) = (new_context(), tokio::io::duplex(1 << 20));
    let link = MeshLink::new("message", "wss://x", context.metrics.link("message", "wss://x"));
    let (local, mut remote) = (socket(local, Role::Client).await, socket(remote, Role::Server).await);
    let (mut polls, mut pings) = (0, 0);
    let mut running = pin!(link.run(local, i64::MAX, &context));
    let counted = poll_fn(|cx| {
        polls += 1;
        running.as_mut().poll(cx)
    });
    let reading = async {
        while let Some(Ok(message)) = remote.next().await {
            pings += usize::from(message.is_ping());
        }
    };
    let awhile = Duration::from_secs(3);
    let ended = tokio::time::timeout(awhile, select(pin!(counted), pin!(reading))).await.is_ok();
    assert!(!ended, "the link ended");
    assert!(pings < 2 && polls < 15, "woken {polls} times, {pings} pings");
}

#[tokio::test]
async fn the_answering_side_ends_a_call_at_its_deadline() {
    let LinkedPair { link, service, .. } = linked_pair().await;
    let at_rest = Arc::strong_count(&service);
    let short = call(&link, json!({ "wait": 1 }), Duration::from_millis(1));
    assert!(short.await.unwrap_err().to_string().starts_with("rpc handler timeout"));
    // A call at work in the service holds a reference to it.
    let ended = async {
        while Arc::strong_count(&service) > at_rest {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LONG, ended).await.expect("the call does not end");
    service.permits.add_permits(1);
    assert_eq!(call(&link, json!({ "wait": 1, "say": 1 }), LONG).await.unwrap().result.get(), "1");
}

#[tokio::test]
async fn a_call_that_is_dropped_frees_its_slot() {
    let LinkedPair { link, .. } = linked_pair().await;
    let dropped = call(&link, json!({ "wait": 1 }), LONG);
    assert_eq!(link.pending(), 1);
    drop(dropped);
    assert_eq!(link.pending(), 0);
}

#[tokio::test]
async fn a_draining_process_answers_the_calls_it_has_begun() {
    let LinkedPair { link, context, service, drain, tracker } = linked_pair().await;
    let mut changes = context.mesh.changes();
    let begun = call(&link, json!({ "wait": 1, "say": "begun" }), LONG);
    // Answered after the first was begun, so the other side is at work on that.
    call(&link, json!({ "say": 1 }), LONG).await.unwrap();
    drain.cancel();
    while link.is_open() {
        changes.changed().await.unwrap();
    }
    let refused = call(&link, json!({}), LONG).await.unwrap_err();
    assert!(refused.to_string().contains("not available"), "{refused}");
    service.permits.add_permits(1);
    assert_eq!(begun.await.unwrap().result.get(), "\"begun\"");
    tracker.close();
    tracker.wait().await;
    assert_eq!(context.mesh.losses("message"), 0, "it drained, so nothing was lost");
}

#[tokio::test]
async fn pending_calls_fail_when_the_connection_breaks() {
    let (link, context, tracker, remote) = link().await;
    let pending = call(&link, json!({}), LONG);
    drop(remote);
    let error = pending.await.unwrap_err();
    assert!(error.to_string().contains("ended before it answered"), "{error}");
    tracker.close();
    tracker.wait().await;
    assert_eq!(context.mesh.losses("message"), 1);
}
