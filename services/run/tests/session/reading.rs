//! Sessions: who sees them, what readers have read, and cancelling.

use crate::Settings;
use crate::tests::support::{TestRun, TestRuns, admin, hwlab, refusal, runner, unidesk};
use kernel::{Aid, Caller, CallingAgent};
use serde_json::{Value, json};

/// A key as providers give them.
const SECRET: &str = "sk-Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1Wx2Yz3Ab4Cd5";

fn of(tenant: &str, profile: &str) -> Value {
    json!({ "tenantId": tenant, "projectId": "acme/site", "backendProfile": profile })
}

#[tokio::test]
async fn a_session_is_created_with_its_folder() {
    let runs = TestRuns::open().await;
    let mut params = of("hwlab", "example");
    params["title"] = json!("The site");
    params["expiresInMs"] = json!(60_000);
    let created = runs.ok("session.create", params).await["session"].clone();
    let id = created["sessionId"].as_str().unwrap();
    assert!(id.starts_with("sess_") && id.len() == 37, "{id}");
    assert_eq!(created["executionState"], "idle");
    assert_eq!((&created["version"], &created["unread"]), (&json!(0), &json!(false)));
    assert_eq!((&created["storageKind"], &created["storageBackend"]), (&json!("pvc"), &json!("dir")));
    assert_eq!(
        (&created["createdAt"], &created["expiresAt"]),
        (&json!("2026-11-15T00:16:01.000Z"), &json!("2026-11-15T00:17:01.000Z"))
    );
    let folder = runs.test.world.data.join(format!("sessions/agentrun-v01-session-{id}"));
    assert!(folder.is_dir());
    let kept = runs.run.store.account.list(Default::default()).await.unwrap();
    assert!(serde_json::to_string(&kept).unwrap().contains("tenant:hwlab"), "the tenant pays");
    assert_eq!(runs.ok("session.get", json!({ "sessionId": id })).await["session"], created);
}

#[tokio::test]
async fn what_a_session_needs_is_checked_in_one_order() {
    let runs = TestRuns::open().await;
    let with = |member: &str, value: Value| {
        let mut params = of("hwlab", "example");
        params[member] = value;
        params
    };
    let invalid = || refusal("schema-invalid", 400);
    for params in [
        with("projectId", json!("")),
        with("projectId", json!("x".repeat(201))),
        with("title", json!("")),
        with("expiresInMs", json!(1)),
        with("expiresInMs", json!(i64::MAX)),
        with("backendProfile", json!("Not A Slug")),
    ] {
        assert_eq!(runs.refused("session.create", params.clone()).await, invalid(), "{params}");
    }
    for tenant in ["unidesk", "nobody"] {
        let refused = runs.refused("session.create", of(tenant, "Not A Slug")).await;
        assert_eq!(refused, refusal("tenant-policy-denied", 403), "{tenant}");
    }
    for profile in ["codex", "my-own"] {
        let refused = runs.refused("session.create", of("hwlab", profile)).await;
        assert_eq!(refused, refusal("secret-unavailable", 409), "{profile}");
    }
    let credential = json!({ "profile": "my-own", "apiKey": "x" });
    runs.call(&admin(), "profile.set_credential", credential).await.unwrap();
    runs.ok("session.create", of("hwlab", "my-own")).await;
    runs.call(&admin(), "session.create", of("unidesk", "example")).await.unwrap();
    let refused = runs.refused_to(&admin(), "session.create", of("nobody", "example")).await;
    assert_eq!(refused, refusal("tenant-policy-denied", 403));
    assert_eq!(std::fs::read_dir(runs.test.world.data.join("sessions")).unwrap().count(), 2);
}

#[tokio::test]
async fn a_session_that_cannot_be_paid_for_leaves_no_folder() {
    let runs = TestRuns::open().await;
    runs.run.store.account.set_tenant_shares(Default::default());
    let refused = runs.refused("session.create", of("hwlab", "example")).await;
    assert_eq!(refused.1, 429, "{refused:?}");
    assert_eq!(std::fs::read_dir(runs.test.world.data.join("sessions")).unwrap().count(), 0);
}

