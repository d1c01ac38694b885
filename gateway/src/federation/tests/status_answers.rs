//! What another domain answers about the certificate of its gateway, which roots are trusted for it, and which key its
//! authority had before.

use super::dial::{fails, fails_for_good};
use super::link::code_and_reason;
use super::support::remote_gateway::good_http;
use super::support::test_ca::TestCa;
use super::support::two_domains::{THEIRS, TwoDomains};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{OcspStatus, Reason, Revoked};
use serde_json::json;
use std::sync::atomic::Ordering;

/// The OCSP answer and the list of a domain, where it has them.
type StatusAnswers = (Option<String>, Option<String>);
type MakeAnswers<'a> = Box<dyn Fn(&TwoDomains) -> StatusAnswers + 'a>;

/// What a responder answers about the certificate of the other gateway, as this authority has signed it.
pub(super) fn ocsp(domains: &TwoDomains, signer: &TestCa, status: OcspStatus) -> String {
    let (now, serial) = (domains.fed.clock.now_seconds(), serial(domains));
    let der = signer.pki.issuer.ocsp(&serial, status, now, now + 3600).unwrap();
    json!({ "status": status.as_str(), "ocsp_response": STANDARD.encode(der) }).to_string()
}

fn crl(domains: &TwoDomains, signer: &TestCa, serial: &str) -> String {
    let now = domains.fed.clock.now_seconds();
    let revoked = [Revoked { serial: serial.to_owned(), at: now, reason: Reason::KeyCompromise }];
    let crl_pem = signer.pki.issuer.crl(&revoked, 1, now, now + 3600).unwrap();
    json!({ "crl_pem": crl_pem, "revoked_serials": [serial] }).to_string()
}

fn serial(domains: &TwoDomains) -> String {
    domains.remote.fed.identity.leaf.certificate().serial().to_owned()
}

/// The other domain answers so about its certificates, and 503 where nothing is given.
pub(super) fn answer_status(domains: &TwoDomains, ocsp: Option<String>, list: Option<String>) {
    *domains.remote.http.lock() = Box::new(move |path| match path {
        path if path.starts_with("/pki/ocsp/") => {
            Some(ocsp.clone().map_or((503, String::new()), |text| (200, text)))
        }
        "/pki/crl.json" => Some(list.clone().map_or((503, String::new()), |text| (200, text))),
        path => good_http(path),
    });
}

async fn works(domains: &TwoDomains) {
    let call = domains.send("r1");
    let mut link = domains.accepted_link().await;
    let frame = link.next().await.unwrap();
    link.answer(&frame).await;
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_certificate_that_its_domain_does_not_stand_by_is_refused() {
    let forger = TestCa::new(THEIRS);
    let revoked = OcspStatus::Revoked { at: 1, reason: Reason::KeyCompromise };
    let cases: [(&str, MakeAnswers<'_>); 6] = [
        ("certificate_revoked", Box::new(|all| (Some(ocsp(all, &all.remote.ca, revoked)), None))),
        ("certificate_unknown", Box::new(|all| (Some(ocsp(all, &all.remote.ca, OcspStatus::Unknown)), None))),
        ("status_unverified", Box::new(|all| (Some(ocsp(all, &forger, OcspStatus::Good)), None))),
        ("status_unverified", Box::new(|_| (Some(json!({ "status": "good" }).to_string()), None))),
        ("certificate_revoked", Box::new(|all| (None, Some(crl(all, &all.remote.ca, &serial(all)))))),
        ("status_unverified", Box::new(|all| (None, Some(crl(all, &forger, "a1"))))),
    ];
    for (n, (reason, answers)) in cases.iter().enumerate() {
        let domains = TwoDomains::new().await;
        let (status, list) = answers(&domains);
        answer_status(&domains, status, list);
        let (error, phase) = match *reason {
            "status_unverified" => fails(&domains).await,
            _ => fails_for_good(&domains, -32010).await,
        };
        assert_eq!((code_and_reason(&error).1, phase.as_str()), (*reason, "hello"), "{n}: {error}");
    }
}

#[tokio::test]
async fn a_certificate_that_its_domain_stands_by_or_cannot_be_asked_about_is_accepted() {
    let good = TwoDomains::new().await;
    answer_status(&good, Some(ocsp(&good, &good.remote.ca, OcspStatus::Good)), None);
    works(&good).await;
    let listed = TwoDomains::new().await;
    answer_status(&listed, None, Some(crl(&listed, &listed.remote.ca, "a1")));
    works(&listed).await;
    let silent = TwoDomains::new().await;
    answer_status(&silent, None, None);
    works(&silent).await;
}

#[tokio::test]
async fn an_authority_with_another_key_than_before_is_refused_until_the_pin_is_gone() {
    let domains = TwoDomains::new().await;
    domains.our_ca.pins.lock().insert(THEIRS.to_owned(), format!("sha256:{}", "0".repeat(64)));
    let (error, phase) = fails(&domains).await;
    assert_eq!(phase, "discover", "TLS shows the other key first");
    assert!(error.to_string().contains("another key than before"), "{error}");

    domains.our_ca.pins.lock().clear();
    domains.peers().mark_reachable(THEIRS);
    works(&domains).await;
    let pinned = domains.our_ca.pins.lock().get(THEIRS).cloned();
    assert_eq!(pinned, Some(domains.remote.ca.pki.issuer.certificate().public_key().fingerprint()));
}

#[tokio::test]
async fn a_domain_that_no_root_is_trusted_for_is_not_even_connected_to() {
    let domains = TwoDomains::new().await;
    *domains.our_ca.domains.lock() = Some(vec!["third.example".to_owned()]);
    let (error, phase) = fails_for_good(&domains, -32010).await;
    assert_eq!((code_and_reason(&error).1, phase.as_str()), ("domain_untrusted", "discover"), "{error}");
    assert!(error.to_string().starts_with(&format!("{THEIRS} is not trusted: add its root")), "{error}");
    assert_eq!(domains.remote.connections.load(Ordering::SeqCst), 0);
}
