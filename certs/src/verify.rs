//! Does a leaf lead to a root, at a time?
//!
//! We find the path by names that are equal byte for byte, and check what the SDKs check on top of `webpki`: key usage,
//! and the validity, path length and constraints of the root too. The signatures, each with the hash that the
//! signer's curve demands, and everything else about the path are `webpki`'s to judge.

use std::time::Duration;

use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert, ring as algorithms};

use crate::Certificate;

/// A real chain has three authorities; more than this can only be an attack.
const LONGEST_PATH: usize = 8;

/// Why a chain is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// One of the certificates is past its end.
    #[error("the certificate of {0} has expired")]
    Expired(String),
    /// One of the certificates is not valid yet.
    #[error("the certificate of {0} is not valid yet")]
    NotYetValid(String),
    /// Nobody we know has the name of the issuer.
    #[error("the issuer of {0} is not known")]
    UnknownIssuer(String),
    /// Somebody has the name of the issuer, but did not sign this.
    #[error("the signature on the certificate of {0} is not its issuer's")]
    BadSignature(String),
    /// A certificate signed another without being a CA.
    #[error("the certificate of {0} is not that of a CA")]
    NotACa(String),
    /// A CA certificate where a leaf should be.
    #[error("the certificate of {0} is that of a CA, not of an agent or service")]
    NotALeaf(String),
    /// More authorities below one than it allows.
    #[error("there are more authorities below {0} than it allows")]
    PathLength(String),
    /// A leaf that must not sign, or a CA that must not sign certificates.
    #[error("the key usage of {0} does not allow this")]
    KeyUsage(String),
    /// An extension that we must understand, and do not.
    #[error("the certificate of {0} has a critical extension that is not known")]
    CriticalExtension(String),
    /// The chain is malformed in another way.
    #[error("the chain is malformed: {0}")]
    Malformed(String),
}

/// Finds the path from `leaf` through `intermediates` to one of `roots`, and checks all of it at the time `at`.
pub fn verify_chain(
    leaf: &Certificate,
    intermediates: &[Certificate],
    roots: &[Certificate],
    at: i64,
) -> Result<(), ChainError> {
    verified_path(leaf, intermediates, roots, at).map(drop)
}

/// The same, and the authorities above `leaf`: the one that signed it first, and the root last.
pub fn verified_path<'a>(
    leaf: &'a Certificate,
    intermediates: &'a [Certificate],
    roots: &'a [Certificate],
    at: i64,
) -> Result<Vec<&'a Certificate>, ChainError> {
    check_leaf(leaf, at)?;
    let path = find_path(leaf, intermediates, roots, at)?;
    for (below, authority) in path.iter().enumerate() {
        check_authority(authority, below, at)?;
    }
    check_path(leaf, &path, at)?;
    Ok(path)
}

/// The authorities above `leaf`, the nearest first and the root last, by their names.
fn find_path<'a>(
    leaf: &'a Certificate,
    intermediates: &'a [Certificate],
    roots: &'a [Certificate],
    at: i64,
) -> Result<Vec<&'a Certificate>, ChainError> {
    let mut path = Vec::new();
    let mut current = leaf;
    while path.len() < LONGEST_PATH {
        if let Some(root) = find_issuer(current, roots, &path, at) {
            path.push(root);
            return Ok(path);
        }
        let unknown = || ChainError::UnknownIssuer(current.common_name().to_owned());
        current = find_issuer(current, intermediates, &path, at).ok_or_else(unknown)?;
        path.push(current);
    }
    Err(ChainError::Malformed(format!("it is longer than {LONGEST_PATH} certificates")))
}

/// "Exact DN equality": two spellings of one name are two names. No certificate is twice in a path, so that authorities which
/// name each other do not lead in a circle, with signatures to check at every step.
fn find_issuer<'a>(
    certificate: &Certificate,
    among: &'a [Certificate],
    path: &[&Certificate],
    at: i64,
) -> Option<&'a Certificate> {
    let mut namesakes = among.iter().filter(|candidate| {
        candidate.subject_name_der() == certificate.issuer_name_der()
            && *candidate != certificate
            && !path.contains(candidate)
    });
    let first = namesakes.next()?;
    let others: Vec<_> = namesakes.collect();
    if others.is_empty() {
        return Some(first);
    }
    // While an authority is renewed there are two of its name: the one that signed this counts, and of two with
    // the same key the one that is valid.
    let rank = |candidate: &&Certificate| {
        (!certificate.is_signed_by(candidate.public_key()), check_common(candidate, at).is_err())
    };
    [first].into_iter().chain(others).min_by_key(rank)
}

