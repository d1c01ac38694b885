//! The authority alone: who gets a name, and what becomes of certificates.

use axum::http::Request;
use certs::{Authority, Certificate, Curve, Key};
use futures_util::future::join_all;
use kernel::Caller;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt as _;
use testing::{DAY_MS, TestAgent, TestWorld, code, spki};

#[tokio::test]
async fn a_name_belongs_to_the_first_key_and_the_same_key_may_register_again() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let alice = test.register("alice").await;
    let again = json!({ "aid": alice.aid, "public_key": spki(&alice.key) });
    assert_eq!(test.call("auth.create_aid", again).await.unwrap()["cert"], alice.cert.as_str());
    let other = json!({ "aid": alice.aid, "public_key": spki(&Key::generate(Curve::P256)) });
    let refused = test.call("auth.create_aid", other).await.unwrap_err();
    assert_eq!(refused.code(), 4090);
    assert!(refused.to_string().contains("already exists"));
}

#[tokio::test]
async fn of_many_concurrent_registrations_of_one_name_one_succeeds() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let keys: Vec<Key> = (0..8).map(|_| Key::generate(Curve::P256)).collect();
    let calls = keys
        .iter()
        .map(|key| test.call("auth.create_aid", json!({ "aid": "race.aid.pub", "public_key": spki(key) })));
    let outcomes = join_all(calls).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    assert!(outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).all(|error| error.code() == 4090));
}

#[tokio::test]
async fn many_processes_of_a_service_get_their_first_certificate_at_the_same_moment() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let ask = |key: &Key| {
        let request = json!({
            "name": "gateway.aid.pub", "public_key": spki(key), "curve": "P-256", "dns_names": ["aid.pub"],
        });
        test.call_as(Caller::service("gateway"), "ca.issue_service_cert", request)
    };
    let keys: Vec<Key> = (0..8).map(|_| Key::generate(Curve::P256)).collect();
    let outcomes = join_all(keys.iter().map(ask)).await;
    let serials: HashSet<String> = outcomes
        .into_iter()
        .map(|outcome| outcome.expect("nobody is refused")["cert_sn"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(serials.len(), keys.len());
    let active = json!({ "aid": "gateway.aid.pub", "key_purpose": "tls" });
    let active = test.inside("ca.get_cert", active).await;
    assert!(serials.contains(active["serial"].as_str().unwrap()), "the last one is the active one: {active}");
}

#[tokio::test]
async fn a_renewed_certificate_keeps_the_key_and_the_old_one_verifies_only() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let alice = test.register("alice").await;
    let old = Certificate::from_pem(&alice.cert).unwrap();
    test.world.clock.advance_ms(1000);
    let renewed = test.inside("ca.renew_cert", json!({ "aid": alice.aid, "old_serial": old.serial() })).await;
    assert_eq!(renewed["replaced_sn"], old.serial());
    let new = Certificate::from_pem(renewed["cert"].as_str().unwrap()).unwrap();
    assert_eq!(new.public_key().fingerprint(), old.public_key().fingerprint());
    let state = |fingerprint: String| {
        let test = &test;
        let aid = alice.aid.clone();
        async move { test.inside("ca.get_cert", json!({ "aid": aid, "cert_fingerprint": fingerprint })).await }
    };
    assert_eq!(state(old.fingerprint().to_owned()).await["lifecycle_state"], "verify_only");
    assert_eq!(state(new.fingerprint().to_owned()).await["lifecycle_state"], "active_signing");
    let twice = test.call_as(
        Caller::Operator,
        "ca.renew_cert",
        json!({ "aid": alice.aid, "old_serial": old.serial() }),
    );
    assert_eq!(code(twice.await), -32009);
}

