//! What the server shows over HTTP about itself and its certificates, to anybody who asks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{Certificate, verify_chain};
use ring::digest;
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use x509_parser::extensions::{DistributionPointName, GeneralName, ParsedExtension};
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};

use crate::support::{ISSUER, TestServer, certificates, now, within};

/// The bytes of a PEM block.
pub fn der(pem: &str) -> Vec<u8> {
    let lines: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    STANDARD.decode(lines).expect("PEM is base64")
}

/// A value of DER: its tag, its content, and what is behind it.
fn element(bytes: &[u8]) -> (u8, &[u8], &[u8]) {
    let (length, head) = match bytes[1] {
        short @ 0..0x80 => (usize::from(short), 2),
        long => {
            let digits = usize::from(long & 0x7f);
            (bytes[2..2 + digits].iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), 2 + digits)
        }
    };
    (bytes[0], &bytes[head..head + length], &bytes[head + length..])
}

/// What an OCSP answer says about one certificate.
pub struct OcspSingleResponse {
    pub status: &'static str,
    /// The hash of the issuer's key by which the certificate is named.
    pub key_hash: Vec<u8>,
    this_update: i64,
    next_update: i64,
}

/// `OCSPResponse { responseStatus, [0] { SEQUENCE { oid, OCTET STRING { BasicOCSPResponse } } } }`
fn basic_response(response: &[u8]) -> &[u8] {
    let (_, response, rest) = element(response);
    assert!(rest.is_empty());
    let (tag, status, rest) = element(response);
    assert_eq!((tag, status), (0x0a, &[0][..]), "successful");
    let (_, bytes, _) = element(element(rest).1);
    let (_, _, rest) = element(bytes);
    element(element(rest).1).1
}

/// The only answer in a response.
pub fn single_response(response: &[u8]) -> OcspSingleResponse {
    let mut all = single_responses(response);
    assert_eq!(all.len(), 1, "exactly one");
    all.remove(0)
}

/// Every `SingleResponse { certID, certStatus, thisUpdate, [0] nextUpdate }`.
pub fn single_responses(response: &[u8]) -> Vec<OcspSingleResponse> {
    let (_, mut data, _) = element(basic_response(response));
    let mut responses = loop {
        let (tag, content, rest) = element(data);
        if tag == 0x30 {
            break content;
        }
        data = rest;
    };
    let mut all = Vec::new();
    while !responses.is_empty() {
        let (_, single, rest) = element(responses);
        all.push(read_single_response(single));
        responses = rest;
    }
    all
}

fn read_single_response(single: &[u8]) -> OcspSingleResponse {
    // CertID { hashAlgorithm, issuerNameHash, issuerKeyHash, serialNumber }
    let (_, id, rest) = element(single);
    let (_, _, names) = element(id);
    let (_, _, keys) = element(names);
    let (_, key_hash, _) = element(keys);
    let (status, _, rest) = element(rest);
    let (_, this_update, rest) = element(rest);
    let (_, next_update, _) = element(element(rest).1);
    let status = match status {
        0x80 => "good",
        0xa1 => "revoked",
        0x82 => "unknown",
        other => panic!("{other:x} is no status"),
    };
    OcspSingleResponse {
        status,
        key_hash: key_hash.to_vec(),
        this_update: instant(this_update),
        next_update: instant(next_update),
    }
}

/// `20261115030000Z` in unix seconds.
fn instant(generalized: &[u8]) -> i64 {
    let text = std::str::from_utf8(generalized).expect("a time is text");
    let part = |from: usize, to: usize| &text[from..to];
    let (date, time) = ((part(0, 4), part(4, 6), part(6, 8)), (part(8, 10), part(10, 12), part(12, 14)));
    let rfc3339 = format!("{}-{}-{}T{}:{}:{}Z", date.0, date.1, date.2, time.0, time.1, time.2);
    OffsetDateTime::parse(&rfc3339, &Rfc3339).expect("a time").unix_timestamp()
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

pub fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, bytes).as_ref().to_vec()
}

/// The certificate of the server's issuer.
pub async fn issuer(server: &TestServer) -> Certificate {
    certificates(&server.get("/pki/chain").await.text()).remove(0)
}

