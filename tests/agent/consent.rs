//! Consent from the first look at an agent on: the samples of the specification as they stand, reading without a token, and pages of other
//! origins.

use serde_json::{Value, json};

use super::agents_http::{next_event, send};
use crate::schema::is_whole_seconds;
use crate::support::TestServer;
use crate::support::agent::{ConnectedAgent, text};
use crate::support::http::TestResponse;

/// The manifest of the specification (2.2), as it stands there.
const SAMPLE_MANIFEST: &str = r#"{ "schema_version": "1.0", "agent_version": "1.0.0", "tools": [ { "name": "read_file", "description_i18n_key": "agent.cap.read_file.description", "input_schema": { "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"], "additionalProperties": false }, "permission_scope": "filesystem:read", "required": false, "timeout_ms": 5000 } ], "permission_scopes": [ { "id": "filesystem:read", "label_i18n_key": "agent.scope.filesystem_read.label", "description_i18n_key": "agent.scope.filesystem_read.description", "sensitivity": "medium" } ], "capability_flags": { "supports_streaming": true, "supports_artifacts": true, "supports_voice": false, "supports_group_chat": false } }"#;

const SAMPLE_HASH: &str = "caec494a0a6ce5631d5c43ac6ba492dbac5c4d0f03f6fa69b00c01edb523de80";

fn sample() -> Value {
    serde_json::from_str(SAMPLE_MANIFEST).expect("JSON")
}

fn names(object: &Value) -> Vec<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// The agent says about itself who may find it.
async fn describe(server: &TestServer, agent: &ConnectedAgent, visibility: &str) {
    let aid = agent.aid();
    let document =
        format!("---\naid: {aid}\nname: Helper\ntype: agent\nversion: 1.0.0\n{visibility}---\n# Helper\n");
    let put =
        server.http("PUT", "/agent.md").host(aid).bearer(&agent.tokens.access).body(document).send().await;
    assert_eq!(put.status, 200, "{}", put.text());
}

async fn read(server: &TestServer, id: &str) -> TestResponse {
    server.get(&format!("/agents/{id}")).await
}

