//! The schemas and the server agree: every example of `proto-schemas` is sent to a live gateway, good ones and bad ones.

mod internal;
mod limits;
mod runs;

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{Curve, Key};
use proto_schemas::{Access, Code, Method};
use serde_json::{Value, json};

use crate::support::agent::{ConnectedAgent, TestIdentity, aid, hello, public_key, random_hex, text};
use crate::support::envelope::{digest_of_example, put_key};
use crate::support::socket::TestSocket;
use crate::support::{ISSUER, TestServer, now, now_ms, until};

/// Many callers from one address, each with a few calls of its own, on sockets that may wait for others.
const HIGH_LIMITS: &str = "limits.registrations_per_minute = 60000\nlimits.http_per_second = 10000\nlimits.classes.\"task.create\" = 60000\nlimits.auth_timeout_ms = 600000\nlimits.ping_timeout_ms = 600000\nrun.tenants.demo.aids = [\"*\"]";

/// Whatever only this caller can know, found before the example is filled because finding it takes calls.
pub async fn values(
    server: &TestServer,
    caller: &TestIdentity,
    peer: &ConnectedAgent,
    socket: &TestSocket,
    example: &str,
) -> HashMap<String, String> {
    let (certificate, further) = (caller.certificate(), Key::generate(Curve::P384));
    let mut values = HashMap::from(
        [
            ("aid", caller.aid.clone()),
            ("peer_aid", peer.aid().to_owned()),
            ("fresh_aid", aid(&format!("fresh-{}", random_hex(6)))),
            ("issuer", ISSUER.to_owned()),
            ("cert", caller.cert.clone()),
            ("serial", certificate.serial().to_owned()),
            ("fingerprint", certificate.fingerprint().to_owned()),
            ("public_key", public_key(&Key::generate(Curve::P256))),
            ("public_key_p384", public_key(&further)),
            ("private_key_p384", further.to_pem()),
            ("client_nonce", random_hex(12)),
            ("challenge_nonce", socket.nonce().to_owned()),
            ("now_ms", now_ms().to_string()),
            ("now_seconds", now().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    if example.contains("_token}}") {
        let tokens = server.login(caller).await;
        values.insert("access_token".to_owned(), tokens.access);
        values.insert("refresh_token".to_owned(), tokens.refresh);
    }
    if example.contains("{{request_id}}") || example.contains("{{login_nonce}}") {
        let begun = server.ask("auth.aid_login1", &caller.login1()).await.expect("the first half of a login");
        values.insert("request_id".to_owned(), text(&begun["request_id"]));
        values.insert("login_nonce".to_owned(), text(&begun["nonce"]));
    }
    if example.contains("{{published_aid}}") {
        let content =
            format!("---\naid: {}\nname: Caller\ntype: agent\nversion: 1.0.0\n---\n# Caller\n", caller.aid);
        let document = json!({ "aid": caller.aid, "content": content });
        server.by_operator("agent.put_agent_md", &document).await.expect("a document is accepted");
        values.insert("published_aid".to_owned(), caller.aid.clone());
    }
    values.extend(tasks(server, caller, peer, example).await);
    values.extend(agents(server, caller, peer, example).await);
    values.extend(runs::values(server, caller, example).await);
    values
}

/// What an example needs to be registered: the caller as an agent, and a relation of the caller with the other agent.
async fn agents(
    server: &TestServer,
    caller: &TestIdentity,
    peer: &ConnectedAgent,
    example: &str,
) -> HashMap<String, String> {
    let mut agents = HashMap::new();
    if example.contains("{{own_agent}}") {
        let session = server.connect(caller, |_| ()).await;
        let made = session.call("agent.create", &json!({ "name": "An example" })).await;
        agents.insert("own_agent".to_owned(), text(&made["agent"]["id"]));
    }
    if example.contains("{{hooked_agent}}") {
        let session = server.connect(caller, |_| ()).await;
        // Nobody can have such a name, so nobody is asked.
        let hooked = json!({ "name": "An example", "webhook_url": "https://hook.invalid/" });
        let made = session.call("agent.create", &hooked).await;
        agents.insert("hooked_agent".to_owned(), text(&made["agent"]["id"]));
    }
    if example.contains("{{relation}}") {
        let session = server.connect(caller, |_| ()).await;
        let grant = json!({ "agent_id": peer.aid(), "granted_scopes": ["filesystem:read"] });
        let made = session.call("h2a.grant", &grant).await;
        agents.insert("relation".to_owned(), text(&made["relation"]["id"]));
    }
    agents
}

/// The other agent has registered itself, with a manifest that declares one scope.
pub async fn register(peer: &ConnectedAgent) {
    let manifest = json!({
        "schema_version": "1.0",
        "agent_version": "1.0.0",
        "tools": [],
        "permission_scopes": [{
            "id": "filesystem:read",
            "label_i18n_key": "agent.scope.filesystem_read.label",
            "sensitivity": "medium"
        }],
        "capability_flags": {}
    });
    peer.call("agent.create", &json!({ "name": "Peer", "capability_manifest": manifest })).await;
}

/// The tasks that an example needs: two that the other agent gives the caller, and one the other way round.
pub async fn tasks(
    server: &TestServer,
    caller: &TestIdentity,
    peer: &ConnectedAgent,
    example: &str,
) -> HashMap<String, String> {
    let mut tasks = HashMap::new();
    let wanted = |name: &str| example.contains(&format!("{{{{{name}}}}}"));
    let work = json!({ "type": "text", "content": "an example" });
    for name in ["offered_task", "accepted_task"].into_iter().filter(|name| wanted(name)) {
        let created = peer.call("task.create", &json!({ "to": caller.aid, "input": work })).await;
        tasks.insert(name.to_owned(), text(&created["task_id"]));
    }
    if !wanted("accepted_task") && !wanted("own_task") {
        return tasks;
    }
    let session = server.connect(caller, |_| ()).await;
    if let Some(task_id) = tasks.get("accepted_task") {
        session.call("task.accept", &json!({ "task_id": task_id })).await;
    }
    if wanted("own_task") {
        let created = session.call("task.create", &json!({ "to": peer.aid(), "input": work })).await;
        tasks.insert("own_task".to_owned(), text(&created["task_id"]));
    }
    tasks
}

pub fn filled(params: &Value, caller: &TestIdentity, values: &HashMap<String, String>) -> Value {
    let mut lookup = |name: &str| match name.split_once(':') {
        Some(("signature", text)) => Some(caller.sign(text)),
        Some(("proof_p384", text)) => {
            let key = Key::from_pem(&values["private_key_p384"]).expect("a key of ours");
            Some(STANDARD.encode(key.sign(text.as_bytes())))
        }
        Some(("digest", aid)) => Some(digest_of_example(aid)),
        _ => values.get(name).cloned(),
    };
    proto_schemas::fill(params, &mut lookup).expect("every placeholder is known")
}

/// Sends one example on a socket in the state it needs, by a caller of its own.
async fn send(
    server: &TestServer,
    method: &Method,
    example: &Value,
    peer: &ConnectedAgent,
) -> Result<Value, Value> {
    let caller = server.register(&format!("caller-{}", random_hex(6))).await;
    let socket = server.socket().await;
    let values = values(server, &caller, peer, &socket, &example["params"].to_string()).await;
    let params = filled(&example["params"], &caller, &values);
    if method.access != Access::Public {
        let tokens = server.login(&caller).await;
        socket.call("auth.connect", &hello(socket.nonce(), &tokens.access)).await;
    }
    if method.notification {
        socket.notify(method.name, &params).await;
        assert!(socket.events_so_far().await.is_empty(), "{} is never answered", method.name);
        return Ok(Value::Null);
    }
    socket.try_call(method.name, &params).await
}

/// The other agent has published its agent.md, and the directory has taken it over.
pub async fn publish(server: &TestServer, peer: &ConnectedAgent) {
    let aid = peer.aid();
    let text = format!(
        "---\naid: {aid}\nname: Peer\ntype: agent\nversion: 1.0.0\ndescription: The other agent\n---\n# Peer\n"
    );
    let put = server.http("PUT", "/agent.md").host(aid).bearer(&peer.tokens.access).body(text).send().await;
    assert_eq!(put.status, 200, "{}", put.text());
    let wanted = json!({ "aid": aid });
    until("the document is in the directory", || async {
        peer.try_call("search.get_agent", &wanted).await.ok()
    })
    .await;
}

/// A time in a text that has not the one form of its namespace: whole seconds, `2026-03-21T13:00:00Z`. Wherever it stands, also where
/// the schema says nothing of it.
fn fraction_of_a_second(method: &Method, value: &Value) -> Option<String> {
    if !["agent", "h2a", "search", "task"].contains(&method.namespace.name) {
        return None;
    }
    match value {
        Value::String(text) => {
            let begins = text.get(..11).is_some_and(|date| has_form(date, "dddd-dd-ddT"));
            (begins && !is_whole_seconds(text)).then(|| format!("{text} is not in whole seconds of UTC"))
        }
        Value::Array(items) => items.iter().find_map(|item| fraction_of_a_second(method, item)),
        Value::Object(members) => members.values().find_map(|member| fraction_of_a_second(method, member)),
        _ => None,
    }
}

/// `2026-03-21T13:00:00Z`
pub fn is_whole_seconds(text: &str) -> bool {
    has_form(text, "dddd-dd-ddTdd:dd:ddZ")
}

/// Whether a text has a digit wherever the form has a d, and is the same elsewhere.
fn has_form(text: &str, form: &str) -> bool {
    let fits = |(byte, wanted): (u8, u8)| if wanted == b'd' { byte.is_ascii_digit() } else { byte == wanted };
    text.len() == form.len() && text.bytes().zip(form.bytes()).all(fits)
}

/// What is wrong with an outcome, if anything is.
fn flaw(method: &Method, example: &Value, outcome: &Result<Value, Value>) -> Option<String> {
    let which = format!("{}, {}", method.name, example["name"]);
    match (example["error"].as_str(), outcome) {
        (None, Ok(_)) if method.notification => None,
        (None, Ok(result)) => {
            let schema = proto_schemas::exact(&method.doc()["result"]);
            let flaw = jsonschema::validate(&schema, result).err().map(|flaw| flaw.to_string());
            let flaw = flaw.or_else(|| fraction_of_a_second(method, result));
            flaw.map(|flaw| format!("{which}: {flaw} in {result}"))
        }
        (Some(name), Err(error)) => {
            let code = Code::find(method.namespace, name).expect("build.rs has looked it up");
            let kind = example["kind"].as_str().map_or_else(|| name.to_ascii_lowercase(), str::to_owned);
            // Whether a domain can be reached later depends on why it cannot be reached now.
            let lasting = ["domain_unknown", "domain_untrusted", "issuer_blocked", "no_gateway"];
            let retryable = match error["data"]["reason"].as_str() {
                Some(reason) if name == "FEDERATION_UNREACHABLE" => !lasting.contains(&reason),
                _ => code.retryable,
            };
            let same = error["code"] == code.code
                && error["data"]["kind"] == kind
                && error["data"]["retryable"] == retryable;
            (!same).then(|| format!("{which}: {name} was expected: {error}"))
        }
        (expected, outcome) => Some(format!("{which}: expected {expected:?} and got {outcome:?}")),
    }
}

#[tokio::test]
async fn every_example_of_a_method_for_agents_does_what_it_says() {
    let server = TestServer::with(HIGH_LIMITS).await;
    let peer = server.agent("peer-of-all").await;
    put_key(&peer).await;
    publish(&server, &peer).await;
    register(&peer).await;
    let mut flaws = Vec::new();
    for method in proto_schemas::methods().iter().filter(|method| method.access.is_for_agents()) {
        for example in method.doc()["examples"].as_array().expect("a method has examples") {
            let outcome = send(&server, method, example, &peer).await;
            flaws.extend(flaw(method, example, &outcome));
        }
    }
    assert!(flaws.is_empty(), "{}", flaws.join("\n"));
}

#[tokio::test]
async fn internal_methods_do_not_exist_for_agents() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let internal: Vec<&Method> =
        proto_schemas::methods().iter().filter(|method| method.access == Access::Internal).collect();
    assert!(!internal.is_empty());
    for method in internal {
        assert_eq!(alice.call_error(method.name, &json!({})).await["code"], -32601, "{}", method.name);
        assert_eq!(server.ask_error(method.name, &json!({})).await["code"], -32013, "{}", method.name);
    }
}

#[tokio::test]
async fn methods_for_sessions_wait_for_one() {
    let server = TestServer::shared().await;
    for method in proto_schemas::methods()
        .iter()
        .filter(|method| method.access == Access::Session && !method.notification)
    {
        assert_eq!(server.ask_error(method.name, &json!({})).await["code"], -32013, "{}", method.name);
    }
}

#[tokio::test]
async fn the_server_describes_itself_by_the_same_schemas() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let document = alice.call("rpc.discover", &json!({})).await;
    let described: Vec<&str> =
        document["methods"].as_array().unwrap().iter().filter_map(|method| method["name"].as_str()).collect();
    let public: Vec<&str> = proto_schemas::methods()
        .iter()
        .filter(|method| method.access.is_for_agents())
        .map(|method| method.name)
        .collect();
    assert_eq!(described, public);
}

#[tokio::test]
async fn every_public_method_can_be_called_after_login_too() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    for method in proto_schemas::methods().iter().filter(|method| method.access == Access::Public) {
        let answer = alice.try_call(method.name, &json!({})).await;
        assert!(
            answer.is_ok() || answer.as_ref().is_err_and(|error| error["code"] != -32601),
            "{}: {answer:?}",
            method.name
        );
    }
}