#[tokio::test]
async fn every_host_of_the_domain_tells_where_the_gateway_is() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let wanted = format!("wss://gateway.{ISSUER}:{}/aun", server.tls_port);
    for host in [
        ISSUER,
        &format!("gateway.{ISSUER}"),
        &alice.aid,
        &format!("nobody1.{ISSUER}"),
        "127.0.0.1",
        "localhost",
    ] {
        for host in [host.to_owned(), format!("{host}:{}", server.plain_port), host.to_uppercase()] {
            let answer = server.http("GET", "/.well-known/aun-gateway").host(&host).send().await;
            assert_eq!(answer.status, 200, "{host}");
            let gateways = answer.json()["gateways"].clone();
            assert_eq!(gateways[0]["url"], wanted, "{host}");
            assert!(gateways[0]["priority"].is_number());
        }
    }
    let over_tls =
        server.http("GET", "/.well-known/aun-gateway").host(&alice.aid).over_tls(&alice.aid).send().await;
    assert_eq!(over_tls.json()["gateways"][0]["url"], wanted);
}

#[tokio::test]
async fn the_advertised_gateway_is_the_one_the_operator_configured() {
    let server = TestServer::with("public_url = \"wss://gateway.agents.localhost:4443/ws\"").await;
    let told = server.get("/.well-known/aun-gateway").await.json();
    assert_eq!(told["gateways"][0]["url"], "wss://gateway.agents.localhost:4443/ws");
}

#[tokio::test]
async fn health_is_200_while_the_server_lives() {
    let server = TestServer::shared().await;
    for (method, host) in [("GET", ISSUER), ("HEAD", "gateway.agents.localhost"), ("GET", "127.0.0.1")] {
        assert_eq!(server.http(method, "/health").host(host).send().await.status, 200);
    }
}

#[tokio::test]
async fn the_chain_is_issuer_registry_root() {
    let server = TestServer::shared().await;
    let answer = server.get("/pki/chain").await;
    assert_eq!(answer.status, 200);
    let kind = answer.header("content-type").unwrap();
    assert!(kind.starts_with("text/plain") || kind.starts_with("application/x-pem-file"), "{kind}");
    let chain = certificates(&answer.text());
    assert_eq!(chain.len(), 3);
    assert_eq!(chain[0].common_name(), ISSUER);
    for pair in chain.windows(2) {
        assert_eq!(pair[0].issuer_name_der(), pair[1].subject_name_der(), "byte for byte");
    }
    assert!(chain.iter().all(Certificate::is_ca));
    assert_eq!(chain[2], server.root());
    assert_eq!(chain[2].issuer_name_der(), chain[2].subject_name_der());
}

#[tokio::test]
async fn the_root_and_the_chain_are_where_certificates_say_they_are() {
    let server = TestServer::shared().await;
    let root = server.root();
    for (host, path) in [
        ("gateway.agents.localhost", "/pki/root.crt"),
        ("pki.agents.localhost", "/root.crt"),
        ("pki.agents.localhost", "/pki/root.crt"),
    ] {
        let answer = server.http("GET", path).host(host).send().await;
        assert_eq!((answer.status, answer.text()), (200, root.pem().to_owned()), "{host}{path}");
    }
    let chain = server.get("/pki/chain").await.text();
    let answer = server.http("GET", "/ca/cert").host(ISSUER).send().await;
    assert_eq!((answer.status, answer.text()), (200, chain));
}

#[tokio::test]
async fn a_certificate_is_there_from_the_moment_of_registration() {
    let server = TestServer::shared().await;
    let name = server.aid("alice");
    let path = format!("/pki/cert/{name}");
    for method in ["GET", "HEAD"] {
        let answer = server.http(method, &path).send().await;
        assert_eq!(answer.status, 404, "a free name");
        assert!(answer.header("x-aun-cert-consistency").is_none(), "a 404 proves nothing");
    }
    let alice = server.register("alice").await;
    assert_eq!(server.http("HEAD", &path).send().await.status, 200);
    let escaped = name.replacen('.', "%2E", 1).replace('.', "%2e");
    for name in [&name, &escaped, &name.replace("alice", "ALICE")] {
        let path = format!("/pki/cert/{name}");
        let answer = server.get(&path).await;
        assert_eq!((answer.status, answer.text()), (200, alice.cert.clone()), "{path}");
    }
    for (bad, status) in [
        ("/pki/cert/", 404),
        ("/pki/cert/%ff", 400),
        ("/pki/cert/%", 404),
        ("/pki/cert/..%2f..%2fca%2fissuer.key", 404),
        ("/pki/cert/a/b", 404),
    ] {
        assert_eq!(server.get(bad).await.status, status, "{bad}");
    }
}