#[tokio::test]
async fn the_samples_of_the_specification_are_answered_member_by_member() {
    let server = TestServer::shared().await;
    let (owner, user) = (server.agent("owner").await, server.agent("user").await);
    let (of_owner, of_user) = (owner.tokens.access.as_str(), user.tokens.access.as_str());

    // 2.1: "Agent 在 POST /agents … 时传 capability_manifest".
    let body = format!(r#"{{"name":"Reader","capability_manifest":{SAMPLE_MANIFEST}}}"#);
    let made = server.http("POST", "/agents").bearer(of_owner).header("Content-Type", "application/json");
    let made = made.body(body).send().await;
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    assert_eq!(names(&made), ["agent_token", "data"], "a good manifest has no warnings");
    let agent = &made["data"];
    let expected = json!({
        "id": agent["id"], "aid": owner.aid(), "owner_id": owner.aid(), "name": "Reader", "connection_mode": "websocket",
        "capability_manifest": sample(), "capability_manifest_version": 1, "capability_manifest_hash": SAMPLE_HASH,
        "webhook_unreachable": false, "webhook_messages": false, "created_at": agent["created_at"], "updated_at": agent["created_at"],
    });
    assert_members(agent, &expected);
    assert!(is_whole_seconds(&text(&agent["created_at"])), "{agent}");
    let id = text(&agent["id"]);

    // 2.4: "用户发现 Agent → GET /agents/:id 返回 manifest body".
    let shown = send(&server, "GET", &format!("/agents/{id}"), of_user, &Value::Null).await;
    assert_eq!((shown.status, shown.header("etag")), (200, Some(&*format!("\"{SAMPLE_HASH}\""))));
    let mut expected = expected;
    for of_owner in ["webhook_unreachable", "webhook_messages"] {
        expected.as_object_mut().unwrap().remove(of_owner);
    }
    expected["scope_texts"] = json!({ "filesystem:read": {
        "zh": { "label": "读取本地文件", "description": "读取此设备上的文件内容" },
        "en": { "label": "Read local files", "description": "Read the contents of files on this device" },
    } });
    assert_members(&shown.json()["data"], &expected);

    // "用户同意 → POST /h2a/relations,body = { agent_id, granted_scopes: [...] }".
    let grant = json!({ "agent_id": id, "granted_scopes": ["filesystem:read"] });
    let granted = send(&server, "POST", "/h2a/relations", of_user, &grant).await;
    assert_eq!(granted.status, 201, "{}", granted.text());
    let relation = granted.json()["data"].clone();
    let expected = json!({
        "id": relation["id"], "agent_id": id, "agent_aid": owner.aid(), "user_id": user.aid(), "status": "active",
        "granted_scopes": ["filesystem:read"], "granted_manifest_version": 1, "reauth_required": false, "reauth_scopes": [],
        "created_at": relation["created_at"], "updated_at": relation["created_at"],
    });
    assert_members(&relation, &expected);
    assert!(is_whole_seconds(&text(&relation["created_at"])), "{relation}");

    // "PATCH /agents/:id 传新 manifest": a required member is new, which is breaking.
    let mut manifest = sample();
    let schema = &mut manifest["tools"][0]["input_schema"];
    schema["properties"]["encoding"] = json!({ "type": "string" });
    schema["required"] = json!(["path", "encoding"]);
    let patch = json!({ "capability_manifest": manifest });
    let patched = send(&server, "PATCH", &format!("/agents/{id}"), of_owner, &patch).await.json();
    let hash = "6f87f9eb657798f114718c56d642aa6b4433c15f263dfaa2cf7569b552a98fe4";
    let expected = json!({
        "from_version": 1, "to_version": 2, "hash": hash, "breaking": true,
        "reasons": [
            {
                "rule": "R1", "breaking": true, "tool": "read_file", "path": "/input_schema/properties/encoding",
                "scope": "filesystem:read",
            },
            {
                "rule": "R10", "breaking": false, "tool": "read_file", "path": "/input_schema/properties/encoding",
                "scope": "filesystem:read",
            },
        ],
        "scopes_requiring_reauth": ["filesystem:read"],
    });
    assert_members(&patched["manifest_change"], &expected);

    // "h2a.reauth_required 含 { agent_id, new_manifest_version, new_manifest_hash, scopes_requiring_reauth }".
    let event = next_event(&user, "event/h2a.reauth_required").await;
    for (name, value) in [
        ("agent_id", json!(id)),
        ("new_manifest_version", json!(2)),
        ("new_manifest_hash", json!(hash)),
        ("scopes_requiring_reauth", json!(["filesystem:read"])),
    ] {
        assert_eq!(event[name], value, "{name}");
    }

    // "用户同意 → PATCH /h2a/relations/:id 更新 scope 授权".
    let path = format!("/h2a/relations/{}", text(&relation["id"]));
    let agreed =
        send(&server, "PATCH", &path, of_user, &json!({ "granted_scopes": ["filesystem:read"] })).await;
    let agreed = agreed.json()["data"].clone();
    let mut expected = relation;
    (expected["granted_manifest_version"], expected["updated_at"]) = (json!(2), agreed["updated_at"].clone());
    assert_members(&agreed, &expected);
}

/// Each member of both: what is missing, what is there without being expected, and what differs is named.
fn assert_members(found: &Value, expected: &Value) {
    let all = names(found).into_iter().chain(names(expected));
    for name in all {
        assert_eq!(found.get(name), expected.get(name), "{name}");
    }
}

#[tokio::test]
async fn a_grant_without_scopes_grants_none_both_ways_in() {
    let server = TestServer::shared().await;
    let (owner, user, other) =
        (server.agent("owner").await, server.agent("user").await, server.agent("other").await);
    owner.call("agent.create", &json!({ "name": "Reader", "capability_manifest": sample() })).await;
    let grant = json!({ "agent_id": owner.aid() });
    let over_rpc = user.call("h2a.grant", &grant).await;
    assert_eq!(over_rpc["relation"]["granted_scopes"], json!([]));
    let over_http = send(&server, "POST", "/h2a/relations", &other.tokens.access, &grant).await;
    assert_eq!((over_http.status, &over_http.json()["data"]["granted_scopes"]), (201, &json!([])));
}

#[tokio::test]
async fn any_schema_is_accepted_for_arguments_and_one_that_no_object_fits_is_told() {
    let server = TestServer::shared().await;
    let owner = server.agent("owner").await;
    let with = |schema: Value| {
        let mut manifest = sample();
        manifest["tools"][0]["input_schema"] = schema;
        manifest
    };
    owner.call("agent.create", &json!({ "name": "Reader", "capability_manifest": with(json!({})) })).await;
    for (schema, told, breaking) in [
        (json!(true), "/tools/0/input_schema/additionalProperties", false),
        (json!({ "properties": { "path": {} } }), "/tools/0/input_schema/additionalProperties", false),
        (json!({ "type": "string" }), "/tools/0/input_schema", true),
        (json!(false), "/tools/0/input_schema", true),
        (json!(true), "/tools/0/input_schema/additionalProperties", true),
    ] {
        let update = json!({ "id": owner.aid(), "capability_manifest": with(schema.clone()) });
        let updated = owner.call("agent.update", &update).await;
        assert_eq!(updated["warnings"][0]["path"], told, "{schema}: {updated}");
        assert_eq!(updated["manifest_change"]["breaking"], breaking, "{schema}");
        assert_eq!(updated["agent"]["capability_manifest"]["tools"][0]["input_schema"], schema);
    }
    let elsewhere = with(json!({ "$ref": "https://www.example.com/schema.json" }));
    let refused = owner
        .call_error("agent.update", &json!({ "id": owner.aid(), "capability_manifest": elsewhere }))
        .await;
    assert_eq!(refused["data"]["violations"][0]["rule"], "local_reference", "{refused}");
}

#[tokio::test]
async fn an_agent_that_describes_itself_to_everybody_is_read_without_a_token() {
    let server = TestServer::shared().await;
    let (owner, other) = (server.agent("owner").await, server.agent("other").await);
    let create = json!({ "name": "Reader", "capability_manifest": sample() });
    let id = text(&owner.call("agent.create", &create).await["agent"]["id"]);
    other.call("agent.create", &json!({ "name": "Not described" })).await;

    let unknown = read(&server, "0190163d-868b-7ce2-a5f1-c1b6d0b3a7e4").await;
    assert_eq!((unknown.status, unknown.header("www-authenticate")), (401, Some("Bearer")));
    for visibility in [None, Some("visibility: unlisted\n"), Some("visibility: private\n")] {
        if let Some(visibility) = visibility {
            describe(&server, &owner, visibility).await;
        }
        for id in [id.as_str(), owner.aid(), other.aid(), "alice.elsewhere.example", "nobody"] {
            let refused = read(&server, id).await;
            assert_eq!((refused.status, refused.text()), (401, unknown.text()), "{id} {visibility:?}");
        }
    }

    describe(&server, &owner, "").await;
    let shown = read(&server, owner.aid()).await;
    // A browser would give who logs in what it has stored for everybody: the version is that of the manifest, and the same for both.
    assert_eq!((shown.status, shown.header("cache-control")), (200, Some("no-store")), "{}", shown.text());
    let data = shown.json()["data"].clone();
    let full = other.call("agent.get", &json!({ "id": id })).await["agent"].clone();
    let mut expected = full;
    for hidden in ["owner_id", "connection_mode"] {
        expected.as_object_mut().unwrap().remove(hidden);
    }
    assert_members(&data, &expected);
    assert_eq!(read(&server, &id).await.json()["data"], data);

    let etag = shown.header("etag").expect("a version").to_owned();
    let again = server.http("GET", &format!("/agents/{id}")).header("If-None-Match", &etag).send().await;
    assert_eq!((again.status, again.header("etag")), (304, Some(&*etag)));
    let head = server.http("HEAD", &format!("/agents/{id}")).send().await;
    assert_eq!((head.status, head.header("etag")), (200, Some(&*etag)));
    let nonsense = server.http("GET", &format!("/agents/{id}")).bearer("nonsense").send().await;
    assert_eq!(
        (nonsense.status, nonsense.text()),
        (401, unknown.text()),
        "a bad token is not as good as none"
    );

    for (verb, path) in [("GET", "/agents"), ("PATCH", &*format!("/agents/{id}")), ("GET", "/h2a/relations")]
    {
        assert_eq!(server.http(verb, path).send().await.status, 401, "{verb} {path}");
    }
    assert_eq!(server.ask_error("agent.get", &json!({ "id": id })).await["code"], -32013, "over JSON-RPC");
}

#[tokio::test]
async fn an_address_reads_without_a_token_only_so_often() {
    let server = TestServer::shared().await;
    let owner = server.agent("owner").await;
    owner.call("agent.create", &json!({ "name": "Reader", "capability_manifest": sample() })).await;
    describe(&server, &owner, "").await;
    let mut answered = 0;
    let refused = loop {
        // Of those that are not found as many are counted as of those that are.
        let id = if answered % 2 == 0 { owner.aid() } else { "nobody" };
        let answer = read(&server, id).await;
        if answer.status == 429 {
            break answer;
        }
        answered += 1;
        assert!(answered <= 600, "nothing is refused");
    };
    assert!(answered >= 120, "only {answered} in a minute");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.header("access-control-allow-origin"), Some("*"), "the page learns when to ask again");
    let path = format!("/agents/{}", owner.aid());
    let known = send(&server, "GET", &path, &owner.tokens.access, &Value::Null).await;
    assert_eq!(known.status, 200, "who has a token is not counted with them");
}

