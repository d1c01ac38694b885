//! Agents, their manifests and what users grant them: over HTTP and JSON-RPC, with events to devices and a webhook.

use ring::hmac;
use serde_json::{Value, json};
use std::collections::HashMap;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::support::TestServer;
use crate::support::agent::{ConnectedAgent, text};
use crate::support::http::TestResponse;
use crate::support::wait::within;

pub fn manifest(required: &[&str]) -> Value {
    let properties: HashMap<&str, Value> =
        required.iter().map(|name| (*name, json!({ "type": "string" }))).collect();
    json!({
        "schema_version": "1.0",
        "agent_version": "1.0.0",
        "tools": [{
            "name": "read_file",
            "description_i18n_key": "agent.cap.read_file.description",
            "input_schema": {
                "type": "object", "properties": properties, "required": required, "additionalProperties": false
            },
            "permission_scope": "filesystem:read"
        }],
        "permission_scopes": [{
            "id": "filesystem:read",
            "label_i18n_key": "agent.scope.filesystem_read.label",
            "sensitivity": "medium"
        }],
        "capability_flags": { "supports_artifacts": true }
    })
}

pub async fn send(server: &TestServer, verb: &str, path: &str, token: &str, body: &Value) -> TestResponse {
    let request = server.http(verb, path).bearer(token).header("Content-Type", "application/json");
    match body {
        Value::Null => request.send().await,
        body => request.body(body.to_string()).send().await,
    }
}

/// The next event of this name; those before it are about something else.
pub async fn next_event(agent: &ConnectedAgent, name: &str) -> Value {
    loop {
        let event = agent.next_event().await;
        if event["method"] == name {
            return event["params"].clone();
        }
    }
}

/// A webhook on this machine: gives its URL, and what is sent to it, head and body.
async fn webhook(tasks: &mut JoinSet<()>) -> (String, mpsc::Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let url = format!("http://{}/hook", listener.local_addr().expect("it listens"));
    let (sender, received) = mpsc::channel(16);
    tasks.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let request = answer(stream).await;
            if sender.send(request).await.is_err() {
                return;
            }
        }
    });
    (url, received)
}

/// Reads a request, answers that it is fine, and gives its head and its body.
pub async fn answer(mut stream: TcpStream) -> (String, String) {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let length = stream.read(&mut piece).await.expect("the request can be read");
        bytes.extend_from_slice(&piece[..length]);
        let request = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = request.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let expected = header(&head, "content-length").parse::<usize>().expect("a length");
        if length == 0 || body.len() >= expected {
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n").await;
            return (head, body.to_owned());
        }
    }
}

fn header(head: &str, name: &str) -> String {
    let found = head.lines().filter_map(|line| line.split_once(':')).find(|(header, _)| *header == name);
    found.map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
}