#[tokio::test]
async fn a_certificate_is_found_by_every_form_of_fingerprint() {
    let server = TestServer::shared().await;
    let (alice, carol) = (server.register("alice").await, server.register("carol").await);
    let cert = alice.certificate();
    let of_der = cert.fingerprint().trim_start_matches("sha256:").to_owned();
    let of_key = cert.public_key().fingerprint();
    let forms = [
        cert.fingerprint().to_owned(),
        cert.fingerprint().replace(':', "%3A"),
        of_der.clone(),
        of_der.to_uppercase(),
        of_der[..16].to_owned(),
        of_key.clone(),
        of_key.trim_start_matches("sha256:").to_owned(),
    ];
    for form in forms {
        let answer = server.get(&format!("/pki/cert/{}?cert_fingerprint={form}", alice.aid)).await;
        assert_eq!((answer.status, answer.text()), (200, alice.cert.clone()), "{form}");
    }
    let hers = carol.certificate();
    for form in [hers.fingerprint(), "sha256:00", "nonsense", &"0".repeat(64)] {
        assert_eq!(
            server.get(&format!("/pki/cert/{}?cert_fingerprint={form}", alice.aid)).await.status,
            404,
            "{form}"
        );
    }
}

#[tokio::test]
async fn an_authoritative_read_says_what_it_saw_and_when() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let fingerprint = alice.certificate().fingerprint().to_owned();
    let path = format!("/pki/cert/{}?cert_fingerprint={fingerprint}&consistency=authoritative", alice.aid);
    let answer = server.http("GET", &path).header("Cache-Control", "no-cache").send().await;
    assert_eq!((answer.status, answer.text()), (200, alice.cert.clone()));
    assert_eq!(answer.header("x-aun-cert-consistency"), Some("authoritative"));
    assert_eq!(answer.header("x-aun-cert-lifecycle-state"), Some("active_signing"));
    assert_eq!(answer.header("x-aun-cert-fingerprint"), Some(&*fingerprint));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let observed = answer.header("x-aun-cert-observed-at").unwrap();
    assert!(observed.ends_with('Z'), "{observed}");
    let age = now() - OffsetDateTime::parse(observed, &Rfc3339).unwrap().unix_timestamp();
    assert!((-5..=30).contains(&age), "{age} seconds old");

    let group = server.get(&format!("{path}&key_purpose=group_identity")).await;
    assert_eq!(group.status, 404, "it is no group's certificate");
}

#[tokio::test]
async fn the_revocation_list_is_signed_by_the_issuer_and_fresh() {
    let server = TestServer::start().await;
    let answer = server.get("/pki/crl.json").await.json();
    assert_eq!(answer["revoked_serials"], json!([]));
    let list = der(answer["crl_pem"].as_str().unwrap());
    let (_, crl) = CertificateRevocationList::from_der(&list).unwrap();
    let issuer = issuer(&server).await;
    assert_eq!(crl.issuer().as_raw(), issuer.subject_name_der());
    assert!(issuer.public_key().verify(crl.tbs_cert_list.as_ref(), &crl.signature_value.data));
    assert!(crl.last_update().timestamp() <= now());
    assert!(crl.next_update().unwrap().timestamp() > now());
    assert_eq!(crl.iter_revoked_certificates().count(), 0);
}

#[tokio::test]
async fn ocsp_answers_to_every_spelling_of_a_serial() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let serial = alice.certificate().serial().to_owned();
    let odd = if serial.len() % 2 == 1 { serial.clone() } else { format!("0{serial}") };
    for number in [serial.clone(), odd, serial.to_uppercase(), format!("0000{serial}")] {
        let answer = server.get(&format!("/pki/ocsp/{number}")).await;
        assert_eq!(answer.status, 200, "{number}");
        assert_eq!(answer.json()["status"], "good", "{number}");
    }
    let unknown = server.get("/pki/ocsp/badc0de").await;
    assert_eq!((unknown.status, &unknown.json()["status"]), (200, &json!("unknown")));
    for (bad, status) in [("xyz", 400), ("", 404), ("-1", 400), ("f".repeat(200).as_str(), 400)] {
        assert_eq!(server.get(&format!("/pki/ocsp/{bad}")).await.status, status, "{bad}");
    }
}

