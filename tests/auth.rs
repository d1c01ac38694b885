//! `auth.*` over the wire: names for keys, logins in two halves, tokens, and certificates that follow one another.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use certs::dev::Pki;
use certs::{Authority, Certificate, Curve, Key, Urls, verify_chain};
use serde_json::{Value, json};

use crate::world::agent::{Identity, aid, hello, public_key, random_hex, text};
use crate::world::{ISSUER, World, now};

fn creation(aid: &str, key: &str) -> Value {
    json!({ "aid": aid, "public_key": key, "curve": "P-256" })
}

fn fresh_key() -> String {
    public_key(&Key::generate(Curve::P256))
}

/// The certificates of a PEM text, in its order.
pub fn certificates(pem: &str) -> Vec<Certificate> {
    let blocks = pem
        .split_inclusive("-----END CERTIFICATE-----\n")
        .filter(|block| block.contains("BEGIN CERTIFICATE"));
    blocks
        .map(|block| Certificate::from_pem(block.trim_start()).expect("each block is a certificate"))
        .collect()
}

/// A certificate signed by an authority of ours, for somebody the server has never heard of.
fn issued_by(authority: &Authority, aid: &str, not_before: i64, not_after: i64) -> Identity {
    let key = Key::generate(Curve::P256);
    let here = format!("http://{ISSUER}/");
    let urls = Urls { ca_issuers: here.clone(), ocsp: here.clone(), crl: here };
    let cert =
        authority.issue_agent(aid, &key.public(), &urls, not_before, not_after).expect("a certificate");
    Identity { aid: aid.to_owned(), key, cert: cert.pem().to_owned() }
}

/// The server's own issuer, as whoever reads its data folder has it.
fn issuer_of(world: &World) -> Authority {
    let read = |name: &str| {
        fs::read_to_string(world.data().join("pki/ca").join(name)).expect("the authority's file")
    };
    Authority::from_pem(&read("issuer.crt"), &read("issuer.key")).expect("an authority")
}

async fn begun(world: &World, who: &Identity) -> Value {
    world.ask("auth.aid_login1", &who.login1()).await.expect("the first half of a login")
}

async fn refresh(world: &World, token: &str) -> Value {
    world
        .ask("auth.refresh_token", &json!({ "refresh_token": token }))
        .await
        .expect("a refresh is answered by a result")
}

#[tokio::test]
async fn a_free_name_gets_a_certificate_for_exactly_its_key() {
    let world = World::start().await;
    let key = Key::generate(Curve::P256);
    let created = world.ask("auth.create_aid", &creation(&aid("alice"), &public_key(&key))).await.unwrap();
    assert_eq!((&created["aid"], &created["curve"]), (&json!(aid("alice")), &json!("P-256")));
    let cert = Certificate::from_pem(created["cert"].as_str().unwrap()).unwrap();
    assert_eq!(cert.common_name(), aid("alice"));
    assert_eq!(cert.public_key(), &key.public());
    assert!(!cert.is_ca());
    assert!(cert.not_before() <= now() - 60, "clients tolerate no skew, so it begins in the past");
    assert!(cert.not_after() > now() + 300 * 86_400);

    let chain = certificates(&world.get("/pki/chain").await.text());
    assert_eq!(created["ca_cert"].as_str(), Some(chain[0].pem()));
    assert_eq!(verify_chain(&cert, &chain[..2], &chain[2..], now()), Ok(()));
}

#[tokio::test]
async fn the_same_key_again_gets_its_certificate_back() {
    let world = World::start().await;
    let alice = world.register("alice").await;
    let again = world.ask("auth.create_aid", &creation(&alice.aid, &public_key(&alice.key))).await.unwrap();
    assert_eq!(again["cert"], alice.cert);
}

#[tokio::test]
async fn a_taken_name_says_that_it_already_exists() {
    let world = World::start().await;
    let alice = world.register("alice").await;
    let error = world.ask_error("auth.create_aid", &creation(&alice.aid, &fresh_key())).await;
    assert_eq!(error["code"], 4090, "{error}");
    assert_eq!(error["data"]["kind"], "aid_exists");
    assert!(text(&error["message"]).contains("already exists"), "old clients look for these words: {error}");
    assert_eq!(world.get(&format!("/pki/cert/{}", alice.aid)).await.text(), alice.cert, "nothing changed");
}

