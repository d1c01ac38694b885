//! Profiles, their credentials, what the back ends can do, and which profiles can be tried.

use super::support::{TestRun, TestRuns, admin, hwlab, refusal};
use crate::Settings;
use crate::secrets::AUTH_JSON;
use crate::settings::SecretStoreKind;
use kernel::{Caller, ServiceSettings as _};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;

const KEY: &str = "sk-a-key-that-nobody-may-see";

async fn profiles(runs: &TestRuns) -> Vec<Value> {
    let listed = runs.ok("profile.list", json!({})).await;
    listed["profiles"].as_array().unwrap().clone()
}

fn names(profiles: &[Value]) -> Vec<&str> {
    profiles.iter().map(|profile| profile["profile"].as_str().unwrap()).collect()
}

async fn set(runs: &TestRuns, params: Value) -> Value {
    let stored = runs.call(&admin(), "profile.set_credential", params).await.unwrap();
    assert!(!stored.to_string().contains(KEY), "{stored}");
    stored["profile"].clone()
}

#[tokio::test]
async fn a_credential_is_stored_and_never_shown() {
    let runs = TestRuns::open().await;
    let before = profiles(&runs).await;
    assert_eq!(names(&before), ["codex", "deepseek", "dsflash-go", "example", "minimax-m3"]);
    assert_eq!(before[0]["failureKind"], "secret-unavailable");
    let secret = json!({
        "name": "agentrun-v01-provider-codex", "namespace": "agentrun-v01", "keys": ["auth.json", "config.toml"],
    });
    assert_eq!((&before[0]["configured"], &before[0]["secretRef"]), (&json!(false), &secret));
    assert_eq!(
        (&before[3]["configured"], &before[3]["backendKind"]),
        (&json!(true), &json!("process-jsonl"))
    );
    assert_eq!(before[3]["secretRef"], json!(null));

    let url = "https://api.example.com/v1";
    let params = json!({ "profile": "codex", "apiKey": KEY, "baseUrl": url, "model": "m" });
    let stored = set(&runs, params).await;
    let hash = kernel::sha256_hex(KEY);
    assert_eq!((&stored["configured"], &stored["resourceVersion"]), (&json!(true), &json!(1)));
    assert_eq!(stored["hashSuffix"], hash[56..]);
    assert_eq!((&stored["baseUrl"], &stored["secretRef"]["keys"]), (&json!(url), &json!(["auth.json"])));
    let file = runs.test.world.data.join("secrets/agentrun-v01-provider-codex/auth.json");
    assert_eq!(fs::read_to_string(&file).unwrap(), json!({ "OPENAI_API_KEY": KEY }).to_string());

    let auth = json!({ "profile": "codex", "authJson": "{}", "configToml": "model = \"m\"" });
    let stored = set(&runs, auth).await;
    assert_eq!((&stored["resourceVersion"], &stored["baseUrl"]), (&json!(2), &json!(null)));
    assert_eq!(stored["secretRef"]["keys"], json!(["auth.json", "config.toml"]));
    let got = runs.ok("profile.get", json!({ "profile": "codex" })).await;
    assert_eq!(got["profile"], stored);

    let deleted = runs.call(&admin(), "profile.delete", json!({ "profile": "codex" })).await.unwrap();
    assert_eq!(deleted["profile"], before[0]);
    assert!(!file.exists());
    assert_eq!(profiles(&runs).await, before);
}