fn check_leaf(leaf: &Certificate, at: i64) -> Result<(), ChainError> {
    check_common(leaf, at)?;
    let name = || leaf.common_name().to_owned();
    if leaf.is_ca() {
        return Err(ChainError::NotALeaf(name()));
    }
    if leaf.constraints().key_usage.is_some_and(|usage| !usage.digital_signature()) {
        return Err(ChainError::KeyUsage(name()));
    }
    Ok(())
}

/// `below` counts the authorities between this one and the leaf.
fn check_authority(authority: &Certificate, below: usize, at: i64) -> Result<(), ChainError> {
    check_common(authority, at)?;
    let name = || authority.common_name().to_owned();
    let constraints = authority.constraints();
    if !constraints.ca {
        return Err(ChainError::NotACa(name()));
    }
    if constraints.key_usage.is_some_and(|usage| !usage.key_cert_sign()) {
        return Err(ChainError::KeyUsage(name()));
    }
    if constraints.path_length.is_some_and(|service| below as u64 > u64::from(service)) {
        return Err(ChainError::PathLength(name()));
    }
    Ok(())
}

fn check_common(certificate: &Certificate, at: i64) -> Result<(), ChainError> {
    let name = || certificate.common_name().to_owned();
    if at < certificate.not_before() {
        return Err(ChainError::NotYetValid(name()));
    }
    if at > certificate.not_after() {
        return Err(ChainError::Expired(name()));
    }
    if certificate.constraints().unknown_critical {
        return Err(ChainError::CriticalExtension(name()));
    }
    Ok(())
}

/// Asks `webpki` about the path that we found, once every signature in it is known to be good: a forged chain costs each of its
/// signatures once, and mostly only one of them.
fn check_path(leaf: &Certificate, path: &[&Certificate], at: i64) -> Result<(), ChainError> {
    if let Some(forged) = forged(leaf, path) {
        return Err(forged);
    }
    let ders: Vec<CertificateDer<'_>> = path.iter().map(|certificate| certificate.der().into()).collect();
    let Some((root, intermediates)) = ders.split_last() else {
        return Err(ChainError::UnknownIssuer(leaf.common_name().to_owned()));
    };
    let at = u64::try_from(at).map_err(|_| ChainError::Malformed("the time is before 1970".to_owned()))?;
    let anchor = anchor_from_trusted_cert(root).map_err(malformed)?;
    let leaf_der = CertificateDer::from(leaf.der());
    // The protocol does not look at the extended key usage; a service that also serves TLS has it there.
    let usage = if leaf.constraints().server { KeyUsage::server_auth() } else { KeyUsage::client_auth() };
    let (end_entity, anchors) = (EndEntityCert::try_from(&leaf_der).map_err(malformed)?, [anchor]);
    let verified = end_entity.verify_for_usage(
        // One hash for each curve: "a P-384 CA must sign with SHA-384, a P-256 CA with SHA-256".
        &[algorithms::ECDSA_P256_SHA256, algorithms::ECDSA_P384_SHA384],
        &anchors,
        intermediates,
        UnixTime::since_unix_epoch(Duration::from_secs(at)),
        usage,
        None,
        None,
    );
    verified.map(drop).map_err(malformed)
}

/// A certificate in the path that its issuer did not sign. The root is the only one that nobody can make up, so what is right
/// below it is looked at first, and then the leaf and what is above it.
fn forged(leaf: &Certificate, path: &[&Certificate]) -> Option<ChainError> {
    let pairs: Vec<_> = std::iter::once(&leaf).chain(path).zip(path).collect();
    let (below_root, others) = pairs.split_last()?;
    let mut all = std::iter::once(below_root).chain(others);
    let (forged, _) = all.find(|(signed, signer)| !signed.is_signed_by(signer.public_key()))?;
    Some(ChainError::BadSignature(forged.common_name().to_owned()))
}

