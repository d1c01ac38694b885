//! Agents and relations over HTTP: envelopes, statuses, ETags and agent tokens.

use super::support::{TestAgents, sample, text, with_version};
use axum::http::Request;
use kernel::{Aid, Caller, CallingAgent, TokenCaller};
use serde_json::{Value, json};
use testing::{TestAgent, TestAnswer};

const HASH: &str = "caec494a0a6ce5631d5c43ac6ba492dbac5c4d0f03f6fa69b00c01edb523de80";

async fn send(
    agents: &TestAgents,
    who: Option<&TestAgent>,
    verb: &str,
    path: &str,
    body: &str,
) -> TestAnswer {
    let caller = who.map_or(Caller::Unauthenticated(None), TestAgent::by_token);
    let request = Request::builder().method(verb).uri(path);
    agents.test.http_with("agent", &caller, request, body).await
}

/// By the token of an agent, which the gateway has verified.
async fn send_as_agent(agents: &TestAgents, token: &str, verb: &str, path: &str, body: &str) -> TestAnswer {
    let (gateway, asked) = (Caller::service("gateway"), json!({ "token": token }));
    let caller = match agents.test.call_as(gateway, "agent.verify_token", asked).await {
        Ok(verified) => {
            let aid = Aid::parse(&text(&verified["aid"])).unwrap();
            let agent = Some(CallingAgent::without_session(aid, [127, 0, 0, 1].into()));
            Caller::Token(TokenCaller {
                kind: "agent".into(),
                subject: text(&verified["subject"]),
                agent,
                payer: None,
            })
        }
        Err(error) => {
            assert_eq!(error.kind(), "token_invalid");
            Caller::Unauthenticated(None)
        }
    };
    agents.test.http_with("agent", &caller, Request::builder().method(verb).uri(path), body).await
}

fn error(answer: &TestAnswer) -> (u16, String) {
    let body = answer.json();
    let error = &body["error"];
    assert!(error["message"].is_string() && error["params"].is_object(), "{body}");
    assert!(text(&error["i18n_key"]).starts_with("error."), "{body}");
    (answer.status, text(&error["code"]))
}

#[tokio::test]
async fn an_agent_is_made_read_and_changed() {
    let agents = TestAgents::open().await;
    let alice = Some(&agents.alice);
    let body = json!({ "name": "Helper", "capability_manifest": sample() }).to_string();
    let made = send(&agents, alice, "POST", "/agents", &body).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    let id = text(&made["data"]["id"]);
    assert!(text(&made["agent_token"]).starts_with("hsk_"));

    let path = format!("/agents/{id}");
    let read = send(&agents, Some(&agents.bob), "GET", &path, "").await;
    assert_eq!((read.status, read.header("etag")), (200, format!("\"{HASH}\"").as_str()));
    assert_eq!(read.json()["data"]["capability_manifest"], sample());
    let known = async |etags: &str| {
        let request = Request::builder().uri(&path).header("if-none-match", etags);
        agents.test.http("agent", &agents.bob.by_token(), request).await.status
    };
    assert_eq!(
        (known(&format!("\"{HASH}\"")).await, known("\"x\", *").await, known("\"x\"").await),
        (304, 304, 200)
    );

    let patch = json!({ "capability_manifest": with_version("1.0.1"), "id": "ignored" }).to_string();
    let patched = send(&agents, alice, "PATCH", &path, &patch).await.json();
    assert_eq!(patched["manifest_change"]["to_version"], 2);
    assert_eq!(known(&format!("\"{HASH}\"")).await, 200, "it is another manifest");
    assert_eq!(
        error(&send(&agents, Some(&agents.bob), "PATCH", &path, &patch).await),
        (403, "AGENT_NOT_OWNER".into())
    );
    let listed = send(&agents, alice, "GET", "/agents?limit=1&cursor=", "").await.json();
    assert_eq!(
        (listed["data"].as_array().unwrap().len(), listed.get("next_cursor")),
        (1, Some(&Value::Null))
    );
    let deliveries = send(&agents, alice, "GET", &format!("{path}/deliveries?status=dead"), "").await;
    assert_eq!((deliveries.status, &deliveries.json()["data"]), (200, &json!([])));
    let removed = send(&agents, alice, "DELETE", &path, "").await;
    assert_eq!((removed.status, removed.body.len()), (204, 0));
    assert_eq!(error(&send(&agents, alice, "GET", &path, "").await), (404, "AGENT_NOT_FOUND".into()));
}

