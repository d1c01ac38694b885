//! Health.

use super::support::{TestRuns, admin};
use kernel::Caller;
use serde_json::json;

#[tokio::test]
async fn health_is_open_and_names_no_value() {
    let runs = TestRuns::open().await;
    let nobody = Caller::Unauthenticated(None);
    let live = runs.get(&nobody, "/api/v1/health/live").await;
    assert_eq!((live.status, live.json()), (200, json!({ "ok": true, "serviceId": "agentrun-mgr" })));

    let credential = json!({ "profile": "codex", "apiKey": "a-key" });
    runs.call(&admin(), "profile.set_credential", credential).await.unwrap();
    for path in ["/api/v1/health", "/api/v1/health/readiness"] {
        let ready = runs.get(&nobody, path).await;
        assert_eq!(ready.status, 200, "{}", ready.text());
        let body = ready.json();
        let adapter = if testing::store_url().starts_with("sqlite") { "sqlite" } else { "postgres" };
        let store = json!({
            "adapter": adapter, "reachable": true, "migrationReady": true, "migrationId": "0002_agui",
        });
        assert_eq!((&body["ready"], &body["store"]), (&json!(true), &store));
        assert_eq!(body["launcher"], json!({ "kind": "external", "ready": true }));
        assert_eq!(body["secrets"]["valuesPrinted"], false);
        let refs = body["secrets"]["refs"].as_array().unwrap();
        let present = |name: &str| refs.iter().find(|one| one["name"] == name).unwrap()["present"].clone();
        assert_eq!(present("agentrun-v01-provider-codex"), true);
        assert_eq!(present("agentrun-v01-provider-deepseek"), false);
        assert_eq!((refs.len(), &body["failureKind"]), (4, &json!(null)));
        assert!(!ready.text().contains("a-key"));
    }
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_said_in_json() {
    let runs = TestRuns::open().await;
    runs.run.store.db().close().await;
    let answer = runs.get(&Caller::Unauthenticated(None), "/api/v1/health/readiness").await;
    let body = answer.json();
    assert_eq!(
        (answer.status, &body["ready"], &body["failureKind"]),
        (503, &json!(false), &json!("infra-failed"))
    );
    assert_eq!(body["store"]["reachable"], false);
}