#[tokio::test]
async fn an_agent_gets_so_many_certificates_a_day_and_then_the_one_it_has() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let alice = test.register("alice").await;
    let mut serial = Certificate::from_pem(&alice.cert).unwrap().serial().to_owned();
    let renew = async |serial: &str| {
        test.world.clock.advance_ms(1000);
        test.inside("ca.renew_cert", json!({ "aid": alice.aid, "old_serial": serial })).await
    };
    for _ in 1..32 {
        let renewed = renew(&serial).await;
        assert_eq!(renewed["replaced_sn"], serial.as_str());
        serial = renewed["cert_sn"].as_str().unwrap().to_owned();
    }
    let same = renew(&serial).await;
    assert_eq!((&same["cert_sn"], &same["existing"]), (&json!(serial), &json!(true)));
    let other = json!({
        "aid": alice.aid, "old_serial": serial, "public_key": spki(&Key::generate(Curve::P256)),
    });
    let refused = test.call_as(Caller::Operator, "ca.rekey_cert", other.clone()).await.unwrap_err();
    assert_eq!(refused.code(), -32029);
    let wait = refused.data("retry_after_ms").and_then(Value::as_i64).unwrap();
    test.world.clock.advance_ms(wait);
    assert_eq!(test.inside("ca.rekey_cert", other).await["replaced_sn"], serial.as_str());
}

#[tokio::test]
async fn every_way_to_name_a_certificate_finds_it() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let alice = test.register("alice").await;
    let cert = Certificate::from_pem(&alice.cert).unwrap();
    let (der, key) = (cert.fingerprint().to_owned(), cert.public_key().fingerprint());
    let digits = der.trim_start_matches("sha256:").to_owned();
    for fingerprint in [der.clone(), digits.clone(), digits[..16].to_owned(), key, der.to_uppercase()] {
        let got =
            test.inside("ca.get_cert", json!({ "aid": alice.aid, "cert_fingerprint": fingerprint })).await;
        assert_eq!(got["serial"], cert.serial(), "{fingerprint}");
    }
    for wrong in ["sha256:00", "x", &"0".repeat(64)] {
        let got = test.inside("ca.get_cert", json!({ "aid": alice.aid, "cert_fingerprint": wrong })).await;
        assert_eq!(got["found"], false, "{wrong}");
    }
}

#[tokio::test]
async fn a_revoked_agent_is_on_the_crl_and_its_name_cannot_be_registered_again() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let alice = test.register("alice").await;
    let serial = Certificate::from_pem(&alice.cert).unwrap().serial().to_owned();
    assert_eq!(test.inside("ca.get_crl", json!({})).await["revoked_serials"], json!([]));
    let revoke = json!({ "aid": alice.aid, "reason": "keyCompromise" });
    assert_eq!(test.inside("ca.revoke_cert", revoke.clone()).await["serials"], json!([serial]));
    assert_eq!(test.inside("ca.revoke_cert", revoke).await["revoked"], true, "revoking twice is fine");
    let listed = test.inside("ca.get_crl", json!({})).await;
    assert!(
        listed["revoked_serials"].as_array().unwrap().contains(&json!(serial)),
        "at once, not within the hour"
    );
    assert_eq!(test.inside("ca.ocsp_query", json!({ "serial": serial })).await["status"], "revoked");
    let again = json!({ "aid": alice.aid, "public_key": spki(&alice.key) });
    assert_eq!(code(test.call("auth.create_aid", again).await), 4090);
    assert!(test.events.lock().iter().any(|event| event.method == "ca.cert_revoked"));
}

#[tokio::test]
async fn serials_are_read_in_every_spelling() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let alice = test.register("alice").await;
    let serial = Certificate::from_pem(&alice.cert).unwrap().serial().to_owned();
    for spelling in [serial.clone(), serial.to_uppercase(), format!("00{serial}"), format!("0{serial}")] {
        assert_eq!(
            test.inside("ca.ocsp_query", json!({ "serial": spelling })).await["status"],
            "good",
            "{spelling}"
        );
    }
    assert_eq!(test.inside("ca.ocsp_query", json!({ "serial": "abc" })).await["status"], "unknown");
    assert_eq!(
        code(test.call_as(Caller::Operator, "ca.ocsp_query", json!({ "serial": "xyz" })).await),
        -32602
    );
}