#[tokio::test]
async fn of_two_registrations_of_one_name_at_once_one_wins() {
    let world = World::start().await;
    let wires = [world.wire().await, world.wire().await, world.wire().await, world.wire().await];
    for round in 0..10 {
        let name = aid(&format!("twin{round}"));
        let attempts = wires.iter().map(|wire| {
            let params = creation(&name, &fresh_key());
            async move { wire.try_call("auth.create_aid", &params).await }
        });
        let outcomes = futures_util::future::join_all(attempts).await;
        let winners: Vec<&Value> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        for loser in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
            assert_eq!(loser["code"], 4090, "{loser}");
        }
        assert_eq!(json!(world.get(&format!("/pki/cert/{name}")).await.text()), winners[0]["cert"]);
    }
}

#[tokio::test]
async fn names_that_are_not_names_are_refused_and_stay_free() {
    let world = World::with("limits.registrations_per_minute = 6000\nlimits.preauth_calls = 100").await;
    let wire = world.wire().await;
    let long = "a".repeat(64);
    let names = [
        "bob",
        "",
        "-alice",
        "al ice",
        "alice!",
        "älice",
        "Alice",
        "ALICE",
        " alice",
        "guest",
        "guest42",
        &long,
        "gateway",
        "auth",
        "message",
        "group",
        "storage",
        "stream",
        "proxy",
        "mail",
        "search",
        "relay",
        "nameservice",
        "aid_custody",
        "registry",
        "trust",
        "leaderboard",
        "aun_console",
        "aun-console",
        "push",
        "www",
        "pki",
        "ca",
    ];
    for name in names {
        let error = wire.call_error("auth.create_aid", &creation(&aid(name), &fresh_key())).await;
        assert_eq!(error["code"], -32602, "{name:?}: {error}");
        assert!(text(&error["message"]).contains("aid"), "the sentence names the field: {error}");
    }
    for whole in [
        "alice",
        "alice.",
        "",
        ".agents.localhost",
        "alice.elsewhere.example",
        "alice.AGENTS.localhost",
        "alice.sub.agents.localhost",
        "alice.agents.localhost.",
        "alice.agents.localhost ",
    ] {
        let error = wire.call_error("auth.create_aid", &creation(whole, &fresh_key())).await;
        assert_eq!(error["code"], -32602, "{whole:?}: {error}");
    }
    for name in ["alice", "_under", "4711", "with-dash", "with_under", &"a".repeat(63)] {
        let created = wire.call("auth.create_aid", &creation(&aid(name), &fresh_key())).await;
        assert_eq!(created["aid"], aid(name));
    }
}

#[tokio::test]
async fn keys_that_are_not_points_on_p256_are_refused() {
    let world = World::with("limits.preauth_calls = 100").await;
    let wire = world.wire().await;
    let spki = Key::generate(Curve::P256).public().spki_der().to_vec();
    let mut beside = spki.clone();
    *beside.last_mut().unwrap() ^= 1;
    let mut compressed = spki[..spki.len() - 32].to_vec();
    compressed[26] = 2;
    let keys = [
        public_key(&Key::generate(Curve::P384)),
        STANDARD.encode(beside),
        STANDARD.encode(compressed),
        STANDARD.encode(&spki[..spki.len() - 1]),
        STANDARD.encode([&spki[..], &[0]].concat()),
        STANDARD.encode([0; 91]),
        STANDARD.encode(b"not a key"),
        URL_SAFE_NO_PAD.encode([0xff; 91]),
        "%%%".to_owned(),
        String::new(),
    ];
    for key in keys {
        let error = wire.call_error("auth.create_aid", &creation(&aid("alice"), &key)).await;
        assert_eq!(error["code"], -32602, "{key}: {error}");
        assert!(text(&error["message"]).contains("public_key"), "{error}");
    }
    for curve in ["P-384", "P-521", "p-256", ""] {
        let mut params = creation(&aid("alice"), &fresh_key());
        params["curve"] = json!(curve);
        assert_eq!(wire.call_error("auth.create_aid", &params).await["code"], -32602, "{curve:?}");
    }
    assert_eq!(
        world.get(&format!("/pki/cert/{}", aid("alice"))).await.status,
        404,
        "nothing was left behind"
    );
    wire.call("auth.create_aid", &creation(&aid("alice"), &fresh_key())).await;
}