#[tokio::test]
async fn pages_of_other_origins_may_read_agents_and_use_relations_and_nothing_else() {
    let server = TestServer::shared().await;
    let origin = async |verb: &str, path: &str, asks_for: Option<&str>| {
        let request = server.http(verb, path).header("Origin", "https://www.example.com");
        let request = match asks_for {
            Some(method) => request
                .header("Access-Control-Request-Method", method)
                .header("Access-Control-Request-Headers", "authorization,content-type"),
            None => request,
        };
        let answer = request.send().await;
        assert_eq!(answer.header("access-control-allow-credentials"), None, "no cookies: {verb} {path}");
        (answer.status, answer.header("access-control-allow-origin").map(str::to_owned), answer)
    };
    let any = Some("*".to_owned());
    for (path, asks_for) in [
        ("/agents/x", "GET"),
        ("/h2a/relations", "POST"),
        ("/h2a/relations", "GET"),
        ("/h2a/relations/x", "PATCH"),
        ("/h2a/relations/x", "DELETE"),
    ] {
        let (status, allowed, answer) = origin("OPTIONS", path, Some(asks_for)).await;
        assert_eq!((status, &allowed), (204, &any), "{asks_for} {path}");
        let methods = answer.header("access-control-allow-methods").unwrap_or_default();
        assert!(methods.split(", ").any(|method| method == asks_for), "{asks_for} {path}: {methods}");
        let headers = answer.header("access-control-allow-headers").unwrap_or_default();
        assert!(headers.contains("Authorization"), "{headers}");
        let (status, allowed, _) = origin(asks_for, path, None).await;
        assert_eq!((status, &allowed), (401, &any), "the refusal can be read: {asks_for} {path}");
    }
    let (_, _, answer) = origin("OPTIONS", "/agents/x", Some("GET")).await;
    assert_eq!(answer.header("access-control-allow-methods"), Some("GET, HEAD, OPTIONS"));
    for (path, asks_for) in
        [("/agents/x", "PATCH"), ("/agents/x", "DELETE"), ("/agents", "POST"), ("/agents/x/token", "POST")]
    {
        let (_, allowed, _) = origin("OPTIONS", path, Some(asks_for)).await;
        assert_eq!(allowed, None, "{asks_for} {path}");
        let (_, allowed, _) = origin(asks_for, path, None).await;
        assert_eq!(allowed, None, "{asks_for} {path}");
    }
    let (status, _, answer) = origin("OPTIONS", "/agents/x", None).await;
    assert_eq!((status, answer.header("allow")), (204, Some("DELETE, GET, HEAD, PATCH, OPTIONS")));
}