#[tokio::test]
async fn an_expired_name_is_free_after_its_grace() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let alice = test.register("alice").await;
    let other = json!({ "aid": alice.aid, "public_key": spki(&Key::generate(Curve::P256)) });
    test.world.clock.advance_ms((730 + 89) * DAY_MS);
    assert_eq!(test.inside("ca.get_cert", json!({ "aid": alice.aid })).await["lifecycle_state"], "expired");
    assert_eq!(code(test.call("auth.create_aid", other.clone()).await), 4090);
    test.world.clock.advance_ms(2 * DAY_MS);
    assert_eq!(test.inside("ca.get_cert", json!({ "aid": alice.aid })).await["found"], false);
    let serial = Certificate::from_pem(&alice.cert).unwrap().serial().to_owned();
    let renew = json!({ "aid": alice.aid, "old_serial": serial });
    assert!(test.call_as(Caller::Operator, "ca.renew_cert", renew).await.is_err(), "it lapsed");
    assert_eq!(
        test.inside("ca.get_cert", json!({ "serial": serial })).await["lifecycle_state"],
        "expired",
        "old signatures are verified with it"
    );
    test.call("auth.create_aid", other).await.unwrap();
}

#[tokio::test]
async fn a_name_that_lapsed_is_free_when_every_service_has_removed_what_it_kept_for_it() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    let ended = async |service: &str, since: i64| {
        let listed =
            test.call_as(Caller::service(service), "ca.ended_agents", json!({ "since": since })).await;
        listed.unwrap()["agents"].as_array().unwrap().clone()
    };
    test.world.clock.advance_ms((730 + 90) * DAY_MS);
    for service in ["message", "task"] {
        assert_eq!(ended(service, 0).await, [json!(null); 0]);
    }
    test.world.clock.advance_ms(1000);
    let lapsed_at = test.world.clock.now_seconds() - 1;
    let both = [&alice, &carol].map(|agent| json!({ "aid": agent.aid, "ended_at": lapsed_at }));
    assert_eq!(ended("message", 0).await, both);

    // A day later at least: a service may be removing what was on its list before.
    test.world.clock.advance_ms(3 * DAY_MS);
    let register = async |agent: &TestAgent| {
        let params = json!({ "aid": agent.aid, "public_key": spki(&Key::generate(Curve::P256)) });
        test.call("auth.create_aid", params).await
    };
    let refused = register(&alice).await.unwrap_err();
    assert_eq!(refused.code(), 4090);
    assert!(refused.to_string().contains("until the data of its last holder is removed"), "{refused}");
    ended("message", lapsed_at + 2 * 86_400).await;
    ended("task", lapsed_at + 3600).await;
    assert_eq!(code(register(&alice).await), 4090, "task is not far enough");
    test.inside("ca.ended_agents", json!({ "since": lapsed_at + 2 * 86_400 })).await;
    assert_eq!(code(register(&alice).await), 4090, "the operator has removed nothing");
    ended("task", lapsed_at + 2 * 86_400).await;
    register(&alice).await.unwrap();
    assert_eq!(ended("message", 0).await, [json!({ "aid": carol.aid, "ended_at": lapsed_at })]);
    assert_eq!(code(register(&alice).await), 4090, "it has a holder");
    // One that was restored from a backup has it again.
    assert_eq!(code(register(&carol).await), 4090);
    ended("message", lapsed_at + 2 * 86_400).await;
    register(&carol).await.unwrap();
}

#[tokio::test]
async fn the_trust_list_is_signed_and_its_version_grows() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let first = test.inside("ca.get_trust_roots", json!({})).await;
    let authority = Certificate::from_pem(first["authority_cert_pem"].as_str().unwrap()).unwrap();
    assert!(certs::roots::verify(&first, authority.public_key()));
    test.world.clock.advance_ms(2 * DAY_MS);
    let test = test.restart().await;
    let second = test.inside("ca.get_trust_roots", json!({})).await;
    assert_eq!(second["version"].as_i64(), first["version"].as_i64().map(|version| version + 1));
}

/// The list's entry of a root, after its signature was checked.
async fn said_of(test: &TestWorld, root: &Certificate) -> Option<String> {
    let list = test.inside("ca.get_trust_roots", json!({})).await;
    let authority = Certificate::from_pem(list["authority_cert_pem"].as_str().unwrap()).unwrap();
    assert!(certs::roots::verify(&list, authority.public_key()));
    let mut entries = list["root_cas"].as_array().unwrap().iter();
    let entry = entries.find(|entry| entry["certificate"] == root.pem())?;
    Some(entry["status"].as_str().unwrap().to_owned())
}