fn malformed(error: webpki::Error) -> ChainError {
    ChainError::Malformed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Authority, Curve, Key, Urls, dev::Pki};
    use rcgen::{
        BasicConstraints, CertificateParams, CustomExtension, DnType, IsCa, Issuer, KeyUsagePurpose,
    };

    const NOW: i64 = 1_800_000_000;
    const DAY: i64 = 24 * 3600;

    fn urls() -> Urls {
        Urls { ca_issuers: "http://a/ca".into(), ocsp: "http://a/ocsp".into(), crl: "http://a/crl".into() }
    }

    fn alice(issuer: &Authority) -> Certificate {
        let key = Key::generate(Curve::P256).public();
        issuer.issue_agent("alice.a.test", &key, &urls(), NOW - 60, NOW + DAY).unwrap()
    }

    /// Certificates that no Authority of ours would issue.
    fn made(signer: &Authority, key: &Key, change: impl FnOnce(&mut CertificateParams)) -> Certificate {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "made.a.test");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
        change(&mut params);
        let issuer = Issuer::from_ca_cert_der(&signer.certificate().der().into(), signer.key()).unwrap();
        Certificate::from_der(params.signed_by(key, &issuer).unwrap().der()).unwrap()
    }

    fn chain(pki: &Pki) -> [Certificate; 2] {
        [pki.issuer.certificate().clone(), pki.registry.certificate().clone()]
    }

    fn verify(pki: &Pki, leaf: &Certificate, at: i64) -> Result<(), ChainError> {
        verify_chain(leaf, &chain(pki), &[pki.root.certificate().clone()], at)
    }

    #[test]
    fn a_leaf_leads_to_its_root_whatever_the_order_of_the_intermediates() {
        let pki = Pki::new("a.test", NOW);
        let leaf = alice(&pki.issuer);
        let [issuer, registry] = chain(&pki);
        let root = [pki.root.certificate().clone()];
        assert_eq!(verify_chain(&leaf, &[issuer.clone(), registry.clone()], &root, NOW), Ok(()));
        assert_eq!(verify_chain(&leaf, &[registry, issuer.clone(), root[0].clone()], &root, NOW), Ok(()));
        assert_eq!(verify_chain(&leaf, &[], &[issuer], NOW), Ok(()), "an issuer may be trusted by itself");
    }

    #[test]
    fn a_service_that_serves_tls_verifies_too() {
        let pki = Pki::new("a.test", NOW);
        let key = Key::generate(Curve::P384).public();
        let names = ["gateway.a.test".to_owned()];
        for dns_names in [&names[..], &[]] {
            let service =
                pki.issuer.issue_service("gateway.a.test", &key, dns_names, &[], &urls(), NOW, NOW + DAY);
            assert_eq!(verify(&pki, &service.unwrap(), NOW), Ok(()));
        }
    }

    #[test]
    fn time_is_exact_at_both_ends() {
        let pki = Pki::new("a.test", NOW);
        let leaf = alice(&pki.issuer);
        assert_eq!(verify(&pki, &leaf, leaf.not_before()), Ok(()));
        assert_eq!(verify(&pki, &leaf, leaf.not_after()), Ok(()));
        let name = || "alice.a.test".to_owned();
        assert_eq!(verify(&pki, &leaf, leaf.not_before() - 1), Err(ChainError::NotYetValid(name())));
        assert_eq!(verify(&pki, &leaf, leaf.not_after() + 1), Err(ChainError::Expired(name())));
    }

    #[test]
    fn an_expired_root_ends_the_chain() {
        let root = Authority::root("Old Root", "Old", NOW - 30 * 365 * DAY);
        let key = Key::generate(Curve::P256).public();
        let leaf = root.issue_agent("alice.a.test", &key, &urls(), NOW - DAY, NOW).unwrap();
        let late = root.certificate().not_after();
        let forever = made(&root, &Key::generate(Curve::P256), |_| ());
        assert!(leaf.not_after() <= late, "a leaf does not outlive its signer");
        let verdict = verify_chain(&forever, &[], &[root.certificate().clone()], late + 1);
        assert_eq!(verdict, Err(ChainError::Expired("Old Root".into())));
    }

    #[test]
    fn another_root_is_unknown_and_one_of_the_same_name_does_not_verify() {
        let (ours, theirs) = (Pki::new("a.test", NOW), Pki::new("b.test", NOW));
        let leaf = alice(&theirs.issuer);
        assert_eq!(verify(&ours, &leaf, NOW), Err(ChainError::UnknownIssuer("alice.a.test".into())));

        let namesake = Pki::new("a.test", NOW);
        let leaf = alice(&namesake.issuer);
        assert_eq!(verify(&ours, &leaf, NOW), Err(ChainError::BadSignature("alice.a.test".into())));
        // The whole foreign chain, its root included, does not help: only the trusted root counts.
        let mut all = chain(&namesake).to_vec();
        all.push(namesake.root.certificate().clone());
        let verdict = verify_chain(&leaf, &all, &[ours.root.certificate().clone()], NOW);
        assert!(matches!(verdict, Err(ChainError::BadSignature(_))), "{verdict:?}");
        assert!(matches!(verify_chain(&leaf, &all, &[], NOW), Err(ChainError::UnknownIssuer(_))));
    }

    #[test]
    fn a_changed_byte_breaks_the_signature() {
        let pki = Pki::new("a.test", NOW);
        let mut der = alice(&pki.issuer).der().to_vec();
        let name = der.windows(5).position(|window| window == b"alice").unwrap();
        der[name..name + 5].copy_from_slice(b"clara");
        let forged = Certificate::from_der(&der).unwrap();
        assert_eq!(verify(&pki, &forged, NOW), Err(ChainError::BadSignature("clara.a.test".into())));
    }

    #[test]
    fn of_two_authorities_with_one_name_the_signer_counts() {
        let pki = Pki::new("a.test", NOW);
        let renewed = pki.registry.issuer("a.test", "http://a/ca", "http://a/crl", NOW).unwrap();
        let root = [pki.root.certificate().clone()];
        let [old, registry] = chain(&pki);
        let all = [old, renewed.certificate().clone(), registry];
        assert_eq!(verify_chain(&alice(&pki.issuer), &all, &root, NOW), Ok(()));
        assert_eq!(verify_chain(&alice(&renewed), &all, &root, NOW), Ok(()));
    }

    #[test]
    fn a_leaf_signs_no_other_leaf() {
        let pki = Pki::new("a.test", NOW);
        let key = Key::generate(Curve::P256);
        let bob = pki.issuer.issue_agent("made.a.test", &key.public(), &urls(), NOW, NOW + DAY).unwrap();
        let params = CertificateParams::default();
        let bob_as_issuer = Issuer::from_ca_cert_der(&bob.der().into(), &key).unwrap();
        let der = params.signed_by(&Key::generate(Curve::P256), &bob_as_issuer).unwrap();
        let victim = Certificate::from_der(der.der()).unwrap();
        let [issuer, registry] = chain(&pki);
        let verdict = verify_chain(&victim, &[bob, issuer, registry], &[pki.root.certificate().clone()], NOW);
        assert_eq!(verdict, Err(ChainError::NotACa("made.a.test".into())));
    }

    #[test]
    fn an_issuer_signs_no_other_issuer() {
        let pki = Pki::new("a.test", NOW);
        let key = Key::generate(Curve::P384);
        let below = made(&pki.issuer, &key, |params| {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        });
        let below = Authority::from_pem(below.pem(), &key.to_pem()).unwrap();
        let [issuer, registry] = chain(&pki);
        let all = [below.certificate().clone(), issuer, registry];
        let verdict = verify_chain(&alice(&below), &all, &[pki.root.certificate().clone()], NOW);
        assert_eq!(verdict, Err(ChainError::PathLength("a.test".into())));
    }

    #[test]
    fn key_usage_and_critical_extensions_are_looked_at() {
        let pki = Pki::new("a.test", NOW);
        let key = Key::generate(Curve::P256);
        let mute = made(&pki.issuer, &key, |params| params.key_usages = vec![KeyUsagePurpose::KeyAgreement]);
        assert_eq!(verify(&pki, &mute, NOW), Err(ChainError::KeyUsage("made.a.test".into())));

        let strange = made(&pki.issuer, &key, |params| {
            let mut extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99999, 1], vec![5, 0]);
            extension.set_criticality(true);
            params.custom_extensions = vec![extension];
        });
        assert_eq!(verify(&pki, &strange, NOW), Err(ChainError::CriticalExtension("made.a.test".into())));
    }

    #[test]
    fn a_ca_without_the_right_to_sign_certificates_is_refused() {
        let pki = Pki::new("a.test", NOW);
        let key = Key::generate(Curve::P384);
        let below = made(&pki.registry, &key, |params| {
            params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
            params.key_usages = vec![KeyUsagePurpose::CrlSign];
        });
        assert!(Authority::from_pem(below.pem(), &key.to_pem()).is_err());
        let params = CertificateParams::default();
        let issuer = Issuer::from_ca_cert_der(&below.der().into(), &key).unwrap();
        let leaf = params.signed_by(&Key::generate(Curve::P256), &issuer).unwrap();
        let leaf = Certificate::from_der(leaf.der()).unwrap();
        let all = [below, pki.registry.certificate().clone()];
        let verdict = verify_chain(&leaf, &all, &[pki.root.certificate().clone()], NOW);
        assert_eq!(verdict, Err(ChainError::KeyUsage("made.a.test".into())));
    }

    #[test]
    fn an_authority_is_no_leaf() {
        let pki = Pki::new("a.test", NOW);
        let verdict = verify(&pki, pki.issuer.certificate(), NOW);
        assert_eq!(verdict, Err(ChainError::NotALeaf("a.test".into())));
    }
}