#[tokio::test]
async fn an_ocsp_answer_holds_what_the_strict_clients_check() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let answer = server.get(&format!("/pki/ocsp/{}", alice.certificate().serial())).await.json();
    let response = STANDARD.decode(answer["ocsp_response"].as_str().unwrap()).unwrap();
    let issuer = issuer(&server).await;

    let basic = basic_response(&response);
    // BasicOCSPResponse { tbsResponseData, algorithm, BIT STRING }, and no certificates.
    let (_, data, rest) = element(basic);
    let signed = &basic[..basic.len() - rest.len()];
    let (_, _, rest) = element(rest);
    let (tag, signature, rest) = element(rest);
    assert_eq!((tag, rest.len()), (0x03, 0), "no certificate is embedded");
    assert!(issuer.public_key().verify(signed, &signature[1..]), "signed by the issuer itself");

    let point = &issuer.public_key().spki_der()[issuer.public_key().spki_der().len() - 97..];
    assert!(contains(data, &sha256(issuer.subject_name_der())), "issuerNameHash is SHA-256");
    assert!(contains(data, &sha256(point)), "issuerKeyHash is that of the bit string, as RFC 6960 says");
    let single = single_response(&response);
    assert_eq!((answer["status"].as_str(), single.status), (Some("good"), "good"));
    let age = now() - single.this_update;
    assert!((-5..=30).contains(&age), "made for this question, not {age} seconds ago");
    assert!(single.next_update > now());

    let unknown = server.get("/pki/ocsp/badc0de").await.json();
    let response = STANDARD.decode(unknown["ocsp_response"].as_str().unwrap()).unwrap();
    assert_eq!((unknown["status"].as_str(), single_response(&response).status), (Some("unknown"), "unknown"));
}

#[tokio::test]
async fn the_trust_list_is_signed_and_the_same_everywhere() {
    let server = TestServer::shared().await;
    let list = server.get("/pki/trust-roots.json").await.json();
    for (host, path) in [
        ("gateway.agents.localhost", "/pki/trust-roots"),
        ("gateway.agents.localhost", "/pki/trust-root.json"),
        ("pki.agents.localhost", "/trust-root.json"),
        (ISSUER, "/pki/trust-roots.json"),
    ] {
        assert_eq!(server.http("GET", path).host(host).send().await.json(), list, "{host}{path}");
    }
    let alice = server.agent("alice").await;
    assert_eq!(alice.call("meta.trust_roots", &json!({})).await, list);

    let authority = Certificate::from_pem(list["authority_cert_pem"].as_str().unwrap()).unwrap();
    assert!(certs::roots::verify(&list, authority.public_key()));
    let mut touched = list.clone();
    touched["version"] = json!(list["version"].as_u64().unwrap() + 1);
    assert!(!certs::roots::verify(&touched, authority.public_key()));
    assert!(!authority.is_ca(), "who signs the list signs no certificates");

    let instant =
        |name: &str| OffsetDateTime::parse(list[name].as_str().unwrap(), &Rfc3339).unwrap().unix_timestamp();
    assert!(instant("issued_at") <= now() + 300 && instant("next_update") > now());
    let root = &list["root_cas"][0];
    assert_eq!(root["status"], "active");
    assert_eq!(root["certificate"].as_str(), Some(server.root().pem()));
    assert_eq!(
        root["fingerprint_sha256"].as_str(),
        Some(server.root().fingerprint().trim_start_matches("sha256:"))
    );
    let (host, path) = host_and_path(root["crl_url"].as_str().expect("where the root's revocation list is"));
    let crl = server.http("GET", path).host(host).send().await.body;
    let (_, crl) = CertificateRevocationList::from_der(&crl).expect("a revocation list");
    let root_key = server.root().public_key().clone();
    assert!(root_key.verify(crl.tbs_cert_list.as_ref(), &crl.signature_value.data), "the root signed it");
    let (_, path) = host_and_path(root["ocsp_url"].as_str().expect("where to ask about a certificate"));
    assert_eq!(path, "/pki/ocsp");
}

/// The two parts of an `http` or `https` URL.
pub fn host_and_path(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).expect("a URL of HTTP");
    rest.split_at(rest.find('/').expect("a path"))
}

#[tokio::test]
async fn the_trust_list_never_grows_younger_over_a_restart() {
    let mut server = TestServer::start().await;
    let before = server.get("/pki/trust-roots.json").await.json();
    server.restart().await;
    let after = server.get("/pki/trust-roots.json").await.json();
    assert!(after["version"].as_u64() >= before["version"].as_u64());
    assert_eq!(after["root_cas"], before["root_cas"]);
}

#[tokio::test]
async fn browsers_may_read_what_is_public() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    for path in [
        "/.well-known/aun-gateway",
        "/health",
        "/pki/chain",
        "/pki/crl.json",
        &format!("/pki/cert/{}", alice.aid),
    ] {
        let answer = server.http("GET", path).header("Origin", "https://app.example").send().await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{path}");
        let exposed = answer.header("access-control-expose-headers").unwrap_or_default().to_ascii_lowercase();
        assert!(
            exposed.contains("etag") && exposed.contains("last-modified") && exposed.contains("x-aun-"),
            "{path}: {exposed}"
        );
    }
    let preflight = server
        .http("OPTIONS", "/agent.md")
        .host(&alice.aid)
        .header("Origin", "https://app.example")
        .header("Access-Control-Request-Method", "PUT")
        .send()
        .await;
    assert_eq!(preflight.status, 204);
    let methods = preflight.header("access-control-allow-methods").unwrap_or_default();
    assert!(methods.contains("PUT") && methods.contains("GET"), "{methods}");
}