async fn version(test: &TestWorld) -> i64 {
    test.inside("ca.get_trust_roots", json!({})).await["version"].as_i64().unwrap()
}

#[tokio::test]
async fn the_root_of_another_operator_comes_into_the_signed_list_and_leaves_it() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let root = Authority::root("Root of aid.net", "aid.net", test.world.clock.now_seconds());
    let root = root.certificate();
    let first = version(&test).await;

    let add = json!({ "certificate": root.pem(), "domains": ["aid.net"] });
    let added = test.inside("ca.add_trust_root", add.clone()).await;
    assert_eq!((&added["added"], &added["name"]), (&json!(true), &json!("Root of aid.net")));
    assert_eq!(added["domains"], json!(["aid.net"]));
    assert_eq!(said_of(&test, root).await.as_deref(), Some("active"));
    assert_eq!(test.inside("ca.add_trust_root", add.clone()).await["added"], false, "adding twice is fine");
    assert_eq!(version(&test).await, first + 1, "and publishes nothing");

    let test = test.restart().await;
    assert_eq!(said_of(&test, root).await.as_deref(), Some("active"), "it outlives a restart");
    let digits = root.fingerprint().trim_start_matches("sha256:").to_uppercase();
    let pairs: Vec<&str> = digits.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap()).collect();
    let remove = json!({ "fingerprint": pairs.join(":") });
    assert_eq!(test.inside("ca.remove_trust_root", remove.clone()).await["removed"], true);
    assert_eq!(said_of(&test, root).await.as_deref(), Some("retired"), "those who look learn of it");
    assert_eq!(test.inside("ca.remove_trust_root", remove).await["removed"], false);
    assert_eq!(version(&test).await, first + 2);

    assert_eq!(test.inside("ca.add_trust_root", add).await["added"], true, "and it may come back");
    assert_eq!(said_of(&test, root).await.as_deref(), Some("active"));
}

#[tokio::test]
async fn every_change_of_trusted_roots_is_an_event_for_gateways_and_nothing_else_is() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let published = || test.events.lock().iter().filter(|event| event.method == "ca.trust_changed").count();
    let root = Authority::root("Another", "aid.net", test.world.clock.now_seconds());
    let add = json!({ "certificate": root.certificate().pem(), "any_domain": true });
    let id = test.inside("ca.add_trust_root", add.clone()).await["id"].clone();
    assert_eq!(published(), 1);
    test.inside("ca.add_trust_root", add).await;
    assert_eq!(published(), 1);
    test.inside("ca.remove_trust_root", json!({ "id": id })).await;
    assert_eq!(published(), 2);
}

#[tokio::test]
async fn only_a_root_that_is_valid_now_is_trusted_and_ours_stays() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let (now, alice) = (test.world.clock.now_seconds(), test.register("alice").await);
    let pki = certs::dev::Pki::new("aid.net", now);
    let tomorrow = Authority::root("Tomorrow", "aid.net", now + 86_400);
    let lapsed = Authority::root("Lapsed", "aid.net", now - 40 * 365 * 86_400);
    let key = Key::generate(Curve::P384);
    let no_authority = certs::roots::authority_certificate("No authority", &key, now).unwrap();
    for (pem, word) in [
        (pki.issuer.certificate().pem(), "another one signed it"),
        (alice.cert.as_str(), "another one signed it"),
        (no_authority.pem(), "must be that of an authority"),
        (tomorrow.certificate().pem(), "not valid now"),
        (lapsed.certificate().pem(), "not valid now"),
        ("nonsense", "certificate"),
    ] {
        let add = json!({ "certificate": pem, "domains": ["aid.net"] });
        let refused = test.call_as(Caller::Operator, "ca.add_trust_root", add).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), -32602, "{refused}");
        assert!(refused.to_string().contains(word), "{refused}");
    }

    let list = test.inside("ca.get_trust_roots", json!({})).await;
    let own = &list["root_cas"][0];
    let add = json!({ "certificate": own["certificate"], "any_domain": true });
    let again = test.inside("ca.add_trust_root", add).await;
    assert_eq!(
        (&again["added"], &again["domains"]),
        (&json!(false), &own["domains"]),
        "ours is for our domain"
    );
    for which in [json!({ "id": own["id"] }), json!({ "fingerprint": own["fingerprint_sha256"] })] {
        let refused = test.call_as(Caller::Operator, "ca.remove_trust_root", which).await.unwrap_err();
        assert!(refused.to_string().contains("cannot be removed from its own list"), "{refused}");
    }
    let unknown = json!({ "fingerprint": "0".repeat(64) });
    assert_eq!(code(test.call_as(Caller::Operator, "ca.remove_trust_root", unknown).await), -32008);
    assert_eq!(version(&test).await, 1, "nothing of this was published");
}