#[tokio::test]
async fn a_relation_is_made_read_changed_and_ended() {
    let agents = TestAgents::open().await;
    let (id, bob) = (agents.agent().await, Some(&agents.bob));
    let grant = json!({ "agent_id": id, "granted_scopes": ["filesystem:read"] }).to_string();
    let made = send(&agents, bob, "POST", "/h2a/relations", &grant).await;
    let again = send(&agents, bob, "POST", "/h2a/relations", &grant).await;
    assert_eq!((made.status, again.status, made.json()), (201, 200, again.json()));
    assert_eq!(made.json().get("created"), None);
    let path = format!("/h2a/relations/{}", text(&made.json()["data"]["id"]));
    let less = json!({ "agent_id": id, "granted_scopes": [] }).to_string();
    let exists = send(&agents, bob, "POST", "/h2a/relations", &less).await;
    assert_eq!(exists.json()["error"]["params"]["relation_id"], made.json()["data"]["id"]);
    assert_eq!(error(&exists), (409, "RELATION_EXISTS".into()));

    assert_eq!(send(&agents, Some(&agents.alice), "GET", &path, "").await.status, 200);
    assert_eq!(
        error(&send(&agents, Some(&agents.carol), "GET", &path, "").await),
        (403, "RELATION_FORBIDDEN".into())
    );
    let stale = json!({ "granted_scopes": [], "manifest_version": 7 }).to_string();
    assert_eq!(
        error(&send(&agents, bob, "PATCH", &path, &stale).await),
        (409, "MANIFEST_VERSION_CONFLICT".into())
    );
    let patched = send(&agents, bob, "PATCH", &path, r#"{"granted_scopes":[]}"#).await;
    assert_eq!((patched.status, &patched.json()["data"]["granted_scopes"]), (200, &json!([])));
    let pending = send(&agents, bob, "GET", "/h2a/relations?reauth_required=true", "").await.json();
    assert_eq!(pending, json!({ "data": [], "next_cursor": null }));
    assert_eq!(send(&agents, bob, "DELETE", &path, "").await.status, 204);
}

#[tokio::test]
async fn what_is_wrong_is_said_in_the_envelope() {
    let agents = TestAgents::open().await;
    let id = agents.agent().await;
    let (alice, path) = (Some(&agents.alice), format!("/agents/{id}"));
    let nobody = send(&agents, None, "GET", &path, "").await;
    assert_eq!(nobody.header("www-authenticate"), "Bearer");
    assert_eq!(error(&nobody), (401, "UNAUTHORIZED".into()));
    for body in ["{", "[]", "", r#"{"name":"a","name":"b"}"#, "\u{1}"] {
        let answer = send(&agents, alice, "POST", "/agents", body).await;
        let expected = if body.is_empty() { "INVALID_PARAMS" } else { "INVALID_JSON" };
        assert_eq!(error(&answer), (400, expected.into()), "{body}");
    }
    let mut twice = sample().to_string();
    twice.insert_str(1, r#""agent_version":"9.9.9","#);
    let twice = format!(r#"{{"capability_manifest":{twice}}}"#);
    assert_eq!(error(&send(&agents, alice, "PATCH", &path, &twice).await), (400, "INVALID_JSON".into()));
    let mut broken = sample();
    broken["tools"][0]["name"] = json!("X");
    broken["permission_scopes"][0]["sensitivity"] = json!("none");
    let broken = json!({ "capability_manifest": broken }).to_string();
    let refused = send(&agents, alice, "PATCH", &path, &broken).await;
    assert_eq!(error(&refused), (422, "MANIFEST_INVALID".into()));
    assert!(refused.json()["error"]["params"]["violations"].as_array().unwrap().len() >= 2, "all at once");
    let mut large = sample();
    large["padding"] = json!("x".repeat(131_072));
    let large =
        send(&agents, alice, "PATCH", &path, &json!({ "capability_manifest": large }).to_string()).await;
    assert_eq!(large.json()["error"]["params"]["limit"], 131_072);
    assert_eq!(large.json()["error"]["i18n_key"], "error.manifest.too_large");
    assert_eq!(error(&large), (413, "MANIFEST_TOO_LARGE".into()));
    let null = send(&agents, alice, "PATCH", &path, r#"{"capability_manifest":null}"#).await;
    assert_eq!(error(&null), (422, "MANIFEST_INVALID".into()));
    let polling = send(&agents, alice, "PATCH", &path, r#"{"connection_mode":"polling"}"#).await;
    assert_eq!(error(&polling), (422, "CONNECTION_MODE_UNSUPPORTED".into()));
    assert_eq!(
        error(&send(&agents, alice, "GET", "/agents?limit=many", "").await),
        (400, "INVALID_PARAMS".into())
    );
    assert_eq!(send(&agents, alice, "PUT", &path, "{}").await.status, 405);
}

#[tokio::test]
async fn an_agent_reads_by_its_token_until_that_is_replaced() {
    let agents = TestAgents::open().await;
    let made = agents
        .ok(&agents.alice, "agent.create", json!({ "name": "Helper", "capability_manifest": sample() }))
        .await;
    let (id, token) = (text(&made["agent"]["id"]), text(&made["agent_token"]));
    agents.grant(&agents.bob, &id, &[]).await;
    let path = format!("/agents/{id}");
    assert_eq!(send_as_agent(&agents, &token, "GET", &path, "").await.status, 200);
    let relations = send_as_agent(&agents, &token, "GET", &format!("/h2a/relations?agent_id={id}"), "").await;
    assert_eq!(relations.json()["data"].as_array().unwrap().len(), 1);

    let grant = json!({ "agent_id": id, "granted_scopes": [] }).to_string();
    let (token_path, deliveries) = (format!("{path}/token"), format!("{path}/deliveries"));
    for (verb, path, body) in [
        ("PATCH", path.as_str(), r#"{"name":"Mine"}"#),
        ("DELETE", path.as_str(), ""),
        ("POST", token_path.as_str(), ""),
        ("GET", deliveries.as_str(), ""),
        ("POST", "/agents", r#"{"name":"Other"}"#),
        ("POST", "/h2a/relations", grant.as_str()),
    ] {
        let refused = send_as_agent(&agents, &token, verb, path, body).await;
        assert_eq!(error(&refused), (403, "AGENT_NOT_OWNER".into()), "{verb} {path}");
    }
    for wrong in ["hsk_", "x", &token.replace("hsk_", "hsk_x"), &format!("hsk_{}", "0".repeat(40))] {
        assert_eq!(
            error(&send_as_agent(&agents, wrong, "GET", &path, "").await),
            (401, "UNAUTHORIZED".into())
        );
    }
    let rotated = send(&agents, Some(&agents.alice), "POST", &format!("{path}/token"), "").await.json();
    assert_eq!(send_as_agent(&agents, &token, "GET", &path, "").await.status, 401, "the old one");
    let token = text(&rotated["data"]["agent_token"]);
    assert_eq!(send_as_agent(&agents, &token, "GET", &path, "").await.status, 200);
}