#[tokio::test]
async fn the_server_proves_itself_as_the_sdks_demand() {
    let world = World::start().await;
    let alice = world.register("alice").await;
    let nonce = "veiB514erPRNMcFX";
    let mut params = alice.login1();
    params["client_nonce"] = json!(nonce);
    let begun = world.ask("auth.aid_login1", &params).await.unwrap();

    let auth = Certificate::from_pem(begun["auth_cert"].as_str().unwrap()).unwrap();
    let chain = certificates(&world.get("/pki/chain").await.text());
    assert_eq!(verify_chain(&auth, &chain[..chain.len() - 1], &[world.root()], now()), Ok(()));
    assert_eq!(auth.common_name(), format!("auth.{ISSUER}"));
    assert_eq!(begun["auth_curve"].as_str(), Some(auth.public_key().curve().as_str()));
    let signature = STANDARD.decode(begun["client_nonce_signature"].as_str().unwrap()).unwrap();
    assert!(
        auth.public_key().verify(nonce.as_bytes(), &signature),
        "the text itself is signed, not what it decodes to"
    );
    assert!((begun["server_time"].as_f64().unwrap() - now() as f64).abs() < 60.0);

    let ocsp = world.get(&format!("/pki/ocsp/{}", auth.serial())).await.json();
    assert_eq!(ocsp["status"], "good");
}

#[tokio::test]
async fn a_login_gives_tokens_for_an_hour_in_the_documented_form() {
    let world = World::start().await;
    let alice = world.register("alice").await;
    let begun = begun(&world, &alice).await;
    let done = world.ask("auth.aid_login2", &alice.login2(&begun)).await.unwrap();
    assert_eq!(
        (&done["status"], &done["aid"], &done["expires_in"]),
        (&json!("ok"), &json!(alice.aid), &json!(3600))
    );
    assert_eq!(done["token"], done["access_token"]);
    assert!(done.get("new_cert").is_none(), "a young certificate is not renewed");

    let token = text(&done["access_token"]);
    let parts: Vec<&str> = token.split('.').collect();
    let part =
        |n: usize| -> Value { serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[n]).unwrap()).unwrap() };
    let (header, claims) = (part(0), part(1));
    assert!(header["alg"] == "ES256" || header["alg"] == "ES384", "{header}");
    assert_eq!((&claims["aid"], &claims["sub"]), (&json!(alice.aid), &json!(alice.aid)));
    assert_eq!((&claims["iss"], &claims["aud"]), (&json!(format!("auth.{ISSUER}")), &json!("aun")));
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 3600);
    assert!(claims["jti"].is_string());

    let signer = world.ask("auth.download_cert", &json!({ "cert_sn": header["kid"] })).await.unwrap();
    let key = Certificate::from_pem(signer["cert"].as_str().unwrap()).unwrap().public_key().clone();
    let signature = URL_SAFE_NO_PAD.decode(parts[2]).unwrap();
    assert!(
        key.verify_fixed(format!("{}.{}", parts[0], parts[1]).as_bytes(), &signature),
        "kid names the key"
    );
}

#[tokio::test]
async fn the_time_is_signed_as_it_was_written_and_never_judged() {
    let world = World::start().await;
    let alice = world.register("alice").await;
    for token in [r#""1794701761""#, r#""yesterday""#, "1794701761.80", "17947e5", "0", r#""ten past é""#] {
        let begun = begun(&world, &alice).await;
        let written = token.trim_matches('"');
        let mut params = alice.login2(&begun);
        params["signature"] = json!(alice.sign(&format!("{}:{written}", text(&begun["nonce"]))));
        params["client_time"] = json!("HERE");
        let frame =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "auth.aid_login2", "params": params }).to_string();
        let answer = world.wire().await.answer_to(&frame.replace("\"HERE\"", token)).await;
        assert_eq!(answer["result"]["status"], "ok", "{token}: {answer}");
    }
}