#[tokio::test]
async fn other_profiles_are_there_while_they_have_a_credential() {
    let runs = TestRuns::open().await;
    let mine = json!({ "profile": "my-own" });
    assert_eq!(runs.refused("profile.get", mine.clone()).await, refusal("not-found", 404));
    set(&runs, json!({ "profile": "my-own", "apiKey": KEY })).await;
    let listed = profiles(&runs).await;
    assert_eq!(names(&listed)[5], "my-own");
    assert_eq!((&listed[5]["builtin"], &listed[5]["backendKind"]), (&json!(false), &json!("codex-stdio")));
    let backends = runs.ok("run.backends", json!({})).await;
    let of = |name: &str| {
        let found = backends["backends"].as_array().unwrap().iter().find(|one| one["profile"] == name);
        found.unwrap()["capabilities"].clone()
    };
    assert_eq!(of("example"), json!(["approval", "steer", "tools"]));
    assert_eq!(of("my-own"), of("codex"));

    runs.insert_run(&TestRun { profile: "my-own", ..TestRun::NEW }).await;
    let used = runs.refused_to(&admin(), "profile.delete", mine.clone()).await;
    assert_eq!(used, refusal("schema-invalid", 409), "a run uses it");
    runs.sql("UPDATE run SET ended_at = 1").await;
    runs.call(&admin(), "profile.delete", mine.clone()).await.unwrap();
    assert_eq!(runs.refused_to(&admin(), "profile.delete", mine.clone()).await, refusal("not-found", 404));
    assert_eq!(runs.refused("profile.get", mine).await, refusal("not-found", 404));
}

#[tokio::test]
async fn only_administrators_write_credentials() {
    let runs = TestRuns::open().await;
    let params = json!({ "profile": "codex", "apiKey": KEY });
    for caller in [hwlab(), Caller::Unauthenticated(None)] {
        assert!(runs.call(&caller, "profile.set_credential", params.clone()).await.is_err(), "{caller:?}");
    }
    let wrong = json!({ "profile": "codex", "apiKey": KEY, "authJson": "{}" });
    let refused = runs.refused_to(&admin(), "profile.set_credential", wrong).await;
    assert_eq!(refused, refusal("schema-invalid", 400));
}

#[tokio::test]
async fn credentials_of_the_environment_cannot_be_written() {
    let settings = Settings { secrets: SecretStoreKind::Env, ..Settings::default() };
    let runs = TestRuns::with(settings).await;
    let params = json!({ "profile": "codex", "apiKey": KEY });
    let error = runs.call(&admin(), "profile.set_credential", params).await.unwrap_err();
    assert_eq!(error.http_status().as_u16(), 409);
    assert!(error.to_string().contains("AGENTRUN_PROVIDER_CODEX_API_KEY"), "{error}");
    assert!(!runs.test.world.data.join("secrets").exists());
}

/// What is checked of a new run is checked once: the answer to a repetition is the run that is there.
#[tokio::test]
async fn a_run_that_was_created_is_answered_again_when_its_credential_is_gone() {
    let runs = TestRuns::open().await;
    set(&runs, json!({ "profile": "codex", "apiKey": KEY })).await;
    let new = |project: &str, key: &str| {
        json!({
            "tenantId": "hwlab", "projectId": project, "workspaceRef": {}, "providerId": "G14",
            "backendProfile": "codex", "traceSink": null, "idempotencyKey": key,
        })
    };
    let created = runs.ok("run.create", new("acme/site", "k-1")).await;
    assert_eq!(created["created"], true);
    runs.run.secrets.remove("codex").await.unwrap();
    let refused = runs.refused("run.create", new("acme/site", "k-2")).await;
    assert_eq!(refused, refusal("secret-unavailable", 409), "a new run needs it");
    let again = runs.ok("run.create", new("acme/site", "k-1")).await;
    assert_eq!(again, json!({ "run": created["run"], "created": false }));
    let other = runs.call(&hwlab(), "run.create", new("acme/other", "k-1")).await.unwrap_err();
    assert_eq!(other.data("failureKind"), Some(&json!("idempotency-conflict")), "{other}");
    assert_eq!(other.data("existingRunId"), Some(&created["run"]["runId"]));
    let mut foreign = new("acme/site", "k-1");
    foreign["tenantId"] = json!("unidesk");
    assert_eq!(runs.refused("run.create", foreign).await, refusal("tenant-policy-denied", 403));
}

