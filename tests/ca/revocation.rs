//! `aund certs revoke` on a running server: sessions, tokens and logins of the certificate end at once.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::Key;
use serde_json::json;
use x509_parser::prelude::{CertificateRevocationList, FromDer, ReasonCode};

use super::pki::{der, issuer, sha256, single_responses};
use crate::support::agent::{TestIdentity, hello, public_key, text};
use crate::support::{TestServer, aund, printed};

async fn revoke(server: &TestServer, words: &[&str]) -> String {
    let output = server.aund(&[&["certs", "revoke"], words].concat()).await;
    assert!(output.status.success(), "{}{}", printed(&output.stdout), printed(&output.stderr));
    printed(&output.stdout)
}

#[tokio::test]
async fn a_revoked_agent_is_out_everywhere_at_once() {
    let server = TestServer::start().await;
    let (alice, carol) = (server.agent("alice").await, server.agent("carol").await);
    let short = server
        .connect(&alice.identity, |hello| {
            hello["options"] = json!({ "kind": "short", "short_ttl_ms": 60_000 })
        })
        .await;
    let begun = server.ask("auth.aid_login1", &alice.identity.login1()).await.unwrap();
    let serial = alice.identity.certificate().serial().to_owned();

    revoke(&server, &[alice.aid(), "--reason", "keyCompromise"]).await;

    for session in [&alice, &short] {
        let told = session.disconnected().await;
        assert_eq!(told["code"], 4001, "{told}");
    }
    let list = server.get("/pki/crl.json").await.json();
    assert!(list["revoked_serials"].as_array().unwrap().contains(&json!(serial)), "{list}");
    let crl = der(list["crl_pem"].as_str().unwrap());
    let (_, crl) = CertificateRevocationList::from_der(&crl).unwrap();
    let entries: Vec<_> = crl.iter_revoked_certificates().collect();
    assert_eq!(entries.len(), 1);
    assert_eq!(
        certs::parse_serial(&entries[0].raw_serial_as_string().replace(':', "")),
        Some(serial.clone())
    );
    assert_eq!(entries[0].reason_code().map(|(_, code)| code), Some(ReasonCode::KeyCompromise));
    let ocsp = server.get(&format!("/pki/ocsp/{serial}")).await.json();
    let response = STANDARD.decode(ocsp["ocsp_response"].as_str().unwrap()).unwrap();
    let answers = single_responses(&response);
    assert_eq!(ocsp["status"], "revoked");
    assert!(answers.iter().all(|answer| answer.status == "revoked"), "the word and the answers agree");
    // Python SDKs up to 0.5.4 look for the hash of the whole key, later ones for that of its bit string alone; a response
    // with both makes all of them believe the word.
    let spki = issuer(&server).await.public_key().spki_der().to_vec();
    let hashes: Vec<_> = answers.iter().map(|answer| answer.key_hash.clone()).collect();
    assert_eq!(hashes, [sha256(&spki[spki.len() - 97..]), sha256(&spki)]);
    assert_eq!(server.get(&format!("/pki/cert/{}", alice.aid())).await.status, 404, "nothing is current");
    let historic = format!(
        "/pki/cert/{}?cert_fingerprint={}&consistency=authoritative",
        alice.aid(),
        alice.identity.certificate().fingerprint()
    );
    assert_eq!(server.get(&historic).await.header("x-aun-cert-lifecycle-state"), Some("revoked"));

    let socket = server.socket().await;
    let error = socket.call_error("auth.connect", &hello(socket.nonce(), &alice.tokens.access)).await;
    assert_eq!(error["code"], 4001, "the token is worth nothing: {error}");
    let refreshed =
        socket.call("auth.refresh_token", &json!({ "refresh_token": alice.tokens.refresh })).await;
    assert_eq!((&refreshed["success"], &refreshed["relogin_required"]), (&json!(false), &json!(true)));
    let error = socket.call_error("auth.aid_login1", &alice.identity.login1()).await;
    assert_eq!(error["code"], -32050, "{error}");
    let error = socket.call_error("auth.aid_login2", &alice.identity.login2(&begun)).await;
    assert_eq!(error["code"], -32050, "a login that had begun does not end: {error}");
    let put =
        server.http("PUT", "/agent.md").host(alice.aid()).bearer(&alice.tokens.access).body("x").send().await;
    assert_eq!(put.status, 401);

    assert_eq!(carol.call("meta.ping", &json!({})).await["pong"], true, "nobody else is touched");
    assert!(carol.events_so_far().await.is_empty());
}

#[tokio::test]
async fn a_renewal_in_flight_does_not_survive_a_revocation() {
    let server = TestServer::start().await;
    let alice = server.register("alice").await;
    let begun = server.ask("auth.aid_login1", &alice.login1()).await.unwrap();
    let nonce = text(&begun["nonce"]);
    revoke(&server, &[&alice.aid]).await;

    let mut params = json!({ "aid": alice.aid, "request_id": begun["request_id"], "nonce": nonce, "signature": alice.sign(&nonce) });
    assert_eq!(server.ask_error("auth.renew_cert", &params).await["code"], -32050);
    let key = public_key(&Key::generate(certs::Curve::P256));
    params["signature"] = json!(alice.sign(&format!("{nonce}{key}")));
    params["new_public_key"] = json!(key);
    assert_eq!(
        server.ask_error("auth.rekey", &params).await["code"],
        -32050,
        "a stolen key does not buy a new one"
    );
}