#[tokio::test]
async fn of_many_roots_added_at_once_none_is_lost_and_the_list_is_bounded() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let now = test.world.clock.now_seconds();
    let roots: Vec<Authority> =
        (0..100).map(|n| Authority::root(&format!("Root {n}"), "many", now)).collect();
    let add = |root: &Authority| json!({ "certificate": root.certificate().pem(), "domains": ["many.test"] });
    for some in roots.chunks(4) {
        let outcomes =
            join_all(some.iter().map(|root| test.call_as(Caller::Operator, "ca.add_trust_root", add(root))));
        assert!(outcomes.await.iter().all(Result::is_ok));
    }
    for root in &roots {
        assert_eq!(said_of(&test, root.certificate()).await.as_deref(), Some("active"));
    }
    let one_more = Authority::root("One more", "many", now);
    let refused = test.call_as(Caller::Operator, "ca.add_trust_root", add(&one_more)).await.unwrap_err();
    assert!(refused.to_string().contains("full"), "{refused}");
    let first = json!({ "fingerprint": roots[0].certificate().fingerprint() });
    test.inside("ca.remove_trust_root", first).await;
    test.inside("ca.add_trust_root", add(&one_more)).await;
    assert_eq!(said_of(&test, roots[0].certificate()).await, None, "the retired one made service");
    assert_eq!(said_of(&test, one_more.certificate()).await.as_deref(), Some("active"));
}

#[tokio::test]
async fn roots_added_before_the_first_start_are_trusted() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let root = Authority::root("Early", "aid.net", test.world.clock.now_seconds());
    let folder = test.world.data.join("trust");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("early.crt"), root.certificate().pem()).unwrap();
    std::fs::write(folder.join("early.domains"), "*.aid.net\naid.org\n").unwrap();
    std::fs::write(folder.join("noise.crt"), "noise").unwrap();
    let other = Authority::root("Other", "aid.org", test.world.clock.now_seconds());
    std::fs::write(folder.join("other.crt"), other.certificate().pem()).unwrap();
    std::fs::write(folder.join("other.domains"), "not a domain").unwrap();
    let test = test.restart().await;
    assert_eq!(said_of(&test, root.certificate()).await.as_deref(), Some("active"));
    assert_eq!(domains_of(&test, root.certificate()).await, json!(["*.aid.net", "aid.org"]));
    assert!(!folder.join("early.crt").exists() && !folder.join("early.domains").exists());
    assert_eq!(said_of(&test, other.certificate()).await, None, "what it is for is not understood");
    assert!(folder.join("other.crt").exists() && folder.join("noise.crt").exists());
}

/// What the list says that a root is trusted for.
async fn domains_of(test: &TestWorld, root: &Certificate) -> Value {
    let list = test.inside("ca.get_trust_roots", json!({})).await;
    let mut entries = list["root_cas"].as_array().unwrap().iter();
    entries.find(|entry| entry["certificate"] == root.pem()).unwrap()["domains"].clone()
}

