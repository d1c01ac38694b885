//! What the server says it can do is what it does: a tag that is present means that the behaviour is present.

use proto_schemas::Method;
use serde_json::{Value, json};

use crate::support::TestServer;
use crate::support::agent::ConnectedAgent;

/// What `search.changes` accepts of one agent in a minute, and how many calls are made at once to exceed it.
const SYNCS_PER_MINUTE: usize = 30;
const SYNCS: usize = 40;

/// For every tag we may see, something that only works where its behaviour is present.
async fn probe(server: &TestServer, tag: &str) -> bool {
    let alice = server.agent(&format!("probe-{}", tag.replace('_', "-"))).await;
    let has = |answer: Result<Value, Value>| answer.err().is_none_or(|error| error["code"] != -32601);
    let exists = |status: u16| status == 200;
    match tag {
        "health" => exists(server.get("/health").await.status),
        "capabilities" => {
            exists(server.get("/capabilities").await.status)
                && has(alice.try_call("meta.capabilities", &json!({})).await)
        }
        "rate_limit" => is_limited(server, &alice).await,
        "rpc_gateway" => has(alice.try_call("meta.ping", &json!({})).await),
        "rpc_discover" => has(alice.try_call("rpc.discover", &json!({})).await),
        "ns_meta" => has(alice.try_call("meta.status", &json!({})).await),
        "ns_auth" => has(alice.try_call("auth.download_cert", &json!({ "cert_sn": "root" })).await),
        "pki_http" => {
            exists(server.get("/pki/chain").await.status)
                && exists(server.get("/pki/crl.json").await.status)
                && has(alice.try_call("meta.trust_roots", &json!({})).await)
        }
        "agent_md" => server.http("PUT", "/agent.md").host(alice.aid()).send().await.status == 401,
        "scope_texts" => {
            let manifest = crate::agent::agents_http::manifest(&[]);
            let create = json!({ "name": "Probe", "capability_manifest": manifest });
            alice.call("agent.create", &create).await;
            let read = alice.call("agent.get", &json!({ "id": alice.aid() })).await;
            read["agent"]["scope_texts"]["filesystem:read"]["en"]["label"] == "Read local files"
        }
        "consent_pages" => {
            let preflight = |path: &'static str, verb: &'static str| {
                server.http("OPTIONS", path).header("Access-Control-Request-Method", verb).send()
            };
            let open = [preflight("/agents/x", "GET").await, preflight("/h2a/relations", "POST").await];
            open.iter().all(|answer| answer.header("access-control-allow-origin") == Some("*"))
        }
        "notification_route" => {
            let notification = json!({ "target": { "type": "aid", "aid": alice.aid() }, "deliver": { "method": "event/app.x", "params": {} } });
            alice.notify("notification/route", &notification).await;
            alice.next_event().await["method"] == "event/app.x"
        }
        "ns_message" => {
            let message = json!({ "to": alice.aid(), "payload": { "text": "to myself" } });
            has(alice.try_call("message.send", &message).await)
        }
        "tool_call_artifacts" => {
            let call = json!({ "to": alice.aid(), "payload": {}, "msg_subtype": "artifact_tool_call" });
            alice.call("message.send", &call).await;
            let page = alice.call("message.pull", &json!({})).await;
            page["messages"][0]["msg_subtype"] == "artifact_tool_call"
        }
        "agui_stream" => server.http("POST", "/api/v1/agent/ag-ui").send().await.status == 401,
        "agui_attachments" => {
            let path = "/api/v1/agent/attachments/agent-inputs/x/y?expires=1&signature=x";
            server.get(path).await.status == 403
        }
        "federation" => server.get("/.well-known/aun-gateway").await.json()["federation"].is_object(),
        "client_signature" => {
            let forged = json!({ "cert_sn": "root", "client_signature": {} });
            alice.try_call("auth.download_cert", &forged).await.is_err_and(|error| error["code"] == -32051)
        }
        // A namespace is there if its methods are.
        other => {
            let of_tag = |method: &&Method| method.tag.is_some_and(|tag| tag.name == other);
            let for_agents = |method: &&Method| method.access.is_for_agents() && !method.notification;
            let method = proto_schemas::methods().iter().filter(of_tag).find(for_agents);
            let method = method
                .unwrap_or_else(|| panic!("no method has the tag {other}: add a probe with the behaviour"));
            has(alice.try_call(method.name, &json!({})).await)
        }
    }
}

/// Whether calls beyond the limit of their class are refused with the time to wait, those within it are not, and neither are those
/// of another agent.
async fn is_limited(server: &TestServer, alice: &ConnectedAgent) -> bool {
    let calls = vec![json!({}); SYNCS];
    let outcomes = alice.call_many("search.changes", &calls).await;
    let (within, beyond) = outcomes.split_at(SYNCS_PER_MINUTE);
    let refused: Vec<&Value> = beyond.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    let says_when = |error: &Value| {
        let wait = error["data"]["retry_after_ms"].as_u64();
        let kind = (&error["code"], &error["data"]["kind"], &error["data"]["retryable"]);
        kind == (&json!(-32029), &json!("rate_limited"), &json!(true)) && wait.is_some_and(|ms| ms >= 1)
    };
    let other = server.agent("probe-not-limited").await;
    within.iter().all(Result::is_ok)
        && !refused.is_empty()
        && refused.into_iter().all(says_when)
        && other.try_call("search.changes", &json!({})).await.is_ok()
}

