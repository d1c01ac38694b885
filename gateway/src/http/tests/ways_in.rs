//! Every method of a service over every way in, on a real socket: services that are up, that are down, and that
//! the server does not have.

use super::request;
use super::streaming_server::StreamingServer;
use crate::admission::Admission;
use crate::config::Config;
use axum::body::Body;
use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::BodyExt as _;
use kernel::{
    Answer, CallTerm, Caller, CallingAgent, OnAnswer, PendingAnswer, RemoteService, RpcError, World,
    unavailable,
};
use parking_lot::Mutex;
use proto_schemas::{HttpRouteBody, Method, methods};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use std::future::ready;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

const LONG: Duration = Duration::from_secs(60);
const ALICE: &str = "token-of-alice.aid.pub";
const METHOD_NOT_FOUND: i64 = -32601;
const UNAVAILABLE: i64 = 5003;

/// Remembers the parameters that reached it.
struct ReachedService {
    up: AtomicBool,
    reached: Mutex<Value>,
}

impl ReachedService {
    fn answer(&self, method: &str, params: Option<&RawValue>) -> Result<Answer, RpcError> {
        if !self.is_up() {
            return Err(unavailable("test"));
        }
        let params: Value = params.map_or(Value::Null, |params| serde_json::from_str(params.get()).unwrap());
        *self.reached.lock() = params;
        Ok(to_raw_value(&json!({ "said_by": method })).unwrap().into())
    }
}

impl RemoteService for ReachedService {
    fn call(&self, _: Caller, method: &str, params: Option<&RawValue>, _: Duration) -> PendingAnswer {
        Box::pin(ready(self.answer(method, params)))
    }

    fn send(
        &self,
        _: &CallingAgent,
        method: &str,
        params: Option<&RawValue>,
        term: CallTerm,
        then: OnAnswer,
    ) {
        match self.answer(method, params) {
            Ok(answer) => then(Ok(answer.as_ref()), term.began),
            Err(error) => then(Err(error), term.began),
        }
    }

    fn is_up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }
}

/// A server with all services but `absent`, and an agent with all that it can call with.
struct EveryWay {
    server: StreamingServer,
    services: Arc<ReachedService>,
    socket: WebSocketStream<TcpStream>,
}

#[derive(Clone, Copy, Debug)]
enum JsonRpcWay {
    Frame,
    Batch,
    Http,
    HttpArray,
}

const JSON_RPC: [JsonRpcWay; 4] =
    [JsonRpcWay::Frame, JsonRpcWay::Batch, JsonRpcWay::Http, JsonRpcWay::HttpArray];

impl EveryWay {
    async fn without(absent: &str) -> EveryWay {
        let config = Config::parse(&no_limits(), &crate::config::test_services()).unwrap();
        let world = World::local(&config.issuer, Path::new("unused"), config.store_url().unwrap());
        let services = Arc::new(ReachedService { up: AtomicBool::new(true), reached: Mutex::default() });
        let ours = |service: &str| !["gateway", "auth", absent].contains(&service);
        for namespace in proto_schemas::namespaces().iter().filter(|namespace| ours(namespace.service)) {
            world.mesh.add_remote(namespace.name, services.clone());
        }
        let admission = Arc::new(Admission::new(&config, &world));
        let server = StreamingServer::of(config, &world, admission).await;
        let stream = TcpStream::connect(server.address).await.unwrap();
        let (mut socket, _) = client_async("ws://gateway.aid.pub/aun", stream).await.unwrap();
        let challenge = next(&mut socket).await;
        let hello = json!({
            "nonce": challenge["params"]["nonce"],
            "auth": { "method": "kite_token", "token": ALICE },
            "protocol": { "min": "1.0", "max": "1.0" },
            "device": { "id": "laptop", "type": "sdk" },
            "client": { "slot_id": "default" },
        });
        let mut every = EveryWay { server, services, socket };
        let opened = every
            .frame(&json!({ "jsonrpc": "2.0", "id": 7, "method": "auth.connect", "params": hello }))
            .await;
        assert!(opened.get("result").is_some(), "{opened}");
        every
    }

    async fn frame(&mut self, frame: &Value) -> Value {
        self.socket.send(Message::text(frame.to_string())).await.unwrap();
        loop {
            let answer = next(&mut self.socket).await;
            if answer.get("method").is_none() {
                return answer;
            }
        }
    }

