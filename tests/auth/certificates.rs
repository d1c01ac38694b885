//! `auth.renew_cert`, `auth.rekey`, `auth.request_cert` and `auth.download_cert`: certificates that follow one another.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{Certificate, Curve, Key};
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use serde_json::{Value, json};

use super::begun;
use crate::support::TestServer;
use crate::support::agent::{TestIdentity, public_key, text};

#[tokio::test]
async fn a_renewal_keeps_the_key_and_retires_the_old_certificate() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let begun = begun(&server, &alice).await;
    let nonce = text(&begun["nonce"]);
    let params = json!({ "aid": alice.aid, "request_id": begun["request_id"], "nonce": nonce, "signature": alice.sign(&nonce) });
    let renewed = server.ask("auth.renew_cert", &params).await.unwrap();
    assert_eq!(renewed["status"], "renewed");
    let (old, new) = (alice.certificate(), Certificate::from_pem(renewed["cert"].as_str().unwrap()).unwrap());
    assert_eq!((new.common_name(), new.public_key()), (&*alice.aid, old.public_key()));
    assert_ne!(new.serial(), old.serial());
    assert_eq!(server.ask_error("auth.renew_cert", &params).await["code"], -32002, "once");

    assert_eq!(
        server.get(&format!("/pki/cert/{}", alice.aid)).await.text(),
        new.pem(),
        "the new one is current"
    );
    let by_fingerprint =
        format!("/pki/cert/{}?cert_fingerprint={}&consistency=authoritative", alice.aid, old.fingerprint());
    let answer = server.get(&by_fingerprint).await;
    assert_eq!(answer.header("x-aun-cert-lifecycle-state"), Some("verify_only"));
    assert_eq!(
        server.get(&format!("/pki/ocsp/{}", old.serial())).await.json()["status"],
        "good",
        "retired is not revoked"
    );

    // Whoever missed the answer still holds the old certificate and the same key: it gets the new one at the next login.
    let begun = super::begun(&server, &alice).await;
    let done = server.ask("auth.aid_login2", &alice.login2(&begun)).await.unwrap();
    assert_eq!(done["new_cert"].as_str(), Some(new.pem()));
}

#[tokio::test]
async fn a_new_key_replaces_the_old_one_which_is_refused() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let begun = begun(&server, &alice).await;
    let (nonce, key) = (text(&begun["nonce"]), Key::generate(Curve::P256));
    let new_public_key = public_key(&key);
    let mut params = json!({
        "aid": alice.aid, "request_id": begun["request_id"], "nonce": nonce, "new_public_key": new_public_key,
        "signature": alice.sign(&nonce),
    });
    assert_eq!(
        server.ask_error("auth.rekey", &params).await["code"],
        -32003,
        "the new key must be signed too"
    );
    params["signature"] = json!(alice.sign(&format!("{nonce}{new_public_key}")));
    let rekeyed = server.ask("auth.rekey", &params).await.unwrap();
    assert_eq!(rekeyed["status"], "rekeyed");

    let renewed = TestIdentity { aid: alice.aid.clone(), key, cert: text(&rekeyed["cert"]) };
    assert_eq!(renewed.certificate().public_key(), &renewed.key.public());
    assert_eq!(server.get(&format!("/pki/cert/{}", alice.aid)).await.text(), renewed.cert);
    server.connect(&renewed, |_| ()).await;
    let error = server.ask_error("auth.aid_login1", &alice.login1()).await;
    assert_eq!((&error["code"], &error["data"]["kind"]), (&json!(4001), &json!("not_registered")), "{error}");
    let historic = format!("/pki/cert/{}?cert_fingerprint={}", alice.aid, alice.certificate().fingerprint());
    assert_eq!(server.get(&historic).await.text(), alice.cert, "what it signed can still be checked");
}

/// What the TypeScript and browser SDKs do with the first half of a login before a renewal or a new key: whatever the
/// certificate says, they hash with SHA-256 and import the key as one on P-256.
fn verified_with_sha256(begun: &Value, client_nonce: &str) -> bool {
    let auth = Certificate::from_pem(&text(&begun["auth_cert"])).expect("a certificate");
    let spki = auth.public_key().spki_der();
    // The uncompressed point on P-256 is the end of the key.
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &spki[spki.len() - 65..]);
    let signature = STANDARD.decode(text(&begun["client_nonce_signature"])).expect("a signature in base64");
    key.verify(client_nonce.as_bytes(), &signature).is_ok()
}

