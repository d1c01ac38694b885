//! The table of profiles, as an independent parser reads it, and what an authority refuses.

use super::*;
use crate::{Identity, OcspStatus, Reason, Revoked, dev::Pki, verify_chain};
use x509_parser::prelude::*;

const NOW: i64 = 1_800_000_000;
const TWO_YEARS: i64 = 2 * YEAR;

fn urls() -> Urls {
    Urls {
        ca_issuers: "http://a.test/ca/cert".into(),
        ocsp: "http://gateway.a.test/pki/ocsp".into(),
        crl: "http://gateway.a.test/pki/crl.json".into(),
    }
}

fn agent(issuer: &Authority) -> Certificate {
    let key = Key::generate(Curve::P256).public();
    issuer.issue_agent("alice.a.test", &key, &urls(), NOW - 300, NOW + TWO_YEARS).unwrap()
}

/// One row of the table of profiles, as an independent parser reads it.
#[derive(Clone, Debug, PartialEq)]
struct Profile {
    subject: String,
    issuer: String,
    curve: Curve,
    ca: bool,
    path_length: Option<u32>,
    usage: String,
    access: Vec<String>,
    crl: Vec<String>,
    years: i64,
}

fn profile_of(certificate: &Certificate) -> Profile {
    let (_, parsed) = X509Certificate::from_der(certificate.der()).unwrap();
    assert_eq!(parsed.version(), X509Version::V3);
    let basic = parsed.basic_constraints().unwrap().expect("BasicConstraints is always there");
    let usage = parsed.key_usage().unwrap().expect("KeyUsage is always there");
    assert!(basic.critical && usage.critical);
    let (mut access, mut crl) = (Vec::new(), Vec::new());
    for extension in parsed.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::AuthorityInfoAccess(found) => {
                access.extend(
                    found
                        .accessdescs
                        .iter()
                        .map(|place| format!("{} {}", place.access_method, place.access_location)),
                );
            }
            ParsedExtension::CRLDistributionPoints(found) => {
                crl.extend(found.points.iter().map(|point| format!("{:?}", point.distribution_point)));
            }
            _ => continue,
        }
        assert!(!extension.critical);
    }
    Profile {
        subject: parsed.subject().to_string(),
        issuer: parsed.issuer().to_string(),
        curve: certificate.public_key().curve(),
        ca: basic.value.ca,
        path_length: basic.value.path_len_constraint,
        usage: usage.value.to_string(),
        access,
        crl,
        years: (certificate.not_after() - certificate.not_before()) / YEAR,
    }
}

fn crl(url: &str) -> Vec<String> {
    vec![format!("Some(FullName([URI({url:?})]))")]
}

const ALL_THREE: &str = "Digital Signature, Key Cert Sign, CRL Sign";
const ROOT: &str = "CN=AUN Development Root CA, O=AUN Development";
const REGISTRY: &str = "CN=AUN Registry CA Development";

#[test]
fn authorities_follow_the_table_of_profiles() {
    let pki = Pki::new("a.test", NOW);
    let root = Profile {
        subject: ROOT.into(),
        issuer: ROOT.into(),
        curve: Curve::P384,
        ca: true,
        path_length: Some(2),
        usage: ALL_THREE.into(),
        access: vec![],
        crl: vec![],
        years: 30,
    };
    let registry = Profile {
        subject: REGISTRY.into(),
        path_length: Some(1),
        usage: "Key Cert Sign, CRL Sign".into(),
        crl: crl("http://pki.a.test/root.crl"),
        years: 10,
        ..root.clone()
    };
    let issuer = Profile {
        subject: "CN=a.test".into(),
        issuer: REGISTRY.into(),
        path_length: Some(0),
        usage: ALL_THREE.into(),
        access: vec!["1.3.6.1.5.5.7.48.2 URI(http://a.test/ca/cert)".into()],
        crl: crl("http://pki.a.test/registry.crl"),
        ..registry.clone()
    };
    assert_eq!(profile_of(pki.root.certificate()), root);
    assert_eq!(profile_of(pki.registry.certificate()), registry);
    assert_eq!(profile_of(pki.issuer.certificate()), issuer);
}

#[test]
fn leaves_follow_the_table_of_profiles() {
    let pki = Pki::new("a.test", NOW);
    let leaf = Profile {
        subject: "CN=alice.a.test".into(),
        issuer: "CN=a.test".into(),
        curve: Curve::P256,
        ca: false,
        path_length: None,
        usage: "Digital Signature".into(),
        access: vec![
            "1.3.6.1.5.5.7.48.1 URI(http://gateway.a.test/pki/ocsp)".into(),
            "1.3.6.1.5.5.7.48.2 URI(http://a.test/ca/cert)".into(),
        ],
        crl: crl("http://gateway.a.test/pki/crl.json"),
        years: 2,
    };
    assert_eq!(profile_of(&agent(&pki.issuer)), leaf);

    let key = Key::generate(Curve::P384).public();
    let service = pki.issuer.issue_service("auth.a.test", &key, &[], &[], &urls(), NOW, NOW + TWO_YEARS);
    let expected = Profile { subject: "CN=auth.a.test".into(), curve: Curve::P384, ..leaf };
    assert_eq!(profile_of(&service.unwrap()), expected);
}