#[tokio::test]
async fn a_breaking_change_reaches_a_device_a_login_and_a_webhook() {
    let server = TestServer::with("agent.webhook.allow_private = true").await;
    let mut tasks = JoinSet::new();
    let (url, mut received) = webhook(&mut tasks).await;
    let (owner, user) = (server.agent("owner").await, server.agent("user-one").await);
    let offline = server.register("user-two").await;
    let (token, asked) = (owner.tokens.access.clone(), "event/h2a.reauth_required");

    let body = json!({ "name": "Helper", "webhook_url": url, "capability_manifest": manifest(&["path"]) });
    let made = send(&server, "POST", "/agents", &token, &body).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    let (id, secret) = (text(&made["data"]["id"]), text(&made["webhook_secret"]));
    let grant = json!({ "agent_id": id, "granted_scopes": ["filesystem:read"] });
    let relation = user.call("h2a.grant", &grant).await["relation"].clone();
    let later = server.login(&offline).await;
    let granted = send(&server, "POST", "/h2a/relations", &later.access, &grant).await;
    assert_eq!(granted.status, 201, "{}", granted.text());

    let patch = json!({ "capability_manifest": manifest(&["path", "encoding"]) });
    let patched = send(&server, "PATCH", &format!("/agents/{id}"), &token, &patch).await;
    assert_eq!(patched.status, 200, "{}", patched.text());
    let patched = patched.json();
    assert_eq!(
        (&patched["manifest_change"]["breaking"], &patched["manifest_change"]["to_version"]),
        (&json!(true), &json!(2))
    );

    let event = next_event(&user, asked).await;
    assert_eq!((&event["agent_id"], &event["new_manifest_version"]), (&json!(id), &json!(2)));
    assert_eq!(event["scopes_requiring_reauth"], json!(["filesystem:read"]));
    let phone = server.connect_device(&user, "phone", "default").await;
    assert_eq!(next_event(&phone, asked).await, event, "a device that connects later");
    let returned = server.connect(&offline, |_| ()).await;
    assert_eq!(next_event(&returned, asked).await["agent_id"], json!(id));
    let open = returned.call("h2a.list", &json!({ "reauth_required": true })).await;
    assert_eq!(open["relations"][0]["reauth_scopes"], json!(["filesystem:read"]));

    let stale = json!({ "id": relation["id"], "granted_scopes": ["filesystem:read"], "manifest_version": 1 });
    let refused = user.call_error("h2a.update", &stale).await;
    assert_eq!(
        (&refused["code"], &refused["data"]["kind"]),
        (&json!(-32009), &json!("manifest_version_conflict"))
    );
    let agreed =
        json!({ "id": relation["id"], "granted_scopes": ["filesystem:read"], "manifest_version": 2 });
    assert_eq!(user.call("h2a.update", &agreed).await["relation"]["reauth_required"], false);

    loop {
        let (head, body) = within("a webhook", received.recv()).await.expect("it is called");
        let signed = format!(
            "{}.{}.{body}",
            header(&head, "x-hashee-timestamp"),
            header(&head, "x-hashee-delivery-id")
        );
        let signature = hex::decode(header(&head, "x-hashee-signature")).expect("hex");
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        hmac::verify(&key, signed.as_bytes(), &signature).expect("the signature verifies");
        let body: Value = serde_json::from_str(&body).expect("JSON");
        if body["type"] == "h2a.reauth_required" {
            assert_eq!((&body["agent_id"], &body["version"]), (&json!(id), &json!("v1")));
            break;
        }
    }
}

#[tokio::test]
async fn both_ways_in_show_the_same_and_refuse_the_same() {
    let server = TestServer::shared().await;
    let (owner, other) = (server.agent("owner").await, server.agent("other").await);
    let made = owner
        .call("agent.create", &json!({ "name": "Helper", "capability_manifest": manifest(&["path"]) }))
        .await;
    let id = text(&made["agent"]["id"]);
    let path = format!("/agents/{id}");
    let read = send(&server, "GET", &path, &other.tokens.access, &Value::Null).await;
    assert_eq!(read.json()["data"], other.call("agent.get", &json!({ "id": id })).await["agent"]);
    let etag = read.header("etag").expect("a version").to_owned();
    let again =
        server.http("GET", &path).bearer(&other.tokens.access).header("If-None-Match", &etag).send().await;
    assert_eq!(again.status, 304);

    let rename = json!({ "id": id, "name": "Mine" });
    let error = other.call_error("agent.update", &rename).await;
    let refused = send(&server, "PATCH", &path, &other.tokens.access, &json!({ "name": "Mine" })).await;
    assert_eq!((&error["code"], &error["data"]["kind"]), (&json!(-32004), &json!("agent_not_owner")));
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (403, &json!("AGENT_NOT_OWNER")));
    assert_eq!(server.http("GET", &path).send().await.status, 401);

    let by_agent = send(&server, "GET", &path, &text(&made["agent_token"]), &Value::Null).await;
    assert_eq!((by_agent.status, &by_agent.json()["data"]["id"]), (200, &json!(id)));
    let write = send(&server, "PATCH", &path, &text(&made["agent_token"]), &json!({ "name": "Mine" })).await;
    assert_eq!(write.status, 403, "an agent token only reads");
    let elsewhere = server.http("POST", "/rpc").bearer(&text(&made["agent_token"])).body("{}").send().await;
    assert_eq!(elsewhere.status, 401, "and nowhere else");

    let private = json!({ "name": "Other", "webhook_url": "https://127.0.0.1/hook" });
    let refused = send(&server, "POST", "/agents", &other.tokens.access, &private).await;
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (422, &json!("WEBHOOK_URL_REFUSED")));
}