#[tokio::test]
async fn sessions_of_other_tenants_do_not_exist() {
    let mut settings = Settings::default();
    settings.tenants.get_mut("hwlab").unwrap().aids = vec!["alice.aid.pub".to_owned()];
    let runs = TestRuns::with(settings).await;
    let id = runs.session().await;
    let get = || json!({ "sessionId": id });
    let agent = |name: &str| {
        let aid = Aid::parse(name).unwrap();
        Caller::Agent(CallingAgent::without_session(aid, [127, 0, 0, 1].into()))
    };
    for caller in [hwlab(), admin(), agent("alice.aid.pub"), Caller::Operator] {
        runs.call(&caller, "session.get", get()).await.unwrap();
    }
    let methods = ["get", "trace", "output", "read", "storage", "delete_storage"];
    for method in methods.map(|verb| format!("session.{verb}")) {
        assert_eq!(runs.refused_to(&unidesk(), &method, get()).await, refusal("not-found", 404), "{method}");
        let refused = runs.refused_to(&agent("bobb.aid.pub"), &method, get()).await;
        assert_eq!(refused, refusal("forbidden", 403), "{method}");
        let unknown = runs.refused(&method, json!({ "sessionId": "sess_unknown" })).await;
        assert_eq!(unknown, refusal("not-found", 404), "{method}");
    }
    assert!(runs.call(&runner("run_1", "attempt_1"), "session.get", get()).await.is_err());
    let control = json!({ "sessionId": id, "action": "cancel" });
    assert_eq!(runs.refused_to(&unidesk(), "session.control", control).await, refusal("not-found", 404));
}

#[tokio::test]
async fn a_session_is_unread_until_its_reader_has_read_its_version() {
    let runs = TestRuns::open().await;
    let id = runs.session().await;
    let is_unread = async |reader: &str| {
        let params = json!({ "sessionId": id, "readerId": reader });
        runs.ok("session.get", params).await["session"]["unread"].clone()
    };
    let read = async |params: Value| {
        let mut all = json!({ "sessionId": id });
        all.as_object_mut().unwrap().extend(params.as_object().unwrap().clone());
        runs.call(&hwlab(), "session.read", all).await
    };
    assert_eq!(is_unread("cli").await, false);
    runs.end_a_command(&id).await;
    runs.end_a_command(&id).await;
    assert_eq!((is_unread("cli").await, is_unread("web").await), (json!(true), json!(true)));
    assert_eq!(read(json!({ "version": 1 })).await.unwrap()["session"]["unread"], true);
    assert_eq!(read(json!({})).await.unwrap()["session"]["unread"], false);
    assert_eq!(
        read(json!({ "version": 0 })).await.unwrap()["session"]["unread"],
        false,
        "it never moves back"
    );
    assert_eq!((is_unread("cli").await, is_unread("web").await), (json!(false), json!(true)));
    for bad in [
        json!({ "version": 3 }),
        json!({ "version": -1 }),
        json!({ "readerId": "a b" }),
        json!({ "readerId": SECRET }),
    ] {
        assert_eq!(read(bad.clone()).await.unwrap_err().http_status().as_u16(), 400, "{bad}");
    }

    for n in 1..64 {
        read(json!({ "readerId": format!("reader{n}") })).await.unwrap();
    }
    let refused = read(json!({ "readerId": "one-more" })).await.unwrap_err();
    assert_eq!((refused.http_status().as_u16(), refused.data("limit")), (429, Some(&json!(64))));
    runs.end_a_command(&id).await;
    assert_eq!(read(json!({ "readerId": "reader63" })).await.unwrap()["session"]["unread"], false);
}

#[tokio::test]
async fn cancel_ends_the_active_command_or_else_the_run() {
    let runs = TestRuns::open().await;
    let id = runs.session().await;
    let cancel = async || {
        let params = json!({ "sessionId": id, "action": "cancel" });
        runs.ok("session.control", params).await["cancelled"].clone()
    };
    let refused = runs.refused("session.control", json!({ "sessionId": id, "action": "dance" })).await;
    assert_eq!(refused, refusal("schema-invalid", 400));
    assert_eq!(cancel().await, "nothing");
    runs.insert_run(&TestRun { session: Some(&id), ..TestRun::NEW }).await;
    let turn = json!({ "runId": TestRun::NEW.id, "type": "turn", "payload": { "prompt": "x" } });
    let command = runs.ok("run.command_create", turn).await["command"]["commandId"].clone();
    assert_eq!(cancel().await, "command");
    let read = json!({ "runId": TestRun::NEW.id, "commandId": command });
    assert_eq!(runs.ok("run.command_get", read).await["command"]["state"], "cancelled");
    assert_eq!(cancel().await, "run");
    assert_eq!(cancel().await, "nothing");
}