#[test]
fn key_identifiers_link_every_level_and_the_hash_follows_the_signer() {
    let pki = Pki::new("a.test", NOW);
    let leaf = agent(&pki.issuer);
    let levels = [&leaf, pki.issuer.certificate(), pki.registry.certificate(), pki.root.certificate()];
    let signers = [levels[1], levels[2], levels[3], levels[3]];
    for (certificate, signer) in levels.into_iter().zip(signers) {
        let (_, parsed) = X509Certificate::from_der(certificate.der()).unwrap();
        let authority = parsed.iter_extensions().find_map(|found| match found.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(found) => found.key_identifier.clone(),
            _ => None,
        });
        assert_eq!(authority.unwrap().0, signer.subject_key_identifier().unwrap());
        assert!(certificate.subject_key_identifier().is_some());
        assert_eq!(parsed.signature_algorithm.algorithm.to_id_string(), "1.2.840.10045.4.3.3");
        assert_eq!(certificate.issuer_name_der(), signer.subject_name_der());
        assert!(certificate.is_signed_by(signer.public_key()));
    }
}

#[test]
fn a_service_with_names_can_serve_tls() {
    let pki = Pki::new("a.test", NOW);
    let key = Key::generate(Curve::P256).public();
    let names = ["gateway.a.test".to_owned(), "*.a.test".to_owned()];
    let ips = ["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()];
    let service =
        pki.issuer.issue_service("gateway.a.test", &key, &names, &ips, &urls(), NOW, NOW + YEAR).unwrap();
    let (_, parsed) = X509Certificate::from_der(service.der()).unwrap();
    let usage = parsed.extended_key_usage().unwrap().unwrap();
    assert!(usage.value.server_auth && !usage.critical);
    let alternatives = parsed.subject_alternative_name().unwrap().unwrap();
    assert_eq!(alternatives.value.general_names.len(), 4);
    assert!(!alternatives.critical);

    let plain = agent(&pki.issuer);
    let (_, parsed) = X509Certificate::from_der(plain.der()).unwrap();
    assert!(parsed.extended_key_usage().unwrap().is_none());
    assert!(parsed.subject_alternative_name().unwrap().is_none());
}

#[test]
fn the_authority_of_a_mesh_is_cheap_to_verify() {
    let mesh = Authority::mesh("mesh.internal", "aund mesh", NOW);
    let key = Key::generate(Curve::P256).public();
    let name = "message.mesh.internal".to_owned();
    let process = mesh.issue_mesh(&name, &key, std::slice::from_ref(&name), NOW, NOW + TWO_YEARS).unwrap();
    for certificate in [mesh.certificate(), &process] {
        let (_, parsed) = X509Certificate::from_der(certificate.der()).unwrap();
        assert_eq!(parsed.signature_algorithm.algorithm.to_id_string(), "1.2.840.10045.4.3.2");
    }
    assert!(mesh.certificate().is_ca() && !process.is_ca());
}

#[test]
fn an_authority_that_is_read_again_writes_the_same_name() {
    let root = Authority::root("Würzel & Söhne", "Örg, Inc.", NOW);
    let reloaded = Authority::from_pem(root.certificate().pem(), &root.key_pem()).unwrap();
    let registry = reloaded.registry("Registry", "http://a/crl", NOW).unwrap();
    assert_eq!(registry.certificate().issuer_name_der(), root.certificate().subject_name_der());

    let pki = Pki::new("a.test", NOW);
    let reloaded = Authority::from_pem(pki.issuer.certificate().pem(), &pki.issuer.key_pem()).unwrap();
    let (before, after) = (agent(&pki.issuer), agent(&reloaded));
    assert_eq!(before.issuer_name_der(), after.issuer_name_der());
    assert_eq!(after.issuer_name_der(), pki.issuer.certificate().subject_name_der());
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let pki = Pki::new("a.test", NOW);
    let error = Authority::from_pem(pki.issuer.certificate().pem(), &pki.root.key_pem()).unwrap_err();
    assert_eq!(error.to_string(), "the key does not belong to the certificate of a.test");

    let key = Key::generate(Curve::P256);
    let leaf = pki.issuer.issue_agent("alice.a.test", &key.public(), &urls(), NOW, NOW + YEAR).unwrap();
    assert!(Identity::from_pem(leaf.pem(), &Key::generate(Curve::P256).to_pem()).is_err());
    let alice = Identity::from_pem(leaf.pem(), &key.to_pem()).unwrap();
    assert!(leaf.public_key().verify(b"hello", &alice.sign(b"hello")));
    let error = Authority::from_pem(leaf.pem(), &key.to_pem()).unwrap_err();
    assert_eq!(error, CertError::NotACa("alice.a.test".into()));
}

#[test]
fn an_issuer_may_not_sign_another_authority() {
    let pki = Pki::new("a.test", NOW);
    assert!(matches!(pki.issuer.registry("x", "http://a/crl", NOW), Err(CertError::PathLength(_))));
    assert!(matches!(pki.registry.registry("x", "http://a/crl", NOW), Err(CertError::PathLength(_))));
}

#[test]
fn serial_numbers_are_long_positive_and_never_the_same() {
    let serials: std::collections::HashSet<Vec<u8>> = (0..1000).map(|_| random_serial().to_bytes()).collect();
    assert_eq!(serials.len(), 1000);
    assert!(serials.iter().all(|bytes| bytes.len() == 20 && (0x40..0x80).contains(&bytes[0])));
    let pki = Pki::new("a.test", NOW);
    assert_eq!(agent(&pki.issuer).serial().len(), 40);
}

#[test]
fn a_leaf_does_not_outlive_its_issuer() {
    let pki = Pki::new("a.test", NOW);
    let key = Key::generate(Curve::P256).public();
    let leaf = pki.issuer.issue_agent("alice.a.test", &key, &urls(), NOW, NOW + 40 * YEAR).unwrap();
    assert_eq!(leaf.not_after(), pki.issuer.certificate().not_after());
    let late = pki.issuer.issue_agent("alice.a.test", &key, &urls(), NOW + 11 * YEAR, NOW + 12 * YEAR);
    assert!(matches!(late, Err(CertError::Validity(..))));
}

#[test]
fn names_and_urls_that_are_not_valid_are_refused() {
    let pki = Pki::new("a.test", NOW);
    let key = Key::generate(Curve::P256).public();
    let issue = |name: &str, urls: &Urls| pki.issuer.issue_agent(name, &key, urls, NOW, NOW + YEAR);
    assert!(matches!(issue("", &urls()), Err(CertError::Name(_))));
    assert!(matches!(issue("a\0b", &urls()), Err(CertError::Name(_))));
    let umlaut = Urls { ocsp: "http://ä.test".into(), ..urls() };
    assert!(matches!(issue("alice.a.test", &umlaut), Err(CertError::Url(_))));
    let empty = Urls { crl: String::new(), ..urls() };
    assert!(matches!(issue("alice.a.test", &empty), Err(CertError::Url(_))));
    let names = ["ä.test".to_owned()];
    let service = pki.issuer.issue_service("auth.a.test", &key, &names, &[], &urls(), NOW, NOW + YEAR);
    assert!(matches!(service, Err(CertError::Name(_))));
}

/// A CA on P-256, as another tool might have made it.
fn small_authority() -> Authority {
    let key = Key::generate(Curve::P256);
    let mut params =
        ca_profile(0, &[KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign], NOW - 60, NOW + YEAR)
            .expect("the times are fine");
    params.distinguished_name = distinguished_name("small.test");
    let made = params.self_signed(&key).expect("a root signs itself");
    let certificate = Certificate::from_der(made.der()).expect("a root just made can be read");
    Authority::from_pem(certificate.pem(), &key.to_pem()).expect("a root just made is an authority")
}

#[test]
fn an_authority_on_p256_signs_everything_with_sha256() {
    let small = small_authority();
    let leaf = agent(&small);
    let (_, parsed) = X509Certificate::from_der(leaf.der()).unwrap();
    assert_eq!(parsed.signature_algorithm.algorithm.to_id_string(), "1.2.840.10045.4.3.2");
    assert_eq!(verify_chain(&leaf, &[], &[small.certificate().clone()], NOW), Ok(()));

    let revoked = [Revoked { serial: leaf.serial().into(), at: NOW, reason: Reason::Superseded }];
    assert!(small.crl(&revoked, 1, NOW, NOW + 60).is_ok());
    let answer = small.ocsp(leaf.serial(), OcspStatus::Good, NOW, NOW + 60).unwrap();
    // ecdsa-with-SHA256 is what the answer says of its signature.
    assert!(answer.windows(8).any(|bytes| bytes == b"\x2a\x86\x48\xce\x3d\x04\x03\x02"));
}

#[test]
fn authorities_and_identities_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Authority>();
    shared::<Identity>();
}
