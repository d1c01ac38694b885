//! Tokens.

use crate::Settings;
use crate::store::NewToken;
use crate::tests::support::{TestRun, TestRuns};
use crate::tokens::{hash_of, shown_part};
use kernel::Caller;
use serde_json::{Value, json};

async fn create(runs: &TestRuns, params: Value) -> String {
    let created = runs.call(&Caller::Operator, "run.token_create", params).await.unwrap();
    let token = created["token"].as_str().unwrap().to_owned();
    assert_eq!(created["prefix"], token[..12]);
    token
}

/// The subject of a token, or the word of the refusal.
async fn verify(runs: &TestRuns, token: &str) -> String {
    let caller = Caller::service("gateway");
    match runs.call(&caller, "run.verify_token", json!({ "token": token })).await {
        Ok(verified) => verified["subject"].as_str().unwrap().to_owned(),
        Err(error) => error.kind().to_owned(),
    }
}

#[tokio::test]
async fn a_token_is_shown_once_and_valid_until_it_is_revoked() {
    let runs = TestRuns::open().await;
    let tenant = create(&runs, json!({ "tenantId": "hwlab" })).await;
    let admin = create(&runs, json!({ "admin": true })).await;
    assert!(tenant.starts_with("art_") && admin.starts_with("ara_"), "{tenant} {admin}");
    assert_eq!((verify(&runs, &tenant).await, verify(&runs, &admin).await), ("hwlab".into(), "admin".into()));
    for bad in ["", "art_unknown", &tenant[1..], &format!("{tenant}x"), &"art_0000".repeat(6)[..44]] {
        assert_eq!(verify(&runs, bad).await, "token_invalid", "{bad}");
    }

    let listed = runs.call(&Caller::Operator, "run.tokens", json!({})).await.unwrap();
    let shown: Vec<_> = listed["tokens"].as_array().unwrap().iter().map(|row| &row["prefix"]).collect();
    assert!(shown.contains(&&json!(tenant[..12])) && shown.len() == 2, "{listed}");
    assert!(!listed.to_string().contains(&tenant[..16]));

    let revoke = async |prefix: &str| {
        runs.call(&Caller::Operator, "run.token_revoke", json!({ "prefix": prefix })).await
    };
    for short in ["art_", &tenant[..7], &tenant[..13], &tenant[..43]] {
        assert!(revoke(short).await.is_err(), "{short}");
    }
    let none = tenant[..12].replace("art_", "art__");
    assert_eq!(revoke(&none[..12]).await.unwrap()["revoked"], 0, "an underscore is no wildcard");
    assert_eq!(revoke(&tenant[..8]).await.unwrap()["revoked"], 1);
    assert_eq!(revoke(&tenant[..12]).await.unwrap()["revoked"], 0, "again");
    assert_eq!(revoke(&admin).await.unwrap()["revoked"], 1, "the whole token");
    for revoked in [&tenant, &admin] {
        assert_eq!(verify(&runs, revoked).await, "token_invalid");
    }
}

#[tokio::test]
async fn a_token_is_for_a_listed_tenant_or_an_administrator() {
    let runs = TestRuns::open().await;
    for (params, code) in [
        (json!({}), "invalid_params"),
        (json!({ "tenantId": "hwlab", "admin": true }), "invalid_params"),
        (json!({ "tenantId": "nobody" }), "permission_denied"),
    ] {
        let refused = runs.call(&Caller::Operator, "run.token_create", params).await.unwrap_err();
        assert_eq!(refused.kind(), code, "{refused}");
    }
    let token = create(&runs, json!({ "tenantId": "hwlab" })).await;
    let mut settings = Settings::default();
    settings.tenants.remove("hwlab");
    let other = crate::RunService::open(&runs.test.world, &settings).await.unwrap();
    runs.test
        .world
        .add(crate::service(other, kernel::AgentRemoval::nothing_kept("a test removes it by itself")));
    assert_eq!(verify(&runs, &token).await, "token_invalid", "the tenant is no longer listed");
}

#[tokio::test]
async fn a_runner_token_ends_with_its_leases_or_its_run() {
    let runs = TestRuns::open().await;
    let until = runs.now() + 60_000;
    runs.insert_run(&TestRun { leased_until: Some(until), ..TestRun::NEW }).await;
    let token = runs.run.new_runner_token();
    let new = NewToken {
        hash: &hash_of(&token),
        prefix: &shown_part(&token),
        kind: "runner",
        tenant: None,
        run_and_attempt: Some(("run_1", "attempt_1")),
        created_at: runs.now(),
    };
    let mut tx = runs.run.store.db().begin().await.unwrap();
    runs.run.store.insert_token(&mut tx, &new).await.unwrap();
    runs.run.store.db().commit(tx).await.unwrap();
    assert!(token.starts_with("arr_"));
    assert_eq!(verify(&runs, &token).await, "run_1 attempt_1");
    let gateway = Caller::service("gateway");
    let verified = runs.call(&gateway, "run.verify_token", json!({ "token": token })).await.unwrap();
    assert_eq!(verified["payer"], "tenant:hwlab", "its streams and its CPU time are those of the tenant");
    let listed = runs.call(&Caller::Operator, "run.tokens", json!({})).await.unwrap();
    assert_eq!(listed["tokens"], json!([]), "those of runners are not listed");

    runs.test.world.clock.advance_ms(60_000 + 599_999);
    assert_eq!(verify(&runs, &token).await, "run_1 attempt_1");
    runs.test.world.clock.advance_ms(1);
    assert_eq!(verify(&runs, &token).await, "token_invalid", "ten minutes after the lease");
    runs.sql("UPDATE run SET lease_until = lease_until + 60000").await;
    assert_eq!(verify(&runs, &token).await, "run_1 attempt_1", "renewed");
    runs.sql("UPDATE run SET ended_at = 1").await;
    assert_eq!(verify(&runs, &token).await, "token_invalid", "the run has ended");
}
