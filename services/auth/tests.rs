//! Logins and tokens alone: what is single-use, what expires, what survives a restart.

use super::AuthService;
use super::store::{Login, LoginOutcome, Store, TOKENS_PER_AGENT, Token};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{Certificate, Curve, Key};
use kernel::{AgentRemover, Aid, Purpose, RemoveAgent as _};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fs;
use testing::{DAY_MS, TestAgent, TestWorld, cases, code, spki};

async fn refresh(test: &TestWorld, token: &Value) -> Value {
    test.call("auth.refresh_token", json!({ "refresh_token": token })).await.unwrap()
}

async fn verifies(test: &TestWorld, tokens: &Value) -> bool {
    let caller = kernel::Caller::service("gateway");
    test.call_as(caller, "auth.verify_token", json!({ "token": tokens["access_token"] })).await.is_ok()
}

#[tokio::test]
async fn a_login_works_once() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let (request_id, nonce) = test.login1(&alice).await.unwrap();
    test.login2(&alice, &request_id, &nonce).await.unwrap();
    assert_eq!(code(test.login2(&alice, &request_id, &nonce).await), -32002);
}

#[tokio::test]
async fn a_replay_stays_refused_after_a_restart() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let (request_id, nonce) = test.login1(&alice).await.unwrap();
    test.login2(&alice, &request_id, &nonce).await.unwrap();
    let test = test.restart().await;
    assert_eq!(code(test.login2(&alice, &request_id, &nonce).await), -32002);
}

#[tokio::test]
async fn a_nonce_is_valid_for_a_minute_whichever_way_the_clock_goes() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let (request_id, nonce) = test.login1(&alice).await.unwrap();
    test.world.clock.advance_ms(60_000);
    assert_eq!(code(test.login2(&alice, &request_id, &nonce).await), -32002);
    test.world.clock.advance_ms(-120_000);
    assert_eq!(
        code(test.login2(&alice, &request_id, &nonce).await),
        -32002,
        "a clock set back revives nothing"
    );
    test.world.clock.advance_ms(61_000);
    test.login2(&alice, &request_id, &nonce).await.unwrap();
}

#[tokio::test]
async fn request_ids_and_agents_cannot_be_swapped() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    let (first, nonce) = test.login1(&alice).await.unwrap();
    let (second, _) = test.login1(&alice).await.unwrap();
    assert_eq!(code(test.login2(&alice, &second, &nonce).await), -32002);
    assert_eq!(code(test.login2(&carol, &first, &nonce).await), -32002);
    let forged = TestAgent { aid: alice.aid.clone(), key: carol.key.clone(), cert: alice.cert.clone() };
    assert_eq!(code(test.login2(&forged, &first, &nonce).await), -32003);
    test.login2(&alice, &first, &nonce).await.unwrap();
}

#[tokio::test]
async fn client_time_is_signed_as_it_was_written() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let alice = test.register("alice").await;
    for (time, signed) in [("1794701761.10", "1794701761.10"), ("\"1e3\"", "1e3"), ("7", "7")] {
        let (request_id, nonce) = test.login1(&alice).await.unwrap();
        let signature = alice.sign(&format!("{nonce}:{signed}"));
        let text = format!(
            r#"{{"aid":"{}","request_id":"{request_id}","nonce":"{nonce}","client_time":{time},"signature":"{signature}"}}"#,
            alice.aid
        );
        let params = serde_json::value::RawValue::from_string(text).unwrap();
        test.world
            .mesh
            .call(kernel::Caller::Unauthenticated(None), "auth.aid_login2", Some(params))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_refresh_token_works_once_and_once_more_within_seconds() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let login = test.log_in(&alice).await;
    let first = refresh(&test, &login["refresh_token"]).await;
    assert_eq!((&first["success"], &first["refresh_count"]), (&json!(true), &json!(1)));

    // The answer was lost: the old token is shown again, and what it gave the first time is dead.
    let again = refresh(&test, &login["refresh_token"]).await;
    assert_eq!(again["success"], true);
    assert_eq!(refresh(&test, &first["refresh_token"]).await["success"], false);
    assert_eq!(refresh(&test, &login["refresh_token"]).await["success"], false, "one second chance, not two");

    let next = refresh(&test, &again["refresh_token"]).await;
    test.world.clock.advance_ms(11_000);
    let late = refresh(&test, &again["refresh_token"]).await;
    assert_eq!((&late["success"], &late["relogin_required"]), (&json!(false), &json!(true)));
    assert_eq!(late["error"], "invalid_or_expired_refresh_token");
    assert_eq!(
        refresh(&test, &next["refresh_token"]).await["success"],
        false,
        "two have it, so its chain ends"
    );
    assert_eq!(refresh(&test, &json!("")).await["error"], "missing refresh_token");
}