#[tokio::test]
async fn what_is_known_of_another_version_of_a_credential_is_not_shown() {
    let runs = TestRuns::open().await;
    let stored = set(&runs, json!({ "profile": "codex", "apiKey": KEY, "model": "m" })).await;
    assert_eq!((&stored["model"], &stored["resourceVersion"]), (&json!("m"), &json!(1)));
    // Another process has replaced the credential, and crashed before it could say so.
    runs.run.secrets.put("codex", BTreeMap::from([(AUTH_JSON, "{}".to_owned())])).await.unwrap();
    let got = runs.ok("profile.get", json!({ "profile": "codex" })).await["profile"].clone();
    assert_eq!(
        (&got["configured"], &got["model"], &got["hashSuffix"]),
        (&json!(true), &json!(null), &json!(null))
    );
    assert_eq!(profiles(&runs).await[0], got);
    let again = set(&runs, json!({ "profile": "codex", "apiKey": KEY })).await;
    assert_eq!((&again["resourceVersion"], again["hashSuffix"].is_string()), (&json!(2), true));
}

#[tokio::test]
async fn processes_that_share_the_store_change_a_credential_one_after_the_other() {
    let runs = TestRuns::open().await;
    // As another process would be: with a lock of its own.
    let other = crate::RunService::open(&runs.test.world, &Settings::default()).await.unwrap();
    let mut writing = tokio::task::JoinSet::new();
    for n in 0..12 {
        let service = if n % 2 == 0 { runs.run.clone() } else { other.clone() };
        let key = format!("a-key-{n}");
        let params = json!({ "profile": "codex", "apiKey": key, "configToml": key, "model": key });
        let params = serde_json::from_value(params).unwrap();
        writing.spawn(async move { service.profile_set_credential(admin(), params).await.unwrap() });
    }
    assert_eq!(writing.join_all().await.len(), 12);
    let shown = runs.ok("profile.get", json!({ "profile": "codex" })).await["profile"].clone();
    let folder = runs.test.world.data.join("secrets/agentrun-v01-provider-codex");
    let key = fs::read_to_string(folder.join("config.toml")).unwrap();
    assert_eq!(
        fs::read_to_string(folder.join("auth.json")).unwrap(),
        json!({ "OPENAI_API_KEY": key }).to_string()
    );
    assert_eq!((&shown["model"], &shown["resourceVersion"]), (&json!(key), &json!(12)));
    assert_eq!(shown["hashSuffix"], kernel::sha256_hex(&key)[56..]);
    assert_eq!(
        fs::read_dir(runs.test.world.data.join("secrets")).unwrap().count(),
        2,
        "nothing is left over"
    );
}

#[tokio::test]
async fn a_run_whose_credential_was_deleted_gets_no_runner() {
    let runs = TestRuns::open().await;
    set(&runs, json!({ "profile": "my-own", "apiKey": KEY })).await;
    let new = json!({
        "tenantId": "hwlab", "projectId": "acme/site", "workspaceRef": {}, "providerId": "G14",
        "backendProfile": "my-own", "traceSink": null,
    });
    let run = runs.ok("run.create", new).await["run"]["runId"].clone();
    let turn = json!({ "runId": run, "type": "turn", "payload": { "prompt": "x" } });
    let command = runs.ok("run.command_create", turn).await["command"]["commandId"].clone();
    let job = |key: &str| json!({ "runId": run, "commandId": command, "launcher": "external", "idempotencyKey": key });
    runs.ok("run.runner_job_create", job("first")).await;
    // It was asked whether a run uses the profile before this one was there.
    runs.run.secrets.remove("my-own").await.unwrap();
    runs.sql("UPDATE run_job SET ended_at = 1").await;
    assert_eq!(
        runs.refused("run.runner_job_create", job("second")).await,
        refusal("secret-unavailable", 409)
    );
    assert_eq!(runs.ok("run.runner_job_create", job("first")).await["created"], false, "a repetition");

    // One that the caller has named may be where its runner is.
    let secret = json!({ "profile": "my-own", "secretRef": { "name": "agentrun-v01-provider-my-own" } });
    let policy = json!({ "secretScope": { "providerCredentials": [secret] } });
    let new = json!({
        "tenantId": "hwlab", "projectId": "acme/site", "workspaceRef": {}, "providerId": "G14",
        "backendProfile": "my-own", "traceSink": null, "executionPolicy": policy,
    });
    let run = runs.ok("run.create", new).await["run"]["runId"].clone();
    let turn = json!({ "runId": run, "type": "turn", "payload": { "prompt": "x" } });
    let command = runs.ok("run.command_create", turn).await["command"]["commandId"].clone();
    let job = json!({ "runId": run, "commandId": command, "launcher": "external" });
    runs.ok("run.runner_job_create", job).await;
}

