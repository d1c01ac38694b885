//! Validations of profiles: the server starts a runner for each, and what its back end does decides.

use serde_json::{Value, json};

use super::local::{nothing_is_left, scripted, server, signal};
use crate::runs::client::{TestApi, TestManager, number};
use crate::support::agent::text;
use crate::support::{program, until};

/// A validation that was started.
struct StartedValidation {
    admin: TestApi,
    path: String,
    begun: Value,
}

impl StartedValidation {
    async fn start(admin: &TestApi, profile: &str) -> StartedValidation {
        let path = format!("/provider-profiles/{profile}");
        let begun = admin.ok("POST", &format!("{path}/validate"), &json!({}), 202).await;
        assert_eq!((&begun["status"], &begun["profile"]), (&json!("running"), &json!(profile)), "{begun}");
        let path = format!("{path}/validations/{}", text(&begun["validationId"]));
        StartedValidation { admin: admin.clone(), path, begun }
    }

    async fn run(&self) -> Value {
        self.admin.get(&format!("/runs/{}", text(&self.begun["runId"]))).await
    }

    async fn job(&self) -> Value {
        let (run, job) = (text(&self.begun["runId"]), text(&self.begun["runnerJobId"]));
        self.admin.get(&format!("/runs/{run}/runner-jobs/{job}")).await
    }

    async fn ended(&self) -> Value {
        let ended = || async {
            let read = self.admin.get(&self.path).await;
            (read["status"] != "running").then_some(read)
        };
        let ended = until("the validation ends", ended).await;
        for member in ["validationId", "profile", "runId", "commandId", "runnerJobId"] {
            assert_eq!(ended[member], self.begun[member], "{member}");
        }
        assert_eq!(self.run().await["status"], "cancelled", "nothing stays open");
        ended
    }

    async fn failed(&self) -> String {
        let ended = self.ended().await;
        assert_eq!(ended["status"], "failed", "{ended}");
        text(&ended["failureKind"])
    }
}

async fn last_validation(manager: &TestManager, profile: &str) -> Value {
    let back_end = manager.back_end_of("l0").await;
    let mut shown = back_end.api.get(&format!("/provider-profiles/{profile}")).await;
    let listed = back_end.api.get("/provider-profiles").await;
    let listed = listed["profiles"].as_array().expect("profiles").iter();
    let listed: Vec<&Value> = listed.filter(|one| one["profile"] == profile).collect();
    assert_eq!(listed, [&shown]);
    shown["lastValidation"].take()
}

#[tokio::test]
async fn a_profile_that_works_passes_and_leaves_no_open_run() {
    let manager = server("run.validation_tenant = \"l3\"\n");
    let (admin, tenant) = (manager.admin().await, manager.back_end_of("l3").await);
    assert_eq!(last_validation(&manager, "example").await, json!(null));
    let validation = StartedValidation::start(&admin, "example").await;
    let run = tenant.read(&text(&validation.begun["runId"])).await;
    assert_eq!(
        (&run["tenantId"], &run["projectId"], &run["providerId"], &run["workspaceRef"]),
        (&json!("l3"), &json!("profile-validation"), &json!("local"), &json!({}))
    );
    assert_eq!(run["executionPolicy"]["timeoutMs"], 120_000);
    let ended = validation.ended().await;
    assert_eq!((&ended["status"], &ended["failureKind"]), (&json!("passed"), &json!(null)), "{ended}");
    let last = json!({
        "validationId": ended["validationId"], "status": "passed", "failureKind": null, "at": ended["endedAt"],
    });
    assert_eq!(last_validation(&manager, "example").await, last);
    let job = validation.job().await;
    assert_eq!(job["phase"], "succeeded", "{job}");
    nothing_is_left(&manager, &job).await;

    // For administrators only.
    for (verb, path) in [("POST", "/provider-profiles/example/validate"), ("GET", validation.path.as_str())] {
        tenant.api.refused(verb, path, &Value::Null, (403, "forbidden")).await;
    }
    let unknown = "/provider-profiles/example/validations/val_unknown";
    admin.refused("GET", unknown, &Value::Null, (404, "not-found")).await;
    let other = validation.path.replace("/example/", "/codex/");
    admin.refused("GET", &other, &Value::Null, (404, "not-found")).await;
}

#[tokio::test]
async fn a_run_of_a_validation_is_cancelled_although_nobody_asks() {
    let manager = server("");
    let admin = manager.admin().await;
    let validation = StartedValidation::start(&admin, "example").await;
    let cancelled = || async { (validation.run().await["status"] == "cancelled").then_some(()) };
    until("its run is cancelled", cancelled).await;
    assert_eq!(validation.ended().await["status"], "passed");
    nothing_is_left(&manager, &validation.job().await).await;
}

#[tokio::test]
async fn a_validation_fails_as_the_back_end_does() {
    let done = r#"{"type":"done","status":"failed","failureKind":"provider-auth-failed","message":"no"}"#;
    let refuses = scripted("refuses", &format!("read -r line; echo '{done}'; read -r line"));
    let missing = "run.profiles.missing = { kind = \"process-jsonl\", program = [\"/nowhere/at-all\"] }\n";
    let manager = server(&format!("{refuses}{missing}"));
    let admin = manager.admin().await;
    for (profile, failure) in [("refuses", "provider-auth-failed"), ("missing", "backend-failed")] {
        let validation = StartedValidation::start(&admin, profile).await;
        assert_eq!(validation.failed().await, failure, "{profile}");
        let last = last_validation(&manager, profile).await;
        assert_eq!((&last["status"], &last["failureKind"]), (&json!("failed"), &json!(failure)), "{profile}");
        nothing_is_left(&manager, &validation.job().await).await;
    }
}

#[tokio::test]
async fn a_validation_whose_runner_dies_has_failed() {
    let manager = server(&scripted("waits", "while read -r line; do sleep 1003; done"));
    let admin = manager.admin().await;
    let validation = StartedValidation::start(&admin, "waits").await;
    signal(number(&validation.job().await["pid"]), "KILL");
    assert_eq!(validation.failed().await, "infra-failed");
    nothing_is_left(&manager, &validation.job().await).await;
}

#[tokio::test]
async fn a_credential_that_was_validated_can_be_deleted() {
    let manager = server(&format!(
        "run.profiles.keyed = {{ kind = \"process-jsonl\", program = [\"{}\", \"example-backend\"], credential_env = \"PROVIDER_API_KEY\" }}\n",
        program()
    ));
    let admin = manager.admin().await;
    let path = "/provider-profiles/keyed";
    let validate = format!("{path}/validate");
    admin.refused("POST", &validate, &json!({}), (409, "secret-unavailable")).await;
    let key = json!({ "apiKey": "sk-not-for-anybody-0123456789" });
    admin.ok("PUT", &format!("{path}/credential"), &key, 200).await;
    let validation = StartedValidation::start(&admin, "keyed").await;
    assert_eq!(validation.ended().await["status"], "passed");
    let deleted = admin.ok("DELETE", path, &Value::Null, 200).await;
    assert_eq!((&deleted["configured"], &deleted["lastValidation"]), (&json!(false), &json!(null)));
    admin.refused("GET", &validation.path, &Value::Null, (404, "not-found")).await;
    nothing_is_left(&manager, &validation.job().await).await;
}