#[tokio::test]
async fn what_a_root_is_trusted_for_has_to_be_said_and_can_be_said_anew() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let root = Authority::root("Root", "aid.net", test.world.clock.now_seconds());
    let pem = root.certificate().pem();
    for said in [
        json!({}),
        json!({ "domains": [] }),
        json!({ "any_domain": false }),
        json!({ "domains": ["*"] }),
        json!({ "domains": ["a.test"], "any_domain": true }),
        json!({ "domains": ["not a domain"] }),
        json!({ "domains": vec!["a.test"; 101] }),
    ] {
        let mut add = said.clone();
        add["certificate"] = json!(pem);
        let refused = test.call_as(Caller::Operator, "ca.add_trust_root", add).await;
        assert_eq!(code(refused), -32602, "{said}");
    }
    let changes = [
        (json!({ "certificate": pem, "domains": ["b.test", "*.A.test"] }), json!(["*.a.test", "b.test"])),
        (json!({ "certificate": pem, "any_domain": true }), json!(["*"])),
        (json!({ "certificate": pem, "domains": ["b.test"] }), json!(["b.test"])),
    ];
    for (add, domains) in changes {
        assert_eq!(test.inside("ca.add_trust_root", add.clone()).await["added"], true);
        assert_eq!(domains_of(&test, root.certificate()).await, domains);
        assert_eq!(test.inside("ca.add_trust_root", add).await["added"], false, "it is the same");
    }
}

#[tokio::test]
async fn a_root_of_an_earlier_version_keeps_the_domain_of_its_organization() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let now = test.world.clock.now_seconds();
    let folder = test.world.data.join("trust");
    std::fs::create_dir(&folder).unwrap();
    // Beside neither is a file that says what it is for, as earlier versions left them.
    let roots =
        [("aid.net", json!(["aid.net"])), ("Some Company", json!(["*"])), ("localhost", json!(["*"]))];
    let roots = roots.map(|(organization, domains)| (Authority::root("Old", organization, now), domains));
    for (n, (root, _)) in roots.iter().enumerate() {
        std::fs::write(folder.join(format!("{n}.crt")), root.certificate().pem()).unwrap();
    }
    let test = test.restart().await;
    for (root, domains) in &roots {
        assert_eq!(domains_of(&test, root.certificate()).await, *domains);
    }
}

#[tokio::test]
async fn the_first_key_of_a_domain_counts_until_the_operator_says_otherwise() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let (one, other) = (format!("sha256:{}", "1".repeat(64)), format!("sha256:{}", "2".repeat(64)));
    let pin = |key: &str| json!({ "domain": "aid.net", "spki_fingerprint": key, "root": "a".repeat(64) });
    for key in [&one, &other, &one] {
        assert_eq!(test.inside("ca.pin_issuer", pin(key)).await["spki_fingerprint"], one.as_str());
    }
    let published = || test.events.lock().iter().filter(|event| event.method == "ca.trust_changed").count();
    let before = published();
    let gone = test.inside("ca.unpin_issuer", json!({ "domain": "AID.net" })).await;
    assert_eq!((&gone["spki_fingerprint"], published()), (&json!(one), before + 1));
    assert_eq!(test.inside("ca.pin_issuer", pin(&other)).await["spki_fingerprint"], other.as_str());
    let test = test.restart().await;
    let pins = test.inside("ca.get_issuer_pins", json!({})).await;
    assert_eq!((&pins["pins"][0]["domain"], &pins["pins"][1]), (&json!("aid.net"), &Value::Null));
    let unknown = json!({ "domain": "nobody.example" });
    assert_eq!(code(test.call_as(Caller::Operator, "ca.unpin_issuer", unknown).await), -32008);
    for wrong in [
        json!({ "domain": "A.test", "spki_fingerprint": one, "root": "a".repeat(64) }),
        json!({ "domain": "a.test", "spki_fingerprint": "sha256:12", "root": "a".repeat(64) }),
        json!({ "domain": "a.test", "spki_fingerprint": one, "root": "root" }),
    ] {
        assert_eq!(code(test.call_as(Caller::Operator, "ca.pin_issuer", wrong).await), -32602);
    }
}

#[tokio::test]
async fn one_root_cannot_fill_the_table_of_keys() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let key = format!("sha256:{}", "1".repeat(64));
    let pin = |n: i64, root: &str| json!({ "domain": format!("d{n}.test"), "spki_fingerprint": key, "root": root.repeat(64) });
    for n in 0..500 {
        test.inside("ca.pin_issuer", pin(n, "a")).await;
    }
    assert_eq!(code(test.call_as(Caller::Operator, "ca.pin_issuer", pin(500, "a")).await), -32602);
    test.inside("ca.pin_issuer", pin(7, "a")).await;
    test.inside("ca.pin_issuer", pin(501, "b")).await;
}