#[tokio::test]
async fn a_profile_that_cannot_be_tried_is_refused_before_there_is_a_run() {
    let runs = TestRuns::open().await;
    for (profile, expected) in [
        ("nothing-here", refusal("not-found", 404)),
        ("No Name", refusal("schema-invalid", 400)),
        ("codex", refusal("secret-unavailable", 409)),
        // This service knows of no gateway, so it starts no runners.
        ("example", refusal("schema-invalid", 400)),
    ] {
        let refused = runs.refused_to(&admin(), "profile.validate", json!({ "profile": profile })).await;
        assert_eq!(refused, expected, "{profile}");
    }
    let example = json!({ "profile": "example" });
    let error = runs.call(&admin(), "profile.validate", example.clone()).await.unwrap_err();
    assert!(error.to_string().contains("set run.launcher to local"), "{error}");
    let listed = runs.call(&admin(), "run.list", json!({})).await.unwrap();
    assert_eq!(listed["runs"], json!([]));

    let unknown = json!({ "profile": "example", "validationId": "val_unknown" });
    assert_eq!(
        runs.refused_to(&admin(), "profile.validation_get", unknown.clone()).await,
        refusal("not-found", 404)
    );
    for caller in [hwlab(), Caller::Unauthenticated(None)] {
        for (method, params) in [("profile.validate", &example), ("profile.validation_get", &unknown)] {
            assert!(runs.call(&caller, method, params.clone()).await.is_err(), "{method} {caller:?}");
        }
    }
}

#[tokio::test]
async fn a_validation_that_cannot_begin_leaves_no_open_run() {
    // Its run gets no command.
    let settings = Settings {
        manager_url: Some("http://127.0.0.1:1".to_owned()),
        waiting_commands: 0,
        ..Settings::default()
    };
    for (tenant, expected) in [(None, "hwlab"), (Some("unidesk"), "unidesk")] {
        let validation_tenant = tenant.map(str::to_owned);
        let runs = TestRuns::with(Settings { validation_tenant, ..settings.clone() }).await;
        let example = json!({ "profile": "example" });
        let refused = runs.refused_to(&admin(), "profile.validate", example.clone()).await;
        assert_eq!(refused, refusal("rate-limited", 429));
        let listed = runs.call(&admin(), "run.list", json!({})).await.unwrap();
        let [run] = &listed["runs"].as_array().unwrap()[..] else { panic!("{listed}") };
        assert_eq!(
            (&run["tenantId"], &run["projectId"], &run["status"]),
            (&json!(expected), &json!("profile-validation"), &json!("cancelled"))
        );
        assert_eq!(run["executionPolicy"]["timeoutMs"], 120_000);
        let shown = runs.ok("profile.get", example).await;
        assert_eq!(shown["profile"]["lastValidation"], json!(null));
    }
}

#[test]
fn validations_are_for_a_tenant_of_the_server() {
    let with = |tenant: &str| Settings { validation_tenant: Some(tenant.to_owned()), ..Settings::default() };
    assert!(with("unidesk").check().is_ok());
    let error = with("nobody").check().unwrap_err().to_string();
    assert_eq!(error, "run.validation_tenant: nobody is not a tenant");
}