#[tokio::test]
async fn a_used_refresh_token_ends_its_chain_also_after_it_was_removed_and_no_other_chain() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let (login, other) = (test.log_in(&alice).await, test.log_in(&alice).await);
    let next = refresh(&test, &login["refresh_token"]).await;
    test.world.clock.advance_ms(120_000);
    let store = Store::new(test.world.db("auth", &sqlx::migrate!("./migrations")).await.unwrap());
    store.purge(test.world.clock.now_ms()).await.unwrap();
    let forged = format!("{}.x", next["refresh_token"].as_str().unwrap().replace('.', "-"));
    assert_eq!(refresh(&test, &json!(forged)).await["success"], false);
    let next = refresh(&test, &next["refresh_token"]).await;
    assert_eq!(next["success"], true, "nobody showed a token of the chain twice");
    assert_eq!(refresh(&test, &login["refresh_token"]).await["success"], false);
    assert_eq!(refresh(&test, &next["refresh_token"]).await["success"], false);
    assert_eq!(refresh(&test, &other["refresh_token"]).await["success"], true);
}

#[tokio::test]
async fn a_token_from_before_a_revocation_is_worthless_also_within_its_second() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let mut tokens = vec![test.log_in(&alice).await];
    for _ in 0..2 {
        test.inside("auth.revoke_tokens", json!({ "aid": alice.aid })).await;
        for old in &tokens {
            assert!(!verifies(&test, old).await);
            assert_eq!(refresh(&test, &old["refresh_token"]).await["success"], false);
        }
        tokens.push(test.log_in(&alice).await);
        assert!(verifies(&test, &tokens[tokens.len() - 1]).await, "the certificate is as good as before");
    }
    let newest = &tokens[tokens.len() - 1];
    assert_eq!(refresh(&test, &newest["refresh_token"]).await["success"], true);
    let told = test.events.lock().iter().filter(|event| event.method == "auth.tokens_revoked").count();
    assert_eq!(told, 2);
}

#[tokio::test]
async fn the_tokens_of_an_agent_whose_name_lapsed_are_revoked_once() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let alice = test.register("alice").await;
    test.world.clock.advance_ms(729 * DAY_MS);
    let auth = AuthService::open(&test.world).await.unwrap();
    let tokens = test.inside("auth.tokens_revoked_at", json!({ "aid": alice.aid })).await;
    assert_eq!(tokens["revoked_at"], json!(null));
    let remover = AgentRemover::new(&test.world, "auth", auth.store.db(), auth.clone());
    assert_eq!(remover.remove_ended().await.unwrap(), 0);
    test.world.clock.advance_ms(92 * DAY_MS);
    for _ in 0..2 {
        remover.remove_ended().await.unwrap();
    }
    let revoked_at = auth.store.revoked_at(&alice.aid).await.unwrap();
    assert_eq!(revoked_at, Some(test.world.clock.now_seconds()));
    let told = test.events.lock().iter().filter(|event| event.method == "auth.tokens_revoked").count();
    assert_eq!(told, 1, "every revocation closes connections");
}

#[tokio::test]
async fn tokens_that_ca_could_not_have_revoked_are() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let tokens = test.log_in(&alice).await;
    let auth = AuthService::open(&test.world).await.unwrap();
    auth.remove_agent(&Aid::parse(&alice.aid).unwrap(), test.world.clock.now_seconds()).await.unwrap();
    assert_eq!(refresh(&test, &tokens["refresh_token"]).await["success"], false);
}

/// A login of alice whose first refresh token has this hash.
fn stored_login(hash: &str, issued_at: i64, after_revocation: i64) -> Login {
    Login {
        request_id: format!("req-{hash}"),
        login_expires_at: 100,
        token: Token {
            hash: hash.to_owned(),
            chain: format!("chain-{hash}"),
            parent: None,
            aid: "alice.aid.pub".to_owned(),
            first_issued_at: issued_at,
            refresh_count: 0,
            issued_at,
            expires_at: 10_000,
            login_key: None,
            after_revocation,
        },
    }
}