#[tokio::test]
async fn a_service_gets_a_certificate_for_itself_and_for_no_other() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let ask = |service: &str, name: &str| {
        let request = json!({
            "name": name, "public_key": spki(&Key::generate(Curve::P256)), "curve": "P-256",
        });
        test.call_as(Caller::service(service), "ca.issue_service_cert", request)
    };
    assert!(ask("auth", "auth.aid.pub").await.is_ok() && ask("gateway", "gateway.aid.pub").await.is_ok());
    assert_eq!(code(ask("gateway", "auth.aid.pub").await), -32004);
    assert_eq!(code(ask("auth", "gateway.aid.pub").await), -32004);
    assert_eq!(code(ask("message", "message.aid.pub").await), -32601, "it has no keys of its own");
}

#[tokio::test]
async fn neither_unauthenticated_callers_nor_agents_may_call_the_authority() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let alice = test.register("alice").await;
    for (caller, refused) in [(Caller::Unauthenticated(None), -32013), (alice.caller(), -32601)] {
        assert_eq!(code(test.call_as(caller, "ca.status", json!({})).await), refused);
    }
}

#[tokio::test]
async fn keys_are_readable_by_their_owner_only_and_never_overwritten() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let pki = test.world.data.join("pki");
    let keys = [
        "root/root.key",
        "registry/registry.key",
        "ca/issuer.key",
        "authority/authority.key",
        "auth/token.key",
    ];
    let texts: HashSet<String> = keys
        .iter()
        .map(|key| {
            let file = pki.join(key);
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{key}");
            std::fs::read_to_string(file).unwrap()
        })
        .collect();
    assert_eq!(std::fs::metadata(&pki).unwrap().permissions().mode() & 0o777, 0o700);
    let test = test.restart().await;
    let after: HashSet<String> =
        keys.iter().map(|key| std::fs::read_to_string(pki.join(key)).unwrap()).collect();
    assert_eq!(texts, after);
    std::fs::remove_dir_all(pki.join("ca")).unwrap();
    let error = super::open(&test.world, &Default::default()).await.err().unwrap();
    assert!(format!("{error:#}").contains("holds no ca folder"), "{error:#}");
}

#[tokio::test]
async fn what_clients_fetch_is_answered_over_http() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let alice = test.register("alice").await;
    let get = async |path: &str| {
        test.http("ca", &Caller::Unauthenticated(None), Request::builder().uri(path)).await
    };
    let certificate = get(&format!("/pki/cert/{}", alice.aid)).await;
    assert_eq!((certificate.status, certificate.text()), (200, &*alice.cert));
    assert_eq!(certificate.header("content-type"), "application/x-pem-file");
    let authoritative = get(&format!("/pki/cert/{}?consistency=authoritative", alice.aid)).await;
    assert_eq!(authoritative.header("x-aun-cert-lifecycle-state"), "active_signing");
    assert_eq!(get("/pki/cert/nobody.aid.pub").await.status, 404);
    assert_eq!(get("/pki/cert/%ff").await.status, 400);

    let chain = get("/pki/chain").await;
    assert_eq!(chain.text(), get("/ca/cert").await.text());
    assert!(chain.text().ends_with(get("/root.crt").await.text()));
    assert_eq!(get("/pki/root.crl").await.header("content-type"), "application/pkix-crl");
    let list = get("/pki/trust-roots.json").await;
    assert!(list.header("etag").starts_with('"') && list.json()["root_cas"].is_array());
}

#[tokio::test]
async fn methods_that_are_also_routes_answer_with_their_result() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let alice = test.register("alice").await;
    let serial = Certificate::from_pem(&alice.cert).unwrap().serial().to_owned();
    let ask = async |method: &str, path: &str| {
        let request = Request::builder().method(method).uri(path);
        test.http("ca", &Caller::Unauthenticated(None), request).await
    };
    let status = ask("GET", &format!("/pki/ocsp/{serial}")).await;
    assert_eq!((status.status, status.json()["status"].as_str()), (200, Some("good")));
    assert_eq!(status.header("cache-control"), "no-store");
    let invalid = ask("GET", "/pki/ocsp/xyz").await;
    assert_eq!((invalid.status, invalid.json()["code"].as_str()), (400, Some("invalid_params")));
    assert!(ask("GET", "/pki/crl.json").await.json()["crl_pem"].is_string());
    let head = ask("HEAD", "/pki/crl.json").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(ask("POST", "/pki/crl.json").await.status, 405);
    assert_eq!(ask("GET", "/pki/nothing").await.json()["code"], "not_found");
    let session = test.call_as(alice.caller(), "ca.ocsp_query", json!({ "serial": serial })).await;
    assert_eq!(session.unwrap_err().code(), -32601, "over a session the method is internal");
}