#[tokio::test]
async fn one_certificate_can_be_revoked_by_its_serial_in_any_spelling() {
    let server = TestServer::start().await;
    let (alice, carol) = (server.register("alice").await, server.register("carol").await);
    let serial = |who: &TestIdentity| who.certificate().serial().to_owned();
    revoke(&server, &[&serial(&alice).to_uppercase()]).await;
    revoke(&server, &[&format!("00{}", serial(&carol))]).await;
    let list = server.get("/pki/crl.json").await.json()["revoked_serials"].clone();
    assert_eq!(list.as_array().map(Vec::len), Some(2), "{list}");
    for who in [&alice, &carol] {
        assert_eq!(server.get(&format!("/pki/ocsp/{}", serial(who))).await.json()["status"], "revoked");
        assert_eq!(server.ask_error("auth.aid_login1", &who.login1()).await["code"], -32050);
    }
}

#[tokio::test]
async fn revoking_again_changes_nothing_and_revoking_nobody_is_said() {
    let server = TestServer::start().await;
    let alice = server.register("alice").await;
    revoke(&server, &[&alice.aid]).await;
    let before = server.get("/pki/crl.json").await.json()["revoked_serials"].clone();
    revoke(&server, &[&alice.aid]).await;
    assert_eq!(server.get("/pki/crl.json").await.json()["revoked_serials"], before);

    for words in [["nobody1.agents.localhost"], ["badc0de"]] {
        let output = server.aund(&[&["certs", "revoke"], &words[..]].concat()).await;
        assert_eq!(output.status.code(), Some(1), "{}", printed(&output.stderr));
        assert!(!printed(&output.stderr).trim().is_empty(), "it says why");
    }
    let output = server.aund(&["certs", "revoke", &alice.aid, "--reason", "boredom"]).await;
    assert!(!output.status.success());
}

#[tokio::test]
async fn a_stopped_server_knows_of_the_revocation_when_it_starts() {
    let mut server = TestServer::start().await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    server.terminate();
    server.ended().await;
    revoke(&server, &[&alice.aid]).await;
    server.start_again();

    let socket = server.socket().await;
    assert_eq!(socket.call_error("auth.connect", &hello(socket.nonce(), &tokens.access)).await["code"], 4001);
    assert_eq!(socket.call_error("auth.aid_login1", &alice.login1()).await["code"], -32050);
    assert_eq!(
        server.get(&format!("/pki/ocsp/{}", alice.certificate().serial())).await.json()["status"],
        "revoked"
    );
}

#[tokio::test]
async fn a_revocation_survives_a_kill() {
    let mut server = TestServer::start().await;
    let alice = server.agent("alice").await;
    revoke(&server, &[alice.aid()]).await;
    server.kill();
    server.start_again();
    let socket = server.socket().await;
    assert_eq!(
        socket.call_error("auth.connect", &hello(socket.nonce(), &alice.tokens.access)).await["code"],
        4001
    );
    let list = server.get("/pki/crl.json").await.json()["revoked_serials"].clone();
    assert_eq!(list, json!([alice.identity.certificate().serial()]));
}

#[tokio::test]
async fn a_revoked_name_stays_reserved() {
    let server = TestServer::start().await;
    let alice = server.register("alice").await;
    revoke(&server, &[&alice.aid]).await;
    for key in [&alice.key, &Key::generate(certs::Curve::P256)] {
        let params = json!({ "aid": alice.aid, "public_key": public_key(key), "curve": "P-256" });
        let error = server.ask_error("auth.create_aid", &params).await;
        assert_eq!((&error["code"], &error["data"]["kind"]), (&json!(4090), &json!("aid_exists")), "{error}");
    }
}

#[tokio::test]
async fn an_old_certificate_can_be_revoked_and_the_current_one_still_gets_in() {
    let server = TestServer::start().await;
    let alice = server.register("alice").await;
    let renewed = server.rekey(&alice).await;
    revoke(&server, &[alice.certificate().serial(), "--reason", "keyCompromise"]).await;

    // At once, in the very second of the revocation: a token given out after it is as good as any.
    let session = server.connect(&renewed, |_| ()).await;
    assert_eq!(session.call("meta.ping", &json!({})).await["pong"], true);
    let ocsp = |serial: &str| format!("/pki/ocsp/{serial}");
    assert_eq!(server.get(&ocsp(alice.certificate().serial())).await.json()["status"], "revoked");
    assert_eq!(server.get(&ocsp(renewed.certificate().serial())).await.json()["status"], "good");
}

#[tokio::test]
async fn the_data_folder_alone_tells_the_command_whom_to_ask() {
    let server = TestServer::start().await;
    let alice = server.agent("alice").await;
    let data = server.data();
    let output =
        aund(&["certs", "revoke", alice.aid(), "--data", data.to_str().unwrap()], &server.beside(""));
    assert!(output.status.success(), "{}", printed(&output.stderr));
    assert!(printed(&output.stdout).contains(alice.identity.certificate().serial()), "it says what it did");
    assert_eq!(alice.disconnected().await["code"], 4001);
}