/// Logins without end kept a row each for thirty days.
#[tokio::test]
async fn an_agent_has_so_many_refresh_tokens_and_a_login_more_ends_the_oldest() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let store = Store::new(test.world.db("auth", &sqlx::migrate!("./migrations")).await.unwrap());
    let logins = (0..TOKENS_PER_AGENT).map(|n| stored_login(&format!("token-{n}"), n, 0)).collect();
    let mut bob = stored_login("of-bob", 0, 0);
    bob.token.aid = "bobby.aid.pub".to_owned();
    store.log_in_all(logins).await.unwrap();
    store.log_in_all(vec![bob]).await.unwrap();
    let holds = async |hash: &str| store.holder(hash).await.unwrap().is_some();
    assert!(holds("token-0").await, "that many may be");

    // The clock of the server was set back: what is stored now seems to be the oldest, and stays.
    store.log_in_all(vec![stored_login("now", -1, 0)]).await.unwrap();
    for (hash, stays) in [("token-0", false), ("token-1", true), ("now", true), ("of-bob", true)] {
        assert_eq!(holds(hash).await, stays, "{hash}");
    }
    assert!(store.refresh("now", None, "next", 10, 0, 720).await.unwrap().is_some());
}

#[tokio::test]
async fn a_login_or_refresh_that_a_revocation_overtook_stores_nothing() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let store = Store::new(test.world.db("auth", &sqlx::migrate!("./migrations")).await.unwrap());
    let login = |hash: &str, after_revocation| stored_login(hash, 1, after_revocation);
    assert_eq!(store.log_in_all(vec![login("early", 0)]).await.unwrap(), [LoginOutcome::Stored]);
    assert_eq!(store.revoke_tokens("alice.aid.pub", 7).await.unwrap(), 7);
    assert_eq!(store.revoke_tokens("alice.aid.pub", 7).await.unwrap(), 8, "a later one has a later time");
    let outcomes = store.log_in_all(vec![login("late", 7), login("new", 8), login("new", 8)]).await.unwrap();
    assert_eq!(outcomes, [LoginOutcome::Overtaken, LoginOutcome::Stored, LoginOutcome::UsedBefore]);
    for (hash, works) in [("early", false), ("late", false), ("new", true)] {
        let refreshed = store.refresh(hash, None, &format!("{hash}-2"), 10, 0, 720).await.unwrap();
        assert_eq!(refreshed.is_some(), works, "{hash}");
    }
}

#[tokio::test]
async fn a_refresh_asks_for_the_certificate_although_nobody_told_of_its_revocation() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let tokens = test.log_in(&alice).await;
    // As after a `ca` that was killed between its commit and the call that tells of it.
    test.world.mesh.remove("auth");
    let revoke = json!({ "aid": alice.aid });
    let operator = kernel::Caller::Operator;
    assert_eq!(
        code(test.call_as(operator, "ca.revoke_cert", revoke).await),
        5003,
        "it says that tokens remain"
    );
    let test = test.restart().await;
    assert_eq!(refresh(&test, &tokens["refresh_token"]).await["success"], false);
    assert_eq!(code(test.login1(&alice).await), -32050);
}

#[tokio::test]
async fn a_rekey_ends_refresh_chains_and_no_access_token() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let tokens = test.log_in(&alice).await;
    let next = Key::generate(Curve::P256);
    for (proof, accepted) in [(Some(&alice.key), false), (Some(&next), true)] {
        let (request_id, nonce) = test.login1(&alice).await.unwrap();
        let signed = format!("{nonce}{}", spki(&next));
        let proof = proof.map(|key| STANDARD.encode(key.sign(signed.as_bytes())));
        let rekey = json!({
            "aid": alice.aid, "request_id": request_id, "nonce": nonce, "new_public_key": spki(&next),
            "signature": alice.sign(&signed), "proof": proof,
        });
        let outcome = test.call("auth.rekey", rekey).await;
        assert_eq!(outcome.is_ok(), accepted, "{outcome:?}");
    }
    assert_eq!(refresh(&test, &tokens["refresh_token"]).await["relogin_required"], true);
    assert!(verifies(&test, &tokens).await, "clients go on with the one they have");
    test.inside("ca.revoke_cert", json!({ "aid": alice.aid })).await;
    assert!(!verifies(&test, &tokens).await);
}

#[tokio::test]
async fn once_the_successor_was_used_the_old_token_is_refused() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let login = test.log_in(&alice).await;
    let first = refresh(&test, &login["refresh_token"]).await;
    refresh(&test, &first["refresh_token"]).await;
    assert_eq!(refresh(&test, &login["refresh_token"]).await["success"], false);
}