#[tokio::test]
async fn agents_without_a_certificate_are_listed_in_the_order_of_their_revocations() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let mut agents = Vec::new();
    for name in ["dora", "alice", "carol", "bobby"] {
        agents.push(test.register(name).await);
    }
    let [dora, alice, carol, bobby] = &agents[..] else { unreachable!() };
    let serial = Certificate::from_pem(&bobby.cert).unwrap().serial().to_owned();
    test.inside("ca.renew_cert", json!({ "aid": bobby.aid, "old_serial": serial })).await;
    let first = test.world.clock.now_seconds();
    test.inside("ca.revoke_cert", json!({ "aid": dora.aid })).await;
    test.inside("ca.revoke_cert", json!({ "serial": serial })).await;
    test.world.clock.advance_ms(1000);
    test.inside("ca.revoke_cert", json!({ "aid": carol.aid })).await;
    test.inside("ca.revoke_cert", json!({ "aid": alice.aid })).await;

    let (mut since, mut after_aid, mut listed) = (0, String::new(), Vec::new());
    loop {
        let params = json!({ "since": since, "after_aid": after_aid, "limit": 1 });
        let page = test.inside("ca.ended_agents", params).await;
        let Some(agent) = page["agents"].get(0) else { break };
        since = agent["ended_at"].as_i64().unwrap();
        after_aid = agent["aid"].as_str().unwrap().to_owned();
        listed.push((after_aid.clone(), since));
        assert_eq!(page["has_more"], listed.len() < 3);
    }
    let expected = [(dora, first), (alice, first + 1), (carol, first + 1)];
    assert_eq!(listed, expected.map(|(agent, at)| (agent.aid.clone(), at)), "bobby has another certificate");
    let later = test.inside("ca.ended_agents", json!({ "since": first + 1 })).await;
    assert_eq!(later["agents"].as_array().unwrap().len(), 2);
    let refused =
        test.call_as(Caller::service("agent"), "ca.ended_agents", json!({ "since": 0, "limit": 0 }));
    assert_eq!(refused.await.unwrap_err().code(), -32602);
}

#[tokio::test]
async fn a_login_certificate_follows_the_one_it_names_and_leaves_others_of_its_curve() {
    let test = TestWorld::with(&[]).and(crate::open).and_with(&["auth"]).await;
    let name = format!("mail.{}", test.world.issuer);
    let issue = |curve: Curve, more: Value| {
        let mut params = json!({ "name": name, "public_key": spki(&Key::generate(curve)), "curve": curve });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let state = async |issued: &Value| {
        test.inside("ca.get_cert", json!({ "serial": issued["cert_sn"] })).await["lifecycle_state"].clone()
    };
    let token = test.inside("ca.issue_service_cert", issue(Curve::P256, json!({}))).await;
    let old = test.inside("ca.issue_service_cert", issue(Curve::P384, json!({}))).await;
    let login = json!({ "key_purpose": "login", "replaces": old["cert_sn"] });
    let new = test.inside("ca.issue_service_cert", issue(Curve::P256, login)).await;
    assert_eq!(new["replaced_sn"], old["cert_sn"]);
    assert_eq!(state(&old).await, "verify_only");
    assert_eq!(state(&token).await, "active_signing", "it has another purpose");
    assert_eq!(state(&new).await, "active_signing");

    let next = json!({ "key_purpose": "login", "replaces": token["cert_sn"] });
    let next = test.inside("ca.issue_service_cert", issue(Curve::P256, next)).await;
    assert_eq!(next["replaced_sn"], new["cert_sn"], "one of the same kind comes first");
    assert_eq!(state(&token).await, "active_signing");
}
