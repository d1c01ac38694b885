//! Every method over every way in, from its schema: who may call it, how often, and what is wrong with a call is answered the same
//! everywhere, in the form of that way.

use std::collections::BTreeMap;

use proto_schemas::{Access, HttpRoute, HttpRouteBody, Method, methods, violations};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};

use super::signature::SignedCall;
use crate::support::TestServer;
use crate::support::agent::{ConnectedAgent, text};
use crate::support::http::TestResponse;

const OK: i64 = 0;
const PARAMS: i64 = -32602;
const NOT_FOUND: i64 = -32601;
const NO_SOCKET: i64 = -32600;
const LOGIN_FIRST: i64 = -32013;
const RATE: i64 = -32029;
const SIGNATURE: i64 = -32051;

/// How a call that is JSON-RPC gets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RpcWay {
    Frame,
    Batch,
    Http,
    HttpArray,
}

const RPC_WAYS: [RpcWay; 4] = [RpcWay::Frame, RpcWay::Batch, RpcWay::Http, RpcWay::HttpArray];

/// An agent with all that it can call with.
struct Somebody<'a> {
    server: &'a TestServer,
    session: ConnectedAgent,
    token: String,
}

impl<'a> Somebody<'a> {
    async fn new(server: &'a TestServer, name: &str) -> Somebody<'a> {
        let who = server.register(name).await;
        let token = server.login(&who).await.access;
        Somebody { server, session: server.connect(&who, |_| ()).await, token }
    }

    /// The error of a call, if it is refused.
    async fn refusal(&self, way: RpcWay, method: &str, params: &Value) -> Option<Value> {
        let call = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let answer = match way {
            RpcWay::Frame => self.session.answer_to(&call.to_string()).await,
            RpcWay::Batch => self.session.answer_to(&json!([call]).to_string()).await[0].take(),
            RpcWay::Http => post(self.server, Some(&self.token), &call).await.json(),
            RpcWay::HttpArray => post(self.server, Some(&self.token), &json!([call])).await.json()[0].take(),
        };
        assert_eq!(answer["id"], 7, "{way:?} {method}: {answer}");
        answer.get("error").cloned()
    }
}

async fn post(server: &TestServer, token: Option<&str>, body: &Value) -> TestResponse {
    let request =
        server.http("POST", "/rpc").header("Content-Type", "application/json").body(body.to_string());
    match token {
        Some(token) => request.bearer(token).send().await,
        None => request.send().await,
    }
}

/// Parameters that no handler can read, and the sentence that says so; none where nothing can be wrong.
fn wrong_params(method: &Method, given: Map<String, Value>) -> Option<(Value, String)> {
    let properties = method.doc()["params"]["properties"].as_object().into_iter().flatten();
    // What is passed on unread may be anything; a word and a number may not.
    let kinds = ["integer", "boolean"];
    let typed = properties.filter(|(_, schema)| kinds.iter().any(|kind| schema["type"] == *kind));
    let candidates = typed.map(|(name, _)| {
        let mut params = given.clone();
        params.entry(name.clone()).or_insert(json!("no"));
        params
    });
    [given.clone()].into_iter().chain(candidates).find_map(|params| {
        let found = violations(method, &to_raw_value(&params).expect("it is JSON"));
        Some((Value::Object(params), found.first()?.message.clone()))
    })
}

fn code(error: Option<&Value>) -> i64 {
    error.map_or(OK, |error| error["code"].as_i64().expect("a code is a number"))
}

/// `auth.connect` has an error of its own for what is wrong with it, and `auth.refresh_token` a result that says so: old clients read that.
fn is_usual(method: &Method) -> bool {
    !method.notification && !["auth.connect", "auth.refresh_token"].contains(&method.name)
}

#[tokio::test]
async fn every_method_is_refused_the_same_over_every_way_of_json_rpc() {
    let server = TestServer::shared().await;
    let alice = Somebody::new(&server, "alice").await;
    let mut wrong = Vec::new();
    for method in methods().iter().filter(|method| is_usual(method)) {
        let (params, sentence) = wrong_params(method, Map::new()).unzip();
        if params.is_none() && method.access.is_for_agents() {
            continue;
        }
        let params = params.unwrap_or(json!({}));
        for way in RPC_WAYS {
            let expected = match way {
                _ if !method.access.is_for_agents() => NOT_FOUND,
                RpcWay::Http | RpcWay::HttpArray if method.needs_connection => NO_SOCKET,
                _ => PARAMS,
            };
            let refused = alice.refusal(way, method.name, &params).await;
            let at = format!("{way:?} {} {params}: {refused:?}", method.name);
            if code(refused.as_ref()) != expected {
                wrong.push(at);
            } else if expected == PARAMS {
                let refused = refused.unwrap_or_default();
                let said = refused["message"].as_str() == sentence.as_deref();
                if !said || !refused["data"]["violations"][0]["path"].is_string() {
                    wrong.push(at);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} are answered otherwise:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn before_login_only_what_is_public_is_looked_at() {
    let server = TestServer::shared().await;
    // What another gateway calls begins with its hello, and is not for agents.
    let ours = methods().iter().filter(|method| is_usual(method) && method.access != Access::Peer);
    for some in ours.collect::<Vec<_>>().chunks(15) {
        let socket = server.socket().await;
        for method in some {
            let (params, _) = wrong_params(method, Map::new()).unwrap_or((json!({}), String::new()));
            let expected = if method.access == Access::Public { PARAMS } else { LOGIN_FIRST };
            let call = json!({ "jsonrpc": "2.0", "id": 7, "method": method.name, "params": params });
            let frame = socket.answer_to(&call.to_string()).await;
            let http = post(&server, None, &call).await.json();
            for (way, answer) in [("frame", frame), ("POST /rpc", http)] {
                assert_eq!(code(answer.get("error")), expected, "{way} {}: {answer}", method.name);
            }
        }
    }
}

#[tokio::test]
async fn the_operator_is_told_what_is_wrong_as_everybody_is() {
    let server = TestServer::shared().await;
    let of_services = methods().iter().filter(|method| method.namespace.service != "gateway");
    for method in of_services.filter(|method| is_usual(method)) {
        let Some((params, sentence)) = wrong_params(method, Map::new()) else { continue };
        let refused = server.by_operator(method.name, &params).await.expect_err("its parameters are wrong");
        assert_eq!(
            (code(Some(&refused)), &refused["message"]),
            (PARAMS, &json!(sentence)),
            "{}: {refused}",
            method.name
        );
    }
    for unknown in ["message.no_such", "nonsense", "federation.relay", ""] {
        let call = json!({ "method": unknown, "params": {} }).to_string();
        let refused = server.line_of_operator("message", &call).await;
        assert_eq!(code(refused.get("error")), NOT_FOUND, "{unknown}: {refused}");
    }
    let broken = server.line_of_operator("message", "{").await;
    assert_eq!(code(broken.get("error")), -32700, "{broken}");
}

/// A request to a route, with something in each part of its path.
struct RouteCall<'a> {
    server: &'a TestServer,
    route: &'static HttpRoute,
    path: String,
}

impl<'a> RouteCall<'a> {
    fn new(server: &'a TestServer, route: &'static HttpRoute) -> RouteCall<'a> {
        let mut path = route.path.to_owned();
        for name in names_in(route.path) {
            path = path.replace(&format!("{{{name}}}"), "x");
        }
        RouteCall { server, route, path }
    }

    async fn send(&self, token: Option<&str>, kind: Option<&str>, body: impl Into<Vec<u8>>) -> TestResponse {
        self.send_as(self.route.method, token, kind, body).await
    }

    async fn send_as(
        &self,
        verb: &str,
        token: Option<&str>,
        kind: Option<&str>,
        body: impl Into<Vec<u8>>,
    ) -> TestResponse {
        let mut request = self.server.http(verb, &self.path).body(body);
        if let Some(token) = token {
            request = request.bearer(token);
        }
        if let Some(kind) = kind {
            request = request.header("Content-Type", kind);
        }
        request.send().await
    }
}

fn names_in(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
}

/// The sentence of a refusal, in whichever envelope.
fn sentence(refused: &TestResponse) -> String {
    let body = refused.json();
    let said = [&body["error"]["message"], &body["error"], &body["message"], &body["detail"]];
    said.into_iter().find_map(Value::as_str).expect("it says why").to_owned()
}

/// Routes on the host of the gateway: those of agents are under other names.
fn routes() -> impl Iterator<Item = (&'static Method, &'static HttpRoute)> {
    let all = methods().iter().flat_map(|method| method.http.iter().map(move |route| (method, route)));
    all.filter(|(method, route)| method.namespace.service != "gateway" && route.path != "/")
}

#[tokio::test]
async fn every_route_refuses_who_may_not_use_it() {
    let server = TestServer::shared().await;
    let alice = Somebody::new(&server, "alice").await;
    let made = alice.session.call("agent.create", &json!({ "name": "Helper" })).await;
    let agent_token = text(&made["agent_token"]);
    for (_, route) in routes().filter(|(_, route)| !route.access.public) {
        let call = RouteCall::new(&server, route);
        let at = format!("{} {}", route.method, route.path);
        // Nobody's body is read before its token: this one is far too large, and not JSON.
        let huge = vec![b'x'; 8 << 20];
        for token in [None, Some("forged"), Some("hsk_0000000000000000000000000000000000000000")] {
            let refused = call.send(token, None, huge.clone()).await;
            assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")), "{at}");
        }
        let refused = call.send(Some(&agent_token), None, "").await;
        match route.access.tokens.contains(&"agent") {
            true => assert!(
                !matches!(refused.status, 401 | 403 if !is_about_agents(&refused)),
                "{at}: {}",
                refused.text()
            ),
            false => assert_eq!(refused.status, 403, "{at}: {}", refused.text()),
        }
    }
    // Over JSON-RPC such a token is none.
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "agent.get", "params": { "id": "x" } });
    assert_eq!(post(&server, Some(&agent_token), &call).await.status, 401);
}

/// Whether the method itself has refused.
fn is_about_agents(refused: &TestResponse) -> bool {
    let word = refused.json()["error"]["code"].as_str().unwrap_or_default().to_owned();
    ["AGENT_NOT_OWNER", "RELATION_FORBIDDEN"].contains(&word.as_str())
}

#[tokio::test]
async fn every_route_says_what_is_wrong_with_a_request() {
    let server = TestServer::shared().await;
    let alice = Somebody::new(&server, "alice").await;
    let token = Some(alice.token.as_str());
    let json = Some("application/json");
    let mut by_path: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (_, route) in routes() {
        by_path.entry(route.path).or_default().push(route.method);
    }
    // Where an access token is not accepted, nothing of the request is read.
    let read = |route: &HttpRoute| {
        !route.own_answer && (route.access.public || route.access.tokens.contains(&"access"))
    };
    for (method, route) in routes().filter(|(_, route)| read(route)) {
        let call = RouteCall::new(&server, route);
        let at = format!("{} {}", route.method, route.path);
        let given: Map<String, Value> =
            names_in(route.path).map(|name| (name.to_owned(), json!("x"))).collect();
        if route.body == HttpRouteBody::Params {
            for (body, kind, status) in [
                ("{", json, 400),
                ("[]", json, 400),
                (r#"{"a":1,"a":2}"#, json, 400),
                (r#"{"a":{"b":1,"b":2}}"#, json, 400),
                (r#"{"a":9007199254740993}"#, json, 400),
                ("\u{1}", json, 400),
                ("{}", Some("text/plain"), 415),
                ("{}", Some("application/x-www-form-urlencoded"), 415),
            ] {
                let refused = call.send(token, kind, body).await;
                assert_eq!(refused.status, status, "{at} {body}: {}", refused.text());
                assert!(!sentence(&refused).is_empty(), "{at}");
            }
            let huge = format!("{{\"a\":\"{}\"}}", "x".repeat(6 << 20));
            assert_eq!(call.send(token, json, huge).await.status, 413, "{at}");
            if let Some((params, expected)) = wrong_params(method, given) {
                let refused = call.send(token, json, params.to_string()).await;
                let status = method.invalid_params.http;
                assert_eq!((refused.status, sentence(&refused)), (status, expected), "{at} {params}");
            }
        }
        let verbs = &by_path[route.path];
        let other = if verbs.contains(&"PUT") { "PATCH" } else { "PUT" };
        let other = call.send_as(other, token, None, "").await;
        assert_eq!(other.status, 405, "{at}: {}", other.text());
        let allowed = other.header("allow").expect("it says which ones it has").to_owned();
        assert!(verbs.iter().all(|verb| allowed.contains(verb)), "{at}: {allowed}");
        let options = call.send_as("OPTIONS", None, None, "").await;
        assert_eq!(options.status, 204, "{at}");
    }
}

#[tokio::test]
async fn every_way_counts_for_the_rate_of_its_agent() {
    let server = TestServer::shared_with("limits.calls_per_second = 1").await;
    // One a second: of many in a row some are refused, however slow the machine is.
    const MANY: usize = 30;
    for way in RPC_WAYS {
        let frank = Somebody::new(&server, &format!("{way:?}").to_ascii_lowercase()).await;
        let mut refused = false;
        for _ in 0..MANY {
            refused |=
                code(frank.refusal(way, "auth.download_cert", &json!({ "cert_sn": "root" })).await.as_ref())
                    == RATE;
        }
        assert!(refused, "{way:?}");
    }
    let grace = Somebody::new(&server, "grace").await;
    let mut refused = false;
    for _ in 0..MANY {
        refused |= server.http("GET", "/agents").bearer(&grace.token).send().await.status == 429;
    }
    assert!(refused, "a route");
}

#[tokio::test]
async fn a_signature_that_was_used_one_way_is_refused_over_every_way() {
    // Which signatures were used is known to the gateway that accepted them.
    let server = TestServer::with_one_gateway("").await;
    for first in RPC_WAYS {
        let carol = Somebody::new(&server, &format!("{first:?}").to_ascii_lowercase()).await;
        let plain = r#"{"name":"Helper"}"#;
        let signed = SignedCall::new(&carol.session.identity, "agent.create", plain, plain).frame();
        let params = serde_json::from_str::<Value>(&signed).expect("a frame is JSON")["params"].take();
        assert_eq!(carol.refusal(first, "agent.create", &params).await, None, "{first:?}");
        for way in RPC_WAYS {
            let refused = carol.refusal(way, "agent.create", &params).await;
            assert_eq!(code(refused.as_ref()), SIGNATURE, "{way:?} after {first:?}: {refused:?}");
        }
        let request = server.http("POST", "/agents").bearer(&carol.token);
        let request = request.header("Content-Type", "application/json").body(params.to_string());
        let refused = request.send().await;
        assert_eq!(
            (refused.status, &refused.json()["error"]["code"]),
            (403, &json!("CLIENT_SIGNATURE_INVALID"))
        );
    }
}

#[tokio::test]
async fn a_rate_and_a_signature_hold_over_every_way() {
    let server = TestServer::shared_with("limits.classes.\"agent.write\" = 2").await;
    let unsigned = json!({ "id": "x", "name": "Other" });
    let signed = json!({ "id": "x", "client_signature": { "aid": "x" } });
    for first in RPC_WAYS {
        let bobby = Somebody::new(&server, &format!("{first:?}").to_ascii_lowercase()).await;
        let route = async |body: &Value| {
            let request = server.http("PATCH", "/agents/x").bearer(&bobby.token);
            request.header("Content-Type", "application/json").body(body.to_string()).send().await
        };
        // Of two that are accepted one has a wrong signature: it counts, because the rate comes before it.
        let refused = bobby.refusal(first, "agent.update", &signed).await;
        assert_eq!(code(refused.as_ref()), SIGNATURE, "{first:?}: {refused:?}");
        let refused = route(&signed).await;
        assert_eq!(
            (refused.status, &refused.json()["error"]["code"]),
            (403, &json!("CLIENT_SIGNATURE_INVALID"))
        );
        for way in RPC_WAYS.into_iter().filter(|way| *way != RpcWay::Http && *way != RpcWay::HttpArray) {
            let refused = bobby.refusal(way, "agent.update", &unsigned).await;
            assert_eq!(code(refused.as_ref()), RATE, "{way:?} after {first:?}: {refused:?}");
        }
        let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "agent.update", "params": unsigned });
        for body in [call.clone(), json!([call])] {
            let refused = post(&server, Some(&bobby.token), &body).await;
            assert_eq!(refused.status, 429, "{body}: {}", refused.text());
        }
        let refused = route(&unsigned).await;
        assert_eq!((refused.status, &refused.json()["error"]["code"]), (429, &json!("RATE_LIMITED")));
        assert!(refused.header("retry-after").is_some());
    }
}