#[tokio::test]
async fn a_chain_ends_after_thirty_days_or_720_links() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let mut token = test.log_in(&alice).await["refresh_token"].clone();
    let old = test.log_in(&alice).await["refresh_token"].clone();
    for count in 1..=720 {
        let answer = refresh(&test, &token).await;
        assert_eq!(answer["refresh_count"], count);
        token = answer["refresh_token"].clone();
    }
    assert_eq!(refresh(&test, &token).await["success"], false);
    test.world.clock.advance_ms(30 * DAY_MS);
    assert_eq!(refresh(&test, &old).await["success"], false);
}

#[tokio::test]
async fn tokens_survive_a_restart_and_end_with_their_hour() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let tokens = test.log_in(&alice).await;
    let test = test.restart().await;
    assert!(verifies(&test, &tokens).await);
    assert_eq!(refresh(&test, &tokens["refresh_token"]).await["success"], true);
    test.world.clock.advance_ms(3_600_000);
    assert!(!verifies(&test, &tokens).await);
}

#[tokio::test]
async fn revocation_ends_tokens_and_logins_at_once_and_for_good() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    let (tokens, others) = (test.log_in(&alice).await, test.log_in(&carol).await);
    let (request_id, nonce) = test.login1(&alice).await.unwrap();
    assert!(verifies(&test, &tokens).await);
    test.inside("ca.revoke_cert", json!({ "aid": alice.aid })).await;
    assert!(!verifies(&test, &tokens).await);
    assert_eq!(refresh(&test, &tokens["refresh_token"]).await["success"], false);
    assert_eq!(code(test.login1(&alice).await), -32050);
    assert_eq!(code(test.login2(&alice, &request_id, &nonce).await), -32050);
    let test = test.restart().await;
    assert!(!verifies(&test, &tokens).await);
    assert!(verifies(&test, &others).await);
}

#[tokio::test]
async fn a_certificate_past_half_its_life_is_renewed_at_login() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let alice = test.register("alice").await;
    assert!(test.log_in(&alice).await.get("new_cert").is_none());
    test.world.clock.advance_ms(366 * DAY_MS);
    let login = test.log_in(&alice).await;
    let new = Certificate::from_pem(login["new_cert"].as_str().unwrap()).unwrap();
    assert_eq!(new.public_key().fingerprint(), alice.key.public().fingerprint());
    // The answer was lost: the old certificate still logs in, and gets the new one again.
    assert_eq!(test.log_in(&alice).await["new_cert"], login["new_cert"]);
}

#[tokio::test]
async fn an_expired_certificate_may_be_renewed_for_ninety_days_but_not_log_in() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let alice = test.register("alice").await;
    test.world.clock.advance_ms(731 * DAY_MS);
    let (request_id, nonce) = test.login1(&alice).await.unwrap();
    assert_eq!(code(test.login2(&alice, &request_id, &nonce).await), -32002);
    let renew = json!({ "aid": alice.aid, "request_id": request_id, "nonce": nonce, "signature": alice.sign(&nonce) });
    assert_eq!(test.call("auth.renew_cert", renew.clone()).await.unwrap()["status"], "renewed");
    assert_eq!(code(test.call("auth.renew_cert", renew).await), -32002, "once");
    let carol = test.register("carol").await;
    test.world.clock.advance_ms((730 + 91) * DAY_MS);
    assert_eq!(code(test.login1(&carol).await), -32002);
}

#[tokio::test]
async fn a_renewal_whose_answer_was_lost_can_be_asked_for_again() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let alice = test.register("alice").await;
    for _ in 0..2 {
        test.world.clock.advance_ms(1000);
        let (request_id, nonce) = test.login1(&alice).await.unwrap();
        let signature = alice.sign(&nonce);
        let renew =
            json!({ "aid": alice.aid, "request_id": request_id, "nonce": nonce, "signature": signature });
        let renewed = test.call("auth.renew_cert", renew).await.unwrap();
        let active = test.inside("ca.get_cert", json!({ "aid": alice.aid })).await;
        assert_eq!(renewed["cert"], active["cert"]);
    }
}

#[tokio::test]
async fn what_has_expired_is_purged_and_nothing_else() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let tokens = test.log_in(&alice).await;
    let next = refresh(&test, &tokens["refresh_token"]).await;
    test.world.clock.advance_ms(120_000);
    let store = Store::new(test.world.db("auth", &sqlx::migrate!("./migrations")).await.unwrap());
    assert_eq!(store.purge(test.world.clock.now_ms()).await.unwrap(), 2, "the used nonce and the used token");
    assert_eq!(store.purge(test.world.clock.now_ms()).await.unwrap(), 0);
    assert_eq!(refresh(&test, &next["refresh_token"]).await["success"], true);
}