#[tokio::test]
async fn a_path_that_does_not_exist_is_404_in_json_and_nothing_redirects() {
    let server = TestServer::shared().await;
    for path in [
        "/nothing",
        "/pki",
        "/pki/",
        "/pki/nothing",
        "/.well-known/nothing",
        "//health",
        "/health/",
        "/../etc/passwd",
    ] {
        let answer = server.get(path).await;
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.json(), json!({ "error": "Not found", "code": "not_found" }), "{path}");
        assert!(answer.header("location").is_none());
    }
}

#[tokio::test]
async fn a_method_that_does_not_fit_is_refused_and_nothing_breaks() {
    let server = TestServer::shared().await;
    for (method, path) in
        [("POST", "/health"), ("DELETE", "/pki/chain"), ("PUT", "/pki/root.crt"), ("PATCH", "/agent.md")]
    {
        let status = server.http(method, path).send().await.status;
        assert_eq!(status, 405, "{method} {path}");
    }
    assert_eq!(server.get("/aun").await.status, 426, "the socket's path without an upgrade");
    assert_eq!(server.get("/health").await.status, 200);
}

#[tokio::test]
async fn the_certificates_of_agents_verify_as_clients_verify_them() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let chain = certificates(&server.get("/pki/chain").await.text());
    assert_eq!(verify_chain(&alice.certificate(), &chain[..2], &[server.root()], now()), Ok(()));
    assert_eq!(alice.certificate().issuer_name_der(), chain[0].subject_name_der());
}

#[tokio::test]
async fn the_metrics_count_what_happened() {
    let server = TestServer::start().await;
    let alice = server.agent("alice").await;
    for _ in 0..3 {
        alice.call("meta.ping", &json!({})).await;
    }
    alice.call_error("no.such", &json!({})).await;
    assert_eq!(server.metric("aund_sessions ").await, 1.0);
    assert_eq!(server.metric("aund_requests_total{method=\"meta.ping\",code=\"0\"}").await, 3.0);
    assert_eq!(server.metric("aund_requests_total{method=\"unknown\",code=\"-32601\"}").await, 1.0);
    assert!(!server.metrics().await.contains("no.such"), "unknown names cannot make the table grow");
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let server = TestServer::shared().await;
    let mut stream = server.tcp().await;
    for _ in 0..3 {
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: gateway\r\n\r\n").await.unwrap();
        let mut heard = String::new();
        while !heard.ends_with("}}") {
            let mut part = [0; 1024];
            let length = within("an answer", stream.read(&mut part)).await.unwrap();
            assert!(length > 0, "the server hung up");
            heard += &String::from_utf8_lossy(&part[..length]);
        }
        assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
    }
}

#[tokio::test]
async fn what_certificates_point_to_is_there() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let mut chain = certificates(&server.get("/pki/chain").await.text());
    chain.insert(0, alice.certificate());
    let mut lists = 0;
    for (below, above) in chain.iter().zip(&chain[1..]) {
        for url in crl_urls(below) {
            let (host, path) = host_and_path(&url);
            let answer = server.http("GET", path).host(host).send().await;
            assert_eq!(answer.status, 200, "{url} of {}", below.common_name());
            let (_, list) = CertificateRevocationList::from_der(&answer.body)
                .expect("RFC 5280 wants DER behind this URL");
            assert_eq!(list.issuer().as_raw(), above.subject_name_der(), "{url}");
            assert!(
                above.public_key().verify(list.tbs_cert_list.as_ref(), &list.signature_value.data),
                "{url}"
            );
            lists += 1;
        }
    }
    assert!(lists >= 1, "an agent's certificate names its revocation list");
}

fn crl_urls(certificate: &Certificate) -> Vec<String> {
    let (_, parsed) = X509Certificate::from_der(certificate.der()).expect("a certificate");
    let mut urls = Vec::new();
    for extension in parsed.extensions() {
        let ParsedExtension::CRLDistributionPoints(points) = extension.parsed_extension() else { continue };
        for point in points.iter() {
            let Some(DistributionPointName::FullName(names)) = &point.distribution_point else { continue };
            urls.extend(names.iter().filter_map(|name| match name {
                GeneralName::URI(url) => Some((*url).to_owned()),
                _ => None,
            }));
        }
    }
    urls
}