    async fn http(&self, verb: &str, path: &str, body: &Value) -> (u16, Value) {
        let request = request(verb, path)
            .header("authorization", format!("Bearer {ALICE}"))
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .unwrap();
        let (head, body) = self.server.send(request).await.into_parts();
        let body = timeout(LONG, body.collect()).await.expect("the answer ends").unwrap().to_bytes();
        (head.status.as_u16(), serde_json::from_slice(&body).unwrap_or_default())
    }

    /// What reached a service since this was asked for the last time.
    fn reached(&self) -> Value {
        self.services.reached.lock().take()
    }

    async fn call(&mut self, way: JsonRpcWay, method: &str, params: &Value) -> Value {
        let call = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        match way {
            JsonRpcWay::Frame => self.frame(&call).await,
            JsonRpcWay::Batch => self.frame(&json!([call])).await[0].take(),
            JsonRpcWay::Http => self.http("POST", "/rpc", &call).await.1,
            JsonRpcWay::HttpArray => self.http("POST", "/rpc", &json!([call])).await.1[0].take(),
        }
    }
}

/// Each method is called often here.
fn no_limits() -> String {
    let most = "limits.calls_per_second = 100000\nlimits.http_per_second = 100000\n".to_owned();
    let classes = proto_schemas::namespaces().iter().flat_map(|namespace| namespace.rates);
    classes.fold(most, |text, class| text + &format!("limits.classes.\"{}\" = 100000\n", class.name))
}

async fn next(socket: &mut WebSocketStream<TcpStream>) -> Value {
    let message = timeout(LONG, socket.next()).await.expect("a frame").unwrap().unwrap();
    serde_json::from_str(message.to_text().unwrap()).unwrap()
}

/// Those that a session and a token have alike, of services that are not the gateway.
fn called() -> impl Iterator<Item = &'static Method> {
    methods().iter().filter(|method| {
        let service = method.namespace.service;
        method.access.is_for_agents()
            && !method.needs_connection
            && !method.notification
            && !["gateway", "auth"].contains(&service)
    })
}

/// A verb and a path, with something in each part of it.
fn routes(method: &'static Method) -> impl Iterator<Item = (&'static str, String)> {
    let ours =
        method.http.iter().filter(|route| route.access.tokens.contains(&"access") && !route.own_answer);
    ours.map(|route| {
        let parts = route.path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
        (route.method, parts.collect::<Vec<_>>().join("/"))
    })
}

#[tokio::test]
async fn a_method_without_its_service_is_not_found_and_one_that_is_down_may_be_asked_again() {
    let mut every = EveryWay::without("search").await;
    every.services.up.store(false, Ordering::Relaxed);
    every.server.gateway.admission.refresh_capabilities();
    for method in called() {
        let absent = method.namespace.service == "search";
        let (code, status) = if absent { (METHOD_NOT_FOUND, 404) } else { (UNAVAILABLE, 503) };
        for way in JSON_RPC {
            let refused = every.call(way, method.name, &json!({})).await;
            assert_eq!(refused["error"]["code"], code, "{way:?} {}: {refused}", method.name);
        }
        for (verb, path) in routes(method) {
            let refused = every.http(verb, &path, &json!({})).await;
            assert_eq!(refused.0, status, "{verb} {path}: {refused:?}");
        }
    }
}

#[tokio::test]
async fn reserved_members_are_removed_at_the_top_and_kept_below_over_every_way() {
    let mut every = EveryWay::without("").await;
    let sent =
        json!({ "_caller": "operator", "_trace": 7, "kept": { "_theirs": 1 }, "list": [{ "_also": 2 }] });
    let expected = json!({ "kept": { "_theirs": 1 }, "list": [{ "_also": 2 }] });
    for method in called() {
        for way in JSON_RPC {
            let answer = every.call(way, method.name, &sent).await;
            assert_eq!(every.reached(), expected, "{way:?} {}: {answer}", method.name);
        }
        for (verb, path) in routes(method).filter(|(verb, _)| *verb != "GET") {
            let (_, answer) = every.http(verb, &path, &sent).await;
            let reached = every.reached();
            assert!(
                reached.get("_caller").is_none() && reached.get("_trace").is_none(),
                "{verb} {path}: {reached}"
            );
            let has_body =
                method.http.iter().any(|route| route.method == verb && route.body == HttpRouteBody::Params);
            assert_eq!(
                reached.get("kept"),
                expected.get("kept").filter(|_| has_body),
                "{verb} {path}: {answer}"
            );
        }
    }
}