#[tokio::test]
async fn after_a_rekey_only_the_new_key_logs_in() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let mut alice = test.register("alice").await;
    let before = TestAgent { aid: alice.aid.clone(), key: alice.key.clone(), cert: alice.cert.clone() };
    test.rekey(&mut alice).await;
    assert_eq!(code(test.login1(&before).await), 4001);
    test.log_in(&alice).await;
}

#[tokio::test]
async fn a_login_key_of_an_earlier_version_is_replaced_and_nobody_notices() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let folder = test.world.keys.join("pki/auth");
    for file in ["login.key", "login.crt"] {
        fs::remove_file(folder.join(file)).unwrap();
    }
    let earlier = Purpose {
        service: "auth",
        file: "login",
        curve: Curve::P384,
        key_purpose: None,
        dns_names: Vec::new(),
        ips: Vec::new(),
    };
    let earlier = test.world.identity(&earlier).await.unwrap().certificate().clone();
    let tokens = test.log_in(&alice).await;
    let (request_id, nonce) = test.login1(&alice).await.unwrap();

    let test = test.restart().await;
    test.login2(&alice, &request_id, &nonce).await.unwrap();
    assert!(verifies(&test, &tokens).await, "tokens are signed by another key");
    let login1 = json!({ "aid": alice.aid, "cert": alice.cert, "client_nonce": "bm9uY2U=" });
    let begun = test.call("auth.aid_login1", login1.clone()).await.unwrap();
    assert_eq!(begun["auth_curve"], "P-256");
    // Whoever has the old certificate can still fetch it, and hears nothing bad of it.
    let old = test.call("auth.download_cert", json!({ "cert_sn": earlier.serial() })).await.unwrap();
    assert_eq!(old["cert"], earlier.pem());
    assert_eq!(test.inside("ca.ocsp_query", json!({ "serial": earlier.serial() })).await["status"], "good");
    assert_eq!(fs::read_to_string(folder.join("login.previous.crt")).unwrap(), earlier.pem());

    let test = test.restart().await;
    let again = test.call("auth.aid_login1", login1).await.unwrap();
    assert_eq!(again["auth_cert"], begun["auth_cert"], "once, and not at every start");
}

#[tokio::test]
async fn certificates_of_others_do_not_log_in() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let mut alice = test.register("alice").await;
    let foreign = certs::dev::Pki::new("aid.pub", test.world.clock.now_seconds());
    let urls =
        certs::Urls { ca_issuers: "http://x/a".into(), ocsp: "http://x/o".into(), crl: "http://x/c".into() };
    let now = test.world.clock.now_seconds();
    let forged =
        foreign.issuer.issue_agent(&alice.aid, &alice.key.public(), &urls, now - 60, now + 3600).unwrap();
    alice.cert = forged.pem().to_owned();
    assert_eq!(code(test.login1(&alice).await), -32002);
    alice.cert = "not a certificate".to_owned();
    assert_eq!(code(test.login1(&alice).await), -32002);
}

#[tokio::test]
async fn a_further_certificate_is_on_another_curve_and_for_oneself() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    let key = Key::generate(Curve::P384);
    let request = further(&test, &alice, &key, &key).await;
    assert_eq!(code(test.call_as(carol.caller(), "auth.request_cert", request.clone()).await), -32004);
    for member in ["request_id", "nonce", "signature", "proof"] {
        let mut less = request.clone();
        less.as_object_mut().unwrap().remove(member);
        let refused = test.call_as(alice.caller(), "auth.request_cert", less).await.unwrap_err();
        assert!(refused.code() == -32602 && refused.to_string().contains(member), "{refused}");
    }
    let issued = test.call_as(alice.caller(), "auth.request_cert", request).await.unwrap();
    assert_eq!((&issued["status"], &issued["curve"]), (&json!("issued"), &json!("P-384")));

    let stolen = further(&test, &alice, &key, &carol.key).await;
    assert_eq!(code(test.call_as(alice.caller(), "auth.request_cert", stolen).await), -32003);
    let second = Key::generate(Curve::P256);
    let second = further(&test, &alice, &second, &second).await;
    assert_eq!(code(test.call_as(alice.caller(), "auth.request_cert", second).await), 4090);
    let by_its_key =
        TestAgent { aid: alice.aid.clone(), key, cert: issued["cert"].as_str().unwrap().to_owned() };
    assert_eq!(code(test.login1(&by_its_key).await), 4001, "it logs nobody in");

    let request = further(&test, &alice, &by_its_key.key, &by_its_key.key).await;
    test.inside("ca.revoke_cert", json!({ "aid": alice.aid })).await;
    assert_eq!(code(test.call_as(alice.caller(), "auth.request_cert", request).await), -32050);
}