#[tokio::test]
async fn a_login_can_be_completed_once() {
    let world = World::start().await;
    let alice = world.register("alice").await;
    let params = alice.login2(&begun(&world, &alice).await);
    world.ask("auth.aid_login2", &params).await.unwrap();
    let error = world.ask_error("auth.aid_login2", &params).await;
    assert_eq!(error["code"], -32002, "{error}");

    // Neither may a completed login be used for something else.
    let renewal = json!({
        "aid": alice.aid, "request_id": params["request_id"], "nonce": params["nonce"],
        "signature": alice.sign(&text(&params["nonce"])),
    });
    assert_eq!(world.ask_error("auth.renew_cert", &renewal).await["code"], -32002);
}

#[tokio::test]
async fn of_two_completions_of_one_login_at_once_one_wins() {
    let world = World::start().await;
    let alice = world.register("alice").await;
    let (first, second) = (world.wire().await, world.wire().await);
    let params = alice.login2(&begun(&world, &alice).await);
    let (one, two) = futures_util::join!(
        first.try_call("auth.aid_login2", &params),
        second.try_call("auth.aid_login2", &params),
    );
    assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
}

#[tokio::test]
async fn the_halves_of_different_logins_do_not_fit_together() {
    let world = World::start().await;
    let (alice, carol) = (world.register("alice").await, world.register("carol").await);
    let (one, two) = (begun(&world, &alice).await, begun(&world, &alice).await);
    let hers = begun(&world, &carol).await;
    let good = alice.login2(&one);
    let changed = |field: &str, value: &Value| {
        let mut params = good.clone();
        params[field] = value.clone();
        params
    };
    let wrong = [
        changed("request_id", &two["request_id"]),
        changed("request_id", &json!("req-000000000000")),
        changed("nonce", &json!("bm90IGEgbm9uY2U")),
        changed("nonce", &json!("")),
        changed("aid", &json!(carol.aid)),
        alice.login2(&json!({ "request_id": one["request_id"], "nonce": two["nonce"] })),
        alice.login2(&hers),
    ];
    for params in wrong {
        let error = world.ask_error("auth.aid_login2", &params).await;
        assert!(error["code"] == -32002 || error["code"] == -32602, "{params}: {error}");
    }
    world.ask("auth.aid_login2", &good).await.expect("no wrong attempt has used up the right one");
}

#[tokio::test]
async fn a_signature_by_another_key_or_over_another_text_is_refused() {
    let world = World::start().await;
    let (alice, carol) = (world.register("alice").await, world.register("carol").await);
    let begun = begun(&world, &alice).await;
    let good = alice.login2(&begun);
    let nonce = text(&begun["nonce"]);
    let over = |who: &Identity, text: &str| {
        let mut params = good.clone();
        params["signature"] = json!(who.sign(text));
        params
    };
    for params in
        [over(&carol, &format!("{nonce}:1794701761.8452365")), over(&alice, &nonce), over(&alice, "")]
    {
        assert_eq!(world.ask_error("auth.aid_login2", &params).await["code"], -32003);
    }
    let mut params = good.clone();
    params["signature"] = json!("%%%");
    assert_eq!(world.ask_error("auth.aid_login2", &params).await["code"], -32602);
    world.ask("auth.aid_login2", &good).await.unwrap();
}

#[tokio::test]
async fn certificates_of_others_are_no_way_in() {
    let world = World::start().await;
    let alice = world.register("alice").await;
    let (yesterday, tomorrow) = (now() - 86_400, now() + 86_400);
    let namesake = issued_by(&Pki::new(ISSUER, now()).issuer, &alice.aid, yesterday, tomorrow);
    let stranger = issued_by(&Pki::new("elsewhere.example", now()).issuer, &alice.aid, yesterday, tomorrow);
    let self_signed = Authority::root(&alice.aid, "Alice", now());
    let self_signed = Identity { cert: self_signed.certificate().pem().to_owned(), ..alice.clone() };
    let service = Identity {
        cert: certificates(&world.get("/pki/chain").await.text())[0].pem().to_owned(),
        ..alice.clone()
    };
    for who in [&namesake, &stranger, &self_signed, &service] {
        let error = world.ask_error("auth.aid_login1", &who.login1()).await;
        assert_eq!(error["code"], -32002, "{error}");
    }
    let carol = world.register("carol").await;
    let borrowed = Identity { cert: alice.cert.clone(), ..carol };
    assert_eq!(
        world.ask_error("auth.aid_login1", &borrowed.login1()).await["code"],
        -32002,
        "the name is another one"
    );
}

