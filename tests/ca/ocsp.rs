//! The OCSP responder of RFC 6960, where certificates say that it is.

use std::fs;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::Certificate;
use ring::digest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::pki::{host_and_path, issuer, single_response};
use crate::support::domain::TestDomain;
use crate::support::{TestServer, printed, within};

/// The URL of the responder in a certificate.
fn responder_of(certificate: &Certificate) -> String {
    let (_, parsed) = X509Certificate::from_der(certificate.der()).expect("a certificate");
    let mut places = parsed.extensions().iter().filter_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityInfoAccess(access) => Some(access),
        _ => None,
    });
    let access = places.next().expect("a certificate says where to ask about it");
    let ocsp = access.accessdescs.iter().find(|it| it.access_method.to_id_string() == "1.3.6.1.5.5.7.48.1");
    match ocsp.expect("OCSP is one of the ways").access_location {
        GeneralName::URI(url) => url.to_owned(),
        ref other => panic!("{other} is no URL"),
    }
}

/// Whether OpenSSL succeeded, and all of its output.
async fn openssl(server: &TestServer, words: &str) -> (bool, String) {
    let mut command = Command::new("openssl");
    command.args(words.split_whitespace()).current_dir(server.beside("")).stdin(Stdio::null());
    let ended = within("openssl", tokio::task::spawn_blocking(move || command.output())).await;
    let output = ended.expect("the thread lives").expect("openssl was there a moment ago");
    (output.status.success(), printed(&output.stdout) + &printed(&output.stderr))
}

#[tokio::test]
async fn openssl_asks_at_the_port_that_certificates_name() {
    let domain = TestDomain::new("ocsp");
    let mut server = domain.prepared("");
    server.start_again();
    let alice = server.register("alice").await;
    let url = responder_of(&alice.certificate());
    let (host, path) = host_and_path(&url);
    assert_eq!(host, format!("gateway.{}:{}", server.issuer, server.tls_port), "it is a port of the server");
    assert!(url.starts_with("https://"), "with TLS: {url}");

    if Command::new("openssl").arg("version").output().is_err() {
        return;
    }
    let write = |name: &str, text: &str| fs::write(server.beside(name), text).expect("a file can be written");
    write("alice.pem", &alice.cert);
    write("issuer.pem", issuer(&server).await.pem());
    write("chain.pem", &server.get("/pki/chain").await.text());
    let urls = [
        format!("https://{}:{}{path}", server.host(), server.tls_port),
        format!("http://{}:{}{path}", server.host(), server.plain_port),
    ];
    // It hashes with SHA-1 where it is not told otherwise, and sends a nonce.
    let asked = |url: &str, hash: &str| {
        format!("ocsp -url {url} -issuer issuer.pem {hash} -cert alice.pem -CAfile chain.pem")
    };
    for (url, hash) in [(&urls[0], ""), (&urls[1], "-sha256")] {
        let (accepted, output) = openssl(&server, &asked(url, hash)).await;
        assert!(
            accepted && output.contains("Response verify OK") && output.contains("alice.pem: good"),
            "{output}"
        );
        assert!(!output.to_lowercase().contains("nonce"), "the nonce is repeated: {output}");
    }

    let revoked = server.aund(&["certs", "revoke", &alice.aid, "--reason", "keyCompromise"]).await;
    assert!(revoked.status.success(), "{}", printed(&revoked.stderr));
    let (accepted, output) = openssl(&server, &asked(&urls[0], "")).await;
    assert!(accepted && output.contains("Reason: keyCompromise"), "{output}");
}

fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = u8::try_from(content.len()).ok().filter(|length| *length < 0x80);
    [&[tag, length.expect("nothing here is long")][..], &content].concat()
}

/// `OCSPRequest { TBSRequest { SEQUENCE OF Request { CertID } } }` about a certificate of an issuer, named by SHA-1.
fn request(issuer_name: &[u8], issuer_key: &[u8], serial: &str) -> Vec<u8> {
    let hash = |bytes: &[u8]| der(0x04, &[digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref()]);
    let algorithm = der(0x30, &[&der(0x06, &[b"\x2b\x0e\x03\x02\x1a"]), b"\x05\x00"]);
    // Numbers of this server are positive and have all of their twenty bytes.
    let number = der(0x02, &[&hex::decode(serial).expect("a serial number is hexadecimal")]);
    let id = der(0x30, &[&algorithm, &hash(issuer_name), &hash(issuer_key), &number]);
    der(0x30, &[&der(0x30, &[&der(0x30, &[&der(0x30, &[&id])])])])
}

#[tokio::test]
async fn a_request_is_answered_in_a_body_and_in_a_path() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let (issuer, serial) = (issuer(&server).await, alice.certificate().serial().to_owned());
    let spki = issuer.public_key().spki_der();
    // The content of the bit string is the uncompressed point: 97 bytes on P-384.
    let point = &spki[spki.len() - 97..];
    let post = |request: &[u8]| {
        let kind = "application/ocsp-request";
        server.http("POST", "/pki/ocsp").header("Content-Type", kind).body(request).send()
    };

    let known = request(issuer.subject_name_der(), point, &serial);
    let encoded = STANDARD.encode(&known);
    let escaped = encoded.replace('/', "%2F").replace('+', "%2B").replace('=', "%3d");
    let answers = [
        post(&known).await,
        server.get(&format!("/pki/ocsp/{encoded}")).await,
        server.get(&format!("/pki/ocsp/{escaped}")).await,
    ];
    for answer in answers {
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/ocsp-response")));
        assert_eq!(single_response(&answer.body).status, "good");
    }
    let of_nobody = post(&request(issuer.subject_name_der(), point, "40badc0de0")).await;
    assert_eq!(single_response(&of_nobody.body).status, "unknown");
    let of_another_issuer = post(&request(issuer.subject_name_der(), spki, &serial)).await;
    assert_eq!(single_response(&of_another_issuer.body).status, "unknown");

    // OCSPResponse { malformedRequest }
    for answer in [post(b"noise").await, server.get("/pki/ocsp/MAAA").await] {
        assert_eq!((answer.status, &*answer.body), (200, &b"\x30\x03\x0a\x01\x01"[..]));
    }
}