/// The parameters of `auth.request_cert` for a key, proved with another.
async fn further(test: &TestWorld, agent: &TestAgent, key: &Key, proved_with: &Key) -> Value {
    let (request_id, nonce) = test.login1(agent).await.unwrap();
    let signed = format!("auth.request_cert:{nonce}:{}:{}", key.curve(), spki(key));
    json!({
        "aid": agent.aid, "public_key": spki(key), "curve": key.curve().as_str(), "request_id": request_id,
        "nonce": nonce, "signature": agent.sign(&signed),
        "proof": STANDARD.encode(proved_with.sign(signed.as_bytes())),
    })
}

proptest! {
    #![proptest_config(cases(12))]
    /// Whatever an agent does with its tokens, at most one refresh token of a login is alive, and the count only grows.
    #[test]
    fn at_most_one_refresh_token_of_a_chain_is_alive(steps in prop::collection::vec((0usize..4, 0i64..8_000), 1..12)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let test = TestWorld::with(&["ca"]).and(crate::open).await;
            let alice = test.register("alice").await;
            let mut tokens = vec![test.log_in(&alice).await["refresh_token"].clone()];
            let mut count = 0;
            for (back, wait) in steps {
                test.world.clock.advance_ms(wait);
                let token = tokens[tokens.len().saturating_sub(1 + back)].clone();
                let answer = refresh(&test, &token).await;
                if answer["success"] == true {
                    let now = answer["refresh_count"].as_i64().unwrap();
                    assert!(now >= count, "{now} after {count}");
                    count = now;
                    tokens.push(answer["refresh_token"].clone());
                }
            }
            test.world.clock.advance_ms(20_000);
            let mut alive = 0;
            for token in tokens.iter().rev() {
                let answer = refresh(&test, token).await;
                alive += usize::from(answer["success"] == true);
                test.world.clock.advance_ms(20_000);
            }
            assert!(alive <= 1, "{alive} tokens were alive");
        });
    }
}

/// The network that an access token of a new login says.
async fn network(test: &TestWorld, agent: &TestAgent) -> Value {
    let token = test.log_in(agent).await["access_token"].clone();
    let verified = test
        .call_as(kernel::Caller::service("gateway"), "auth.verify_token", json!({ "token": token }))
        .await;
    verified.unwrap()["network"].clone()
}

#[tokio::test]
async fn a_new_agent_has_the_network_that_it_was_registered_from_for_seven_days() {
    let test = TestWorld::with(&["ca"]).and(crate::open).await;
    let register = async |name: &str, key: &Key, address: [u8; 4]| {
        let aid = format!("{name}.{}", test.world.issuer);
        let params = json!({ "aid": aid, "public_key": spki(key), "curve": "P-256" });
        let caller = kernel::Caller::Unauthenticated(Some(address.into()));
        let created = test.call_as(caller, "auth.create_aid", params).await.unwrap();
        TestAgent { aid, key: key.clone(), cert: created["cert"].as_str().unwrap().to_owned() }
    };
    let (key, other_key) = (Key::generate(Curve::P256), Key::generate(Curve::P256));
    let alice = register("alice", &key, [198, 51, 100, 7]).await;
    assert_eq!(network(&test, &alice).await, "198.51.100.0/24");
    let inside = register("inside", &other_key, [10, 0, 0, 7]).await;
    assert_eq!(network(&test, &inside).await, Value::Null, "many have such an address");

    // Anybody can ask again for what is registered: its key is public.
    register("inside", &other_key, [203, 0, 113, 7]).await;
    assert_eq!(network(&test, &inside).await, Value::Null);
    register("alice", &key, [203, 0, 113, 7]).await;
    assert_eq!(network(&test, &alice).await, "198.51.100.0/24");

    test.world.clock.advance_ms(7 * DAY_MS);
    assert_eq!(network(&test, &alice).await, Value::Null, "it is new no longer");
    register("alice", &key, [203, 0, 113, 7]).await;
    assert_eq!(network(&test, &alice).await, Value::Null, "and not again");
}