#[tokio::test]
async fn certificates_of_our_issuer_that_nobody_knows_are_expired_or_not_registered() {
    let world = World::start().await;
    let issuer = issuer_of(&world);
    let unknown = issued_by(&issuer, &aid("ghost"), now() - 86_400, now() + 86_400);
    let error = world.ask_error("auth.aid_login1", &unknown.login1()).await;
    assert_eq!(error["code"], 4001, "{error}");
    assert!(text(&error["message"]).contains("not registered"), "old clients look for these words: {error}");
    assert_eq!(error["data"]["kind"], "not_registered");

    let expired = issued_by(&issuer, &aid("ghost"), now() - 200 * 86_400, now() - 86_400);
    let error = world.ask_error("auth.aid_login1", &expired.login1()).await;
    assert_eq!(error["code"], -32002, "{error}");
    let early = issued_by(&issuer, &aid("ghost"), now() + 86_400, now() + 2 * 86_400);
    assert_eq!(world.ask_error("auth.aid_login1", &early.login1()).await["code"], -32002);
}

#[tokio::test]
async fn what_is_no_certificate_is_refused_as_one() {
    let world = World::start().await;
    let alice = world.register("alice").await;
    let truncated = alice.cert[..alice.cert.len() / 2].to_owned();
    let twice = alice.cert.repeat(2);
    for cert in
        ["", "text", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", &truncated, &twice]
    {
        let mut params = alice.login1();
        params["cert"] = json!(cert);
        let error = world.ask_error("auth.aid_login1", &params).await;
        assert!(error["code"] == -32002 || error["code"] == -32602, "{cert:.60}: {error}");
    }
    let mut params = alice.login1();
    params["client_nonce"] = json!("n".repeat(257));
    assert_eq!(world.ask_error("auth.aid_login1", &params).await["code"], -32602);
    params["client_nonce"] = json!("");
    assert_eq!(world.ask_error("auth.aid_login1", &params).await["code"], -32602);
}

#[tokio::test]
async fn a_refresh_token_buys_the_next_pair() {
    let world = World::start().await;
    let alice = world.register("alice").await;
    let first = world.login(&alice).await;
    let second = refresh(&world, &first.refresh).await;
    assert_eq!(second["success"], true);
    assert_eq!(
        (&second["aid"], &second["expires_in"], &second["refresh_count"]),
        (&json!(alice.aid), &json!(3600), &json!(1))
    );
    assert_eq!(second["relogin_required"], false);
    let third = refresh(&world, &text(&second["refresh_token"])).await;
    assert_eq!((&third["success"], &third["refresh_count"]), (&json!(true), &json!(2)));

    // The access tokens of all three are good until their own end.
    for token in [&first.access, &text(&second["access_token"]), &text(&third["access_token"])] {
        let wire = world.wire().await;
        assert_eq!(wire.call("auth.connect", &hello(wire.nonce(), token)).await["status"], "ok");
    }
}

#[tokio::test]
async fn a_refresh_token_is_used_once_but_a_lost_answer_can_be_asked_for_again() {
    let world = World::start().await;
    let alice = world.register("alice").await;
    let first = world.login(&alice).await.refresh;
    let lost = refresh(&world, &first).await;
    assert_eq!(lost["success"], true);
    let again = refresh(&world, &first).await;
    assert_eq!(again["success"], true, "the answer was lost a moment ago: {again}");
    let third = refresh(&world, &first).await;
    assert_eq!(third["success"], false, "once more is enough: {third}");

    let next = refresh(&world, &text(&again["refresh_token"])).await;
    assert_eq!(next["success"], true);
    let too_late = refresh(&world, &first).await;
    assert_eq!(too_late["success"], false, "the chain has moved on");
    assert_eq!(too_late["error"], "invalid_or_expired_refresh_token");
    assert_eq!(too_late["relogin_required"], true);
}

#[tokio::test]
async fn a_refresh_that_fails_says_so_in_its_result() {
    let world = World::start().await;
    for token in ["rt-unknown", &random_hex(32)] {
        let refused = refresh(&world, token).await;
        assert_eq!(refused["success"], false);
        assert_eq!(refused["error"], "invalid_or_expired_refresh_token");
        assert_eq!((&refused["relogin_required"], &refused["retryable"]), (&json!(true), &json!(false)));
    }
    let missing = world.ask("auth.refresh_token", &json!({})).await;
    let missing = missing.expect("a refresh is answered by a result");
    assert_eq!((&missing["success"], &missing["error"]), (&json!(false), &json!("missing refresh_token")));
}

#[tokio::test]
async fn tokens_and_certificates_survive_a_restart() {
    let mut world = World::start().await;
    let alice = world.register("alice").await;
    let tokens = world.login(&alice).await;
    let pending = begun(&world, &alice).await;
    world.restart().await;

    let session = world.connect_with(&alice, &tokens, |_| ()).await;
    assert_eq!(session.call("meta.ping", &json!({})).await["pong"], true);
    world.ask("auth.aid_login2", &alice.login2(&pending)).await.expect("a login may span a restart");
    let refreshed = refresh(&world, &tokens.refresh).await;
    assert_eq!(refreshed["success"], true);
    assert_eq!(refresh(&world, "rt-unknown").await["success"], false);
    assert_eq!(world.get(&format!("/pki/cert/{}", alice.aid)).await.text(), alice.cert);

    world.kill();
    world.start_again();
    assert_eq!(
        refresh(&world, &text(&refreshed["refresh_token"])).await["success"],
        true,
        "nothing answered is ever lost"
    );
    world.connect_with(&alice, &tokens, |_| ()).await;
}

#[tokio::test]
async fn a_used_login_stays_used_after_a_restart() {
    let mut world = World::start().await;
    let alice = world.register("alice").await;
    let params = alice.login2(&begun(&world, &alice).await);
    world.ask("auth.aid_login2", &params).await.unwrap();
    world.kill();
    world.start_again();
    assert_eq!(world.ask_error("auth.aid_login2", &params).await["code"], -32002);
}

#[tokio::test]
async fn a_renewal_keeps_the_key_and_retires_the_old_certificate() {
    let world = World::start().await;
    let alice = world.register("alice").await;
    let begun = begun(&world, &alice).await;
    let nonce = text(&begun["nonce"]);
    let params = json!({ "aid": alice.aid, "request_id": begun["request_id"], "nonce": nonce, "signature": alice.sign(&nonce) });
    let renewed = world.ask("auth.renew_cert", &params).await.unwrap();
    assert_eq!(renewed["status"], "renewed");
    let (old, new) = (alice.certificate(), Certificate::from_pem(renewed["cert"].as_str().unwrap()).unwrap());
    assert_eq!((new.common_name(), new.public_key()), (&*alice.aid, old.public_key()));
    assert_ne!(new.serial(), old.serial());
    assert_eq!(world.ask_error("auth.renew_cert", &params).await["code"], -32002, "once");

    assert_eq!(
        world.get(&format!("/pki/cert/{}", alice.aid)).await.text(),
        new.pem(),
        "the new one is current"
    );
    let by_fingerprint =
        format!("/pki/cert/{}?cert_fingerprint={}&consistency=authoritative", alice.aid, old.fingerprint());
    let answer = world.get(&by_fingerprint).await;
    assert_eq!(answer.header("x-aun-cert-lifecycle-state"), Some("verify_only"));
    assert_eq!(
        world.get(&format!("/pki/ocsp/{}", old.serial())).await.json()["status"],
        "good",
        "retired is not revoked"
    );

    // Whoever missed the answer still holds the old certificate and the same key: it gets the new one at the next login.
    let begun = self::begun(&world, &alice).await;
    let done = world.ask("auth.aid_login2", &alice.login2(&begun)).await.unwrap();
    assert_eq!(done["new_cert"].as_str(), Some(new.pem()));
}

#[tokio::test]
async fn a_new_key_takes_over_and_the_old_one_is_out() {
    let world = World::start().await;
    let alice = world.register("alice").await;
    let begun = begun(&world, &alice).await;
    let (nonce, key) = (text(&begun["nonce"]), Key::generate(Curve::P256));
    let new_public_key = public_key(&key);
    let mut params = json!({
        "aid": alice.aid, "request_id": begun["request_id"], "nonce": nonce, "new_public_key": new_public_key,
        "signature": alice.sign(&nonce),
    });
    assert_eq!(
        world.ask_error("auth.rekey", &params).await["code"],
        -32003,
        "the new key must be signed too"
    );
    params["signature"] = json!(alice.sign(&format!("{nonce}{new_public_key}")));
    let rekeyed = world.ask("auth.rekey", &params).await.unwrap();
    assert_eq!(rekeyed["status"], "rekeyed");

    let renewed = Identity { aid: alice.aid.clone(), key, cert: text(&rekeyed["cert"]) };
    assert_eq!(renewed.certificate().public_key(), &renewed.key.public());
    assert_eq!(world.get(&format!("/pki/cert/{}", alice.aid)).await.text(), renewed.cert);
    world.connect(&renewed, |_| ()).await;
    let error = world.ask_error("auth.aid_login1", &alice.login1()).await;
    assert!(error["code"] == 4001 || error["code"] == -32002, "{error}");
    let historic = format!("/pki/cert/{}?cert_fingerprint={}", alice.aid, alice.certificate().fingerprint());
    assert_eq!(world.get(&historic).await.text(), alice.cert, "what it signed can still be checked");
}

#[tokio::test]
async fn a_further_certificate_is_only_for_oneself() {
    let world = World::start().await;
    let (alice, carol) = (world.agent("alice").await, world.register("carol").await);
    let key = public_key(&Key::generate(Curve::P384));
    let wanted = |aid: &str, curve: &str| json!({ "aid": aid, "public_key": key, "curve": curve });
    let issued = alice.call("auth.request_cert", &wanted(alice.aid(), "P-384")).await;
    assert_eq!((&issued["status"], &issued["curve"]), (&json!("issued"), &json!("P-384")));
    assert_eq!(Certificate::from_pem(issued["cert"].as_str().unwrap()).unwrap().common_name(), alice.aid());
    assert_eq!(
        world.get(&format!("/pki/cert/{}", alice.aid())).await.text(),
        alice.identity.cert,
        "logins go on as before"
    );

    assert_eq!(alice.call_error("auth.request_cert", &wanted(&carol.aid, "P-384")).await["code"], -32004);
    assert_eq!(alice.call_error("auth.request_cert", &wanted(alice.aid(), "P-521")).await["code"], -32602);
    assert_eq!(alice.call_error("auth.request_cert", &wanted(alice.aid(), "P-256")).await["code"], -32602);
    assert_eq!(world.ask_error("auth.request_cert", &wanted(alice.aid(), "P-384")).await["code"], -32013);
}

#[tokio::test]
async fn any_certificate_can_be_downloaded_by_its_number() {
    let world = World::start().await;
    let alice = world.register("alice").await;
    let serial = alice.certificate().serial().to_owned();
    for number in [serial.clone(), serial.to_uppercase(), format!("00{serial}")] {
        let got = world.ask("auth.download_cert", &json!({ "cert_sn": number })).await.unwrap();
        assert_eq!(got["cert"], alice.cert);
        assert_eq!(got["cert_chain"].as_array().unwrap().len(), 3);
    }
    let root = world.ask("auth.download_cert", &json!({ "cert_sn": "root" })).await.unwrap();
    assert_eq!(root["cert"].as_str(), Some(world.root().pem()));
    assert_eq!(
        world.ask_error("auth.download_cert", &json!({ "cert_sn": "0badc0de" })).await["code"],
        -32008
    );
    assert_eq!(world.ask_error("auth.download_cert", &json!({ "cert_sn": "not hex" })).await["code"], -32602);
}
