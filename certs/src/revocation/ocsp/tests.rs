use super::*;
use crate::dev::Pki;

const NOW: i64 = 1_800_000_000;
const HOUR: i64 = 3600;

/// The signed part of a response, and its signature.
fn parts(response: &[u8]) -> (&[u8], &[u8]) {
    let (response, rest) = der::read(der::SEQUENCE, response).unwrap();
    assert!(rest.is_empty());
    let (successful, rest) = der::read(der::ENUMERATED, response).unwrap();
    assert_eq!(successful, [0]);
    let (bytes, _) = der::read(der::context_constructed(0), rest).unwrap();
    let (bytes, _) = der::read(der::SEQUENCE, bytes).unwrap();
    let (_, bytes) = der::read(der::OID, bytes).unwrap();
    let (basic, _) = der::read(der::OCTET_STRING, bytes).unwrap();
    let (basic, _) = der::read(der::SEQUENCE, basic).unwrap();

    let (_, after) = der::read(der::SEQUENCE, basic).unwrap();
    let signed = &basic[..basic.len() - after.len()];
    let (_, after) = der::read(der::SEQUENCE, after).unwrap();
    let (signature, embedded) = der::read(der::BIT_STRING, after).unwrap();
    assert!(embedded.is_empty(), "no certificate travels along");
    (signed, &signature[1..])
}

fn count(bytes: &[u8], wanted: &[u8]) -> usize {
    bytes.windows(wanted.len()).filter(|window| *window == wanted).count()
}

#[test]
fn an_answer_is_signed_over_exactly_one_certificate() {
    let pki = Pki::new("a.test", NOW);
    let statuses = [
        OcspStatus::Good,
        OcspStatus::Unknown,
        OcspStatus::Revoked { at: NOW - 5, reason: Reason::Superseded },
    ];
    for status in statuses {
        let answer = pki.issuer.ocsp("0A1B", status, NOW, NOW + HOUR).unwrap();
        let (signed, signature) = parts(&answer);
        assert!(pki.issuer.certificate().public_key().verify(signed, signature));
        assert_eq!(count(signed, b"\x02\x02\x0a\x1b"), 1);
    }
}

#[test]
fn an_answer_by_both_key_hashes_has_each_once() {
    let pki = Pki::new("a.test", NOW);
    let status = OcspStatus::Revoked { at: NOW - 5, reason: Reason::KeyCompromise };
    let answer = pki.issuer.ocsp_by_both_key_hashes("0A1B", status, NOW, NOW + HOUR).unwrap();
    let (signed, signature) = parts(&answer);
    let key = pki.issuer.certificate().public_key();
    assert!(key.verify(signed, signature));
    for hashed in [key.point(), key.spki_der()] {
        assert_eq!(count(signed, digest::digest(&digest::SHA256, hashed).as_ref()), 1);
    }
    assert_eq!(count(signed, b"\x02\x02\x0a\x1b"), 2);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let pki = Pki::new("a.test", NOW);
    assert!(pki.issuer.ocsp("12", OcspStatus::Good, NOW, NOW).is_err());
    assert!(pki.issuer.ocsp("", OcspStatus::Good, NOW, NOW + 1).is_err());
}

#[test]
fn a_request_is_for_the_authority_whose_name_and_key_it_hashes() {
    let (pki, other) = (Pki::new("a.test", NOW), Pki::new("a.test", NOW));
    let issuer = pki.issuer.certificate();
    for (algorithm, oid) in [(&digest::SHA1_FOR_LEGACY_USE_ONLY, SHA1), (&digest::SHA256, SHA256)] {
        let hash = |bytes| digest::digest(algorithm, bytes).as_ref().to_vec();
        let asked = OcspCertificate {
            id: Vec::new(),
            hash: oid.to_vec(),
            issuer_name_hash: hash(issuer.subject_name_der()),
            issuer_key_hash: hash(issuer.public_key().point()),
            serial: Some("a1b".to_owned()),
        };
        assert_eq!(pki.issuer.asked_serial(&asked), Some("a1b"));
        assert_eq!(other.issuer.asked_serial(&asked), None, "the same name and another key");
        let unknown_hash = OcspCertificate { hash: vec![1], ..asked };
        assert_eq!(pki.issuer.asked_serial(&unknown_hash), None);
    }
}