#[tokio::test]
async fn the_server_proves_itself_to_clients_that_know_sha256_only() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let key = public_key(&Key::generate(Curve::P256));
    for (method, new_public_key) in [("auth.renew_cert", ""), ("auth.rekey", key.as_str())] {
        let login1 = alice.login1();
        let begun = server.ask("auth.aid_login1", &login1).await.unwrap();
        assert_eq!(begun["auth_curve"], "P-256", "{method}");
        assert!(verified_with_sha256(&begun, login1["client_nonce"].as_str().unwrap()), "{method}");

        let nonce = text(&begun["nonce"]);
        let mut params = json!({
            "aid": alice.aid, "request_id": begun["request_id"], "nonce": nonce,
            "signature": alice.sign(&format!("{nonce}{new_public_key}")),
        });
        if !new_public_key.is_empty() {
            params["new_public_key"] = json!(new_public_key);
        }
        server.ask(method, &params).await.unwrap();
    }
}

#[tokio::test]
async fn a_further_certificate_is_only_for_oneself() {
    let server = TestServer::shared().await;
    let (alice, carol) = (server.agent("alice").await, server.register("carol").await);
    let key = Key::generate(Curve::P384);
    let login = begun(&server, &alice.identity).await;
    let issued = alice.call("auth.request_cert", &alice.identity.request_cert(&login, &key)).await;
    assert_eq!((&issued["status"], &issued["curve"]), (&json!("issued"), &json!("P-384")));
    assert_eq!(Certificate::from_pem(issued["cert"].as_str().unwrap()).unwrap().common_name(), alice.aid());
    assert_eq!(
        server.get(&format!("/pki/cert/{}", alice.aid())).await.text(),
        alice.identity.cert,
        "logins go on as before"
    );

    let again = alice.call_error("auth.request_cert", &alice.identity.request_cert(&login, &key)).await;
    assert_eq!(again["code"], -32002, "the nonce works once: {again}");
    let of_carol = carol.request_cert(&begun(&server, &carol).await, &key);
    assert_eq!(alice.call_error("auth.request_cert", &of_carol).await["code"], -32004);
    for curve in ["P-521", "P-256"] {
        let login = begun(&server, &alice.identity).await;
        let wrong = alice.identity.request_cert_on(&login, &key, curve);
        assert_eq!(alice.call_error("auth.request_cert", &wrong).await["code"], -32602, "{curve}");
    }
    let login = begun(&server, &alice.identity).await;
    let same = alice.call("auth.request_cert", &alice.identity.request_cert(&login, &key)).await;
    assert_eq!(same["cert"], issued["cert"], "the same key again is answered with the same certificate");
    let unauthenticated = alice.identity.request_cert(&begun(&server, &alice.identity).await, &key);
    assert_eq!(server.ask_error("auth.request_cert", &unauthenticated).await["code"], -32013);
}

#[tokio::test]
async fn any_certificate_can_be_downloaded_by_its_serial() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let serial = alice.certificate().serial().to_owned();
    for number in [serial.clone(), serial.to_uppercase(), format!("00{serial}")] {
        let got = server.ask("auth.download_cert", &json!({ "cert_sn": number })).await.unwrap();
        assert_eq!(got["cert"], alice.cert);
        assert_eq!(got["cert_chain"].as_array().unwrap().len(), 3);
    }
    let root = server.ask("auth.download_cert", &json!({ "cert_sn": "root" })).await.unwrap();
    assert_eq!(root["cert"].as_str(), Some(server.root().pem()));
    assert_eq!(
        server.ask_error("auth.download_cert", &json!({ "cert_sn": "0badc0de" })).await["code"],
        -32008
    );
    assert_eq!(
        server.ask_error("auth.download_cert", &json!({ "cert_sn": "not hex" })).await["code"],
        -32602
    );
}