fn tags(envelope: &Value) -> Vec<String> {
    let tags = envelope["features"].as_array().expect("features is a list");
    tags.iter().map(|tag| tag.as_str().expect("a tag is text").to_owned()).collect()
}

#[tokio::test]
async fn http_and_rpc_say_the_same() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let (over_http, over_rpc) =
        (server.get("/capabilities").await.json(), alice.call("meta.capabilities", &json!({})).await);
    assert_eq!(over_http, over_rpc);
    assert_eq!(over_http["v"], 1);
    assert_eq!(over_http["protocol"], over_http["protocolVersions"]);
    assert_eq!(over_http["protocol"], json!({ "current": "v1", "supported": ["v1"] }));
    assert_eq!(over_http["mode"], "http-bridge");
    assert_eq!(over_http["modelServices"], json!([]));
    assert!(over_http["workspaceCwd"].as_str().is_some_and(|path| path.starts_with('/')));

    let method = proto_schemas::find("meta.capabilities").unwrap();
    let schema = proto_schemas::standalone(&method.doc()["result"]);
    assert!(jsonschema::is_valid(&schema, &over_http), "{over_http}");
}

#[tokio::test]
async fn a_head_request_is_answered_like_a_get() {
    let server = TestServer::shared().await;
    for host in ["gateway.agents.localhost", "agents.localhost", "127.0.0.1"] {
        let (get, head) = (
            server.http("GET", "/capabilities").host(host).send().await,
            server.http("HEAD", "/capabilities").host(host).send().await,
        );
        assert_eq!((head.status, get.status), (200, 200));
        assert_eq!(head.header("content-type"), get.header("content-type"));
        assert_eq!(head.header("content-length"), get.header("content-length"));
    }
}

#[tokio::test]
async fn tags_are_unique_and_every_one_of_them_answers_a_probe() {
    let server = TestServer::shared().await;
    let mut tags = tags(&server.get("/capabilities").await.json());
    for tag in &tags {
        assert!(probe(&server, tag).await, "{tag} is advertised and not there");
    }
    let many = tags.len();
    assert!(many >= 6, "{tags:?}");
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), many, "no tag stands twice");
}

#[tokio::test]
async fn the_tags_of_running_services_are_there_and_later_ones_are_not() {
    let server = TestServer::shared().await;
    let tags = tags(&server.get("/capabilities").await.json());
    for tag in [
        "health",
        "capabilities",
        "rpc_gateway",
        "rpc_discover",
        "ns_meta",
        "ns_message",
        "ns_search",
        "ns_task",
        "ns_run",
        "tool_call_artifacts",
        "rate_limit",
        "federation",
    ] {
        assert!(tags.contains(&tag.to_owned()), "{tag} in {tags:?}");
    }
    for tag in ["ns_group", "capability_manifest_v1", "agui_runs"] {
        assert!(!tags.contains(&tag.to_owned()), "{tag} in {tags:?}");
    }
    let alice = server.agent("alice").await;
    assert_eq!(alice.call_error("group.create", &json!({})).await["code"], -32601);
}

#[tokio::test]
async fn what_is_not_asked_for_is_not_pushed() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    assert_eq!(
        alice.call_error("meta.capabilities", &json!({ "subscribe": "please" })).await["code"],
        -32602
    );
    alice.call("meta.capabilities", &json!({ "subscribe": true })).await;
    alice.call("meta.capabilities", &json!({ "subscribe": false })).await;
    assert!(alice.events_so_far().await.is_empty());
}

#[tokio::test]
async fn the_namespaces_of_a_session_are_those_of_the_tags() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let tags = tags(&alice.call("meta.capabilities", &json!({})).await);
    for namespace in alice.welcome["capabilities"]["namespaces"].as_array().unwrap() {
        let namespace = namespace.as_str().unwrap();
        let tag = if namespace == "rpc" { "rpc_discover".to_owned() } else { format!("ns_{namespace}") };
        assert!(tags.contains(&tag), "{namespace} in {tags:?}");
    }
}

#[tokio::test]
async fn a_service_that_does_not_run_is_neither_advertised_nor_there() {
    let server = TestServer::with("only = [\"gateway\", \"ca\"]").await;
    let tags = tags(&server.get("/capabilities").await.json());
    assert!(tags.contains(&"pki_http".to_owned()), "{tags:?}");
    assert!(!tags.contains(&"ns_auth".to_owned()) && !tags.contains(&"agent_md".to_owned()), "{tags:?}");
    for method in ["auth.create_aid", "auth.aid_login1", "auth.refresh_token", "auth.download_cert"] {
        assert_eq!(server.ask_error(method, &json!({})).await["code"], -32601, "{method}");
    }
    for method in ["GET", "PUT"] {
        assert_eq!(
            server.http(method, "/agent.md").host("alice.agents.localhost").send().await.status,
            404,
            "{method}"
        );
    }
    assert_eq!(server.get("/pki/chain").await.status, 200);
}

#[tokio::test]
async fn the_federation_tag_is_absent_where_federation_is_disabled() {
    let server = TestServer::with("federation.enabled = false").await;
    let tags = tags(&server.get("/capabilities").await.json());
    assert!(!tags.contains(&"federation".to_owned()), "{tags:?}");
    assert!(!probe(&server, "federation").await);
}
