//! `auth.aid_login1` and `auth.aid_login2`: the server proves itself, then the agent does.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use certs::dev::Pki;
use certs::{Authority, Certificate, Curve, Key, Urls, verify_chain};
use serde_json::{Value, json};

use super::begun;
use crate::support::agent::{TestIdentity, text};
use crate::support::{ISSUER, TestServer, certificates, now};

/// A certificate signed by an authority of ours, for somebody the server has never heard of.
fn issued_by(authority: &Authority, aid: &str, not_before: i64, not_after: i64) -> TestIdentity {
    let key = Key::generate(Curve::P256);
    let here = format!("http://{ISSUER}/");
    let urls = Urls { ca_issuers: here.clone(), ocsp: here.clone(), crl: here };
    let cert =
        authority.issue_agent(aid, &key.public(), &urls, not_before, not_after).expect("a certificate");
    TestIdentity { aid: aid.to_owned(), key, cert: cert.pem().to_owned() }
}

/// The server's own issuer, as whoever reads its data folder has it.
fn issuer_of(server: &TestServer) -> Authority {
    let read = |name: &str| {
        fs::read_to_string(server.data().join("pki/ca").join(name)).expect("the authority's file")
    };
    Authority::from_pem(&read("issuer.crt"), &read("issuer.key")).expect("an authority")
}

#[tokio::test]
async fn the_server_proves_itself_as_the_sdks_demand() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let nonce = "veiB514erPRNMcFX";
    let mut params = alice.login1();
    params["client_nonce"] = json!(nonce);
    let begun = server.ask("auth.aid_login1", &params).await.unwrap();

    let auth = Certificate::from_pem(begun["auth_cert"].as_str().unwrap()).unwrap();
    let chain = certificates(&server.get("/pki/chain").await.text());
    assert_eq!(verify_chain(&auth, &chain[..chain.len() - 1], &[server.root()], now()), Ok(()));
    assert_eq!(auth.common_name(), format!("auth.{ISSUER}"));
    assert_eq!(begun["auth_curve"].as_str(), Some(auth.public_key().curve().as_str()));
    let signature = STANDARD.decode(begun["client_nonce_signature"].as_str().unwrap()).unwrap();
    assert!(
        auth.public_key().verify(nonce.as_bytes(), &signature),
        "the text itself is signed, not what it decodes to"
    );
    assert!((begun["server_time"].as_f64().unwrap() - now() as f64).abs() < 60.0);

    let ocsp = server.get(&format!("/pki/ocsp/{}", auth.serial())).await.json();
    assert_eq!(ocsp["status"], "good");
}

#[tokio::test]
async fn a_login_gives_tokens_for_an_hour_in_the_documented_form() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let begun = begun(&server, &alice).await;
    let done = server.ask("auth.aid_login2", &alice.login2(&begun)).await.unwrap();
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

    let signer = server.ask("auth.download_cert", &json!({ "cert_sn": header["kid"] })).await.unwrap();
    let key = Certificate::from_pem(signer["cert"].as_str().unwrap()).unwrap().public_key().clone();
    let signature = URL_SAFE_NO_PAD.decode(parts[2]).unwrap();
    assert!(
        key.verify_fixed(format!("{}.{}", parts[0], parts[1]).as_bytes(), &signature),
        "kid names the key"
    );
}

#[tokio::test]
async fn the_time_is_signed_as_it_was_written_and_never_checked() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    for token in [r#""1794701761""#, r#""yesterday""#, "1794701761.80", "17947e5", "0", r#""ten past é""#] {
        let begun = begun(&server, &alice).await;
        let written = token.trim_matches('"');
        let mut params = alice.login2(&begun);
        params["signature"] = json!(alice.sign(&format!("{}:{written}", text(&begun["nonce"]))));
        params["client_time"] = json!("HERE");
        let frame =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "auth.aid_login2", "params": params }).to_string();
        let answer = server.socket().await.answer_to(&frame.replace("\"HERE\"", token)).await;
        assert_eq!(answer["result"]["status"], "ok", "{token}: {answer}");
    }
}

#[tokio::test]
async fn a_login_can_be_completed_once() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let params = alice.login2(&begun(&server, &alice).await);
    server.ask("auth.aid_login2", &params).await.unwrap();
    let error = server.ask_error("auth.aid_login2", &params).await;
    assert_eq!(error["code"], -32002, "{error}");

    // Neither may a completed login be used for something else.
    let renewal = json!({
        "aid": alice.aid, "request_id": params["request_id"], "nonce": params["nonce"],
        "signature": alice.sign(&text(&params["nonce"])),
    });
    assert_eq!(server.ask_error("auth.renew_cert", &renewal).await["code"], -32002);
}

#[tokio::test]
async fn of_two_completions_of_one_login_at_once_one_wins() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let (first, second) = (server.socket().await, server.socket().await);
    let params = alice.login2(&begun(&server, &alice).await);
    let (one, two) = futures_util::join!(
        first.try_call("auth.aid_login2", &params),
        second.try_call("auth.aid_login2", &params),
    );
    assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
}

#[tokio::test]
async fn the_halves_of_different_logins_do_not_fit_together() {
    let server = TestServer::shared().await;
    let (alice, carol) = (server.register("alice").await, server.register("carol").await);
    let (one, two) = (begun(&server, &alice).await, begun(&server, &alice).await);
    let hers = begun(&server, &carol).await;
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
        let error = server.ask_error("auth.aid_login2", &params).await;
        assert_eq!(error["code"], -32002, "{params}: {error}");
    }
    server.ask("auth.aid_login2", &good).await.expect("no wrong attempt has used up the right one");
}

#[tokio::test]
async fn a_signature_by_another_key_or_over_another_text_is_refused() {
    let server = TestServer::shared().await;
    let (alice, carol) = (server.register("alice").await, server.register("carol").await);
    let begun = begun(&server, &alice).await;
    let good = alice.login2(&begun);
    let nonce = text(&begun["nonce"]);
    let over = |who: &TestIdentity, text: &str| {
        let mut params = good.clone();
        params["signature"] = json!(who.sign(text));
        params
    };
    for params in
        [over(&carol, &format!("{nonce}:1794701761.8452365")), over(&alice, &nonce), over(&alice, "")]
    {
        assert_eq!(server.ask_error("auth.aid_login2", &params).await["code"], -32003);
    }
    let mut params = good.clone();
    params["signature"] = json!("%%%");
    assert_eq!(server.ask_error("auth.aid_login2", &params).await["code"], -32602);
    server.ask("auth.aid_login2", &good).await.unwrap();
}

#[tokio::test]
async fn certificates_of_others_are_refused() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let (yesterday, tomorrow) = (now() - 86_400, now() + 86_400);
    let namesake = issued_by(&Pki::new(ISSUER, now()).issuer, &alice.aid, yesterday, tomorrow);
    let of_another_domain =
        issued_by(&Pki::new("elsewhere.example", now()).issuer, &alice.aid, yesterday, tomorrow);
    let self_signed = Authority::root(&alice.aid, "Alice", now());
    let self_signed = TestIdentity { cert: self_signed.certificate().pem().to_owned(), ..alice.clone() };
    let service = TestIdentity {
        cert: certificates(&server.get("/pki/chain").await.text())[0].pem().to_owned(),
        ..alice.clone()
    };
    for who in [&namesake, &of_another_domain, &self_signed, &service] {
        let error = server.ask_error("auth.aid_login1", &who.login1()).await;
        assert_eq!(error["code"], -32002, "{error}");
    }
    let carol = server.register("carol").await;
    let borrowed = TestIdentity { cert: alice.cert.clone(), ..carol };
    assert_eq!(
        server.ask_error("auth.aid_login1", &borrowed.login1()).await["code"],
        -32002,
        "the name is another one"
    );
}

#[tokio::test]
async fn certificates_of_our_issuer_that_nobody_knows_are_expired_or_not_registered() {
    let server = TestServer::shared().await;
    let (issuer, ghost) = (issuer_of(&server), server.aid("ghost"));
    let unknown = issued_by(&issuer, &ghost, now() - 86_400, now() + 86_400);
    let error = server.ask_error("auth.aid_login1", &unknown.login1()).await;
    assert_eq!(error["code"], 4001, "{error}");
    assert!(text(&error["message"]).contains("not registered"), "old clients look for these words: {error}");
    assert_eq!(error["data"]["kind"], "not_registered");

    let expired = issued_by(&issuer, &ghost, now() - 200 * 86_400, now() - 86_400);
    let error = server.ask_error("auth.aid_login1", &expired.login1()).await;
    assert_eq!(error["code"], -32002, "{error}");
    let early = issued_by(&issuer, &ghost, now() + 86_400, now() + 2 * 86_400);
    assert_eq!(server.ask_error("auth.aid_login1", &early.login1()).await["code"], -32002);
}

#[tokio::test]
async fn what_is_no_certificate_is_refused_as_one() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let truncated = alice.cert[..alice.cert.len() / 2].to_owned();
    let twice = alice.cert.repeat(2);
    for cert in
        ["", "text", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", &truncated, &twice]
    {
        let mut params = alice.login1();
        params["cert"] = json!(cert);
        let error = server.ask_error("auth.aid_login1", &params).await;
        assert_eq!(error["code"], -32002, "{cert:.60}: {error}");
    }
    let mut params = alice.login1();
    params["client_nonce"] = json!("n".repeat(257));
    assert_eq!(server.ask_error("auth.aid_login1", &params).await["code"], -32602);
    params["client_nonce"] = json!("");
    assert_eq!(server.ask_error("auth.aid_login1", &params).await["code"], -32602);
}
