//! What an authority answers about its own certificates, read by others: an OCSP response (RFC 6960) and a revocation list
//! (RFC 5280). Both count only with the signature of that authority, and while they are fresh.

use std::collections::HashSet;

use ring::digest;
use time::{Date, Month};
use x509_parser::prelude::{CertificateRevocationList, FromDer};

use crate::{
    Certificate,
    certificate::parse_serial,
    encoding::der,
    encoding::pem,
    revocation::ocsp::{SHA1, SHA256},
    revocation::ocsp_request::OcspCertificate,
};

/// How far the clocks of two domains may differ.
const SKEW_SECONDS: i64 = 300;
/// An answer that does not say until when it counts, counts for so long.
const UNSAID_SECONDS: i64 = 24 * 3600;

/// What a verified OCSP response says about a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifiedStatus {
    /// The authority issued it, and has not revoked it.
    Good,
    /// The authority has revoked it.
    Revoked,
    /// The authority does not know it.
    Unknown,
}

/// Why an answer about certificates does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevocationAnswerError {
    /// It cannot be read.
    #[error("it is malformed")]
    Malformed,
    /// The responder says that it cannot answer.
    #[error("the responder does not answer the question")]
    NoAnswer,
    /// Somebody else signed it.
    #[error("it is not signed by the authority of the certificate")]
    Signature,
    /// It is about other certificates.
    #[error("it is not about the certificate")]
    AnotherCertificate,
    /// It is too old, or from the future.
    #[error("it is not fresh")]
    Stale,
}
use RevocationAnswerError::{AnotherCertificate, Malformed, NoAnswer, Signature, Stale};

/// The status of the certificate with this serial number, as its authority has signed it.
pub fn verify_ocsp(
    authority: &Certificate,
    serial: &str,
    response: &[u8],
    at: i64,
) -> Result<VerifiedStatus, RevocationAnswerError> {
    let basic = basic_response(response)?;
    let (data, after) = der::read(der::SEQUENCE, basic).ok_or(Malformed)?;
    let signed = &basic[..basic.len() - after.len()];
    let (_algorithm, after) = der::read(der::SEQUENCE, after).ok_or(Malformed)?;
    let (signature, _certificates) = der::read(der::BIT_STRING, after).ok_or(Malformed)?;
    // The first byte counts the bits of the last one that are unused.
    let Some((0, signature)) = signature.split_first() else { return Err(Malformed) };
    if !authority.public_key().verify(signed, signature) {
        return Err(Signature);
    }
    let mut answers = single_responses(data).ok_or(Malformed)?;
    let mut found = Vec::new();
    while !answers.is_empty() {
        let (single, rest) = der::read(der::SEQUENCE, answers).ok_or(Malformed)?;
        answers = rest;
        let certificate = OcspCertificate::read(single).ok_or(Malformed)?;
        if is_about(&certificate, authority, serial) {
            found.push(status(&single[certificate.id.len()..], at)?);
        }
    }
    // The worst of several answers counts.
    for worst in [VerifiedStatus::Revoked, VerifiedStatus::Unknown, VerifiedStatus::Good] {
        if found.contains(&worst) {
            return Ok(worst);
        }
    }
    Err(AnotherCertificate)
}

/// The serial numbers in a revocation list that this authority has signed.
pub fn verify_crl(
    authority: &Certificate,
    text: &str,
    at: i64,
) -> Result<HashSet<String>, RevocationAnswerError> {
    let der = pem::decode("X509 CRL", text).ok_or(Malformed)?;
    let (rest, list) = CertificateRevocationList::from_der(&der).map_err(|_| Malformed)?;
    if !rest.is_empty() {
        return Err(Malformed);
    }
    let own = list.issuer().as_raw() == authority.subject_name_der();
    if !own || !authority.public_key().verify(list.tbs_cert_list.as_ref(), &list.signature_value.data) {
        return Err(Signature);
    }
    let until = list.next_update().map(|time| time.timestamp());
    check_fresh(list.last_update().timestamp(), until, at)?;
    let serials = list.iter_revoked_certificates();
    Ok(serials.filter_map(|entry| parse_serial(&entry.user_certificate.to_str_radix(16))).collect())
}

/// The content of the BasicOCSPResponse in an OCSPResponse that answers.
fn basic_response(response: &[u8]) -> Result<&[u8], RevocationAnswerError> {
    let (response, behind) = der::read(der::SEQUENCE, response).ok_or(Malformed)?;
    let (outcome, rest) = der::read(der::ENUMERATED, response).ok_or(Malformed)?;
    if outcome != [0] {
        return Err(NoAnswer);
    }
    let content = || {
        let (bytes, _) = der::read(der::context_constructed(0), rest)?;
        let (bytes, _) = der::read(der::SEQUENCE, bytes)?;
        let (_kind, bytes) = der::read(der::OID, bytes)?;
        let (bytes, _) = der::read(der::OCTET_STRING, bytes)?;
        der::read(der::SEQUENCE, bytes).map(|(basic, _)| basic)
    };
    content().filter(|_| behind.is_empty()).ok_or(Malformed)
}

/// The list in `ResponseData ::= SEQUENCE { version [0], responderID, producedAt, responses, extensions [1] }`, of which this
/// is the content.
fn single_responses(data: &[u8]) -> Option<&[u8]> {
    let data = der::read(der::context_constructed(0), data).map_or(data, |(_version, rest)| rest);
    let by_name = der::read(der::context_constructed(1), data);
    let (_responder, data) = by_name.or_else(|| der::read(der::context_constructed(2), data))?;
    let (_produced, data) = der::read(der::GENERALIZED_TIME, data)?;
    der::read(der::SEQUENCE, data).map(|(responses, _extensions)| responses)
}

/// Whether a CertID means the certificate of this authority with this number. Some responders hash the whole
/// SubjectPublicKeyInfo instead of the key in it.
fn is_about(certificate: &OcspCertificate, authority: &Certificate, serial: &str) -> bool {
    let algorithm = match certificate.hash.as_slice() {
        oid if oid == SHA1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        oid if oid == SHA256 => &digest::SHA256,
        _ => return false,
    };
    let is_hash = |hash: &[u8], bytes: &[u8]| digest::digest(algorithm, bytes).as_ref() == hash;
    let key = authority.public_key();
    certificate.serial.as_deref() == Some(serial)
        && is_hash(&certificate.issuer_name_hash, authority.subject_name_der())
        && (is_hash(&certificate.issuer_key_hash, key.point())
            || is_hash(&certificate.issuer_key_hash, key.spki_der()))
}

/// What follows the CertID: `certStatus, thisUpdate, nextUpdate [0] OPTIONAL, singleExtensions [1] OPTIONAL`.
fn status(rest: &[u8], at: i64) -> Result<VerifiedStatus, RevocationAnswerError> {
    let choices = [
        (der::context(0), VerifiedStatus::Good),
        (der::context_constructed(1), VerifiedStatus::Revoked),
        (der::context(2), VerifiedStatus::Unknown),
    ];
    let chosen =
        choices.into_iter().find_map(|(tag, status)| der::read(tag, rest).map(|(_, rest)| (status, rest)));
    let (status, rest) = chosen.ok_or(Malformed)?;
    let (from, rest) = der::read(der::GENERALIZED_TIME, rest).ok_or(Malformed)?;
    let from = seconds(from).ok_or(Malformed)?;
    let until = match der::read(der::context_constructed(0), rest) {
        None => None,
        Some((next, _)) => {
            let (next, _) = der::read(der::GENERALIZED_TIME, next).ok_or(Malformed)?;
            Some(seconds(next).ok_or(Malformed)?)
        }
    };
    check_fresh(from, until, at)?;
    Ok(status)
}

fn check_fresh(from: i64, until: Option<i64>, at: i64) -> Result<(), RevocationAnswerError> {
    let until = until.unwrap_or(from + UNSAID_SECONDS);
    if (from - SKEW_SECONDS..=until + SKEW_SECONDS).contains(&at) { Ok(()) } else { Err(Stale) }
}

/// `YYYYMMDDHHMMSSZ`, the only form that RFC 5280 and RFC 6960 allow.
fn seconds(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if text.len() != 14 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let two = |at: usize| text[at..at + 2].parse::<u8>().ok();
    let month = Month::try_from(two(4)?).ok()?;
    let date = Date::from_calendar_date(text[..4].parse().ok()?, month, two(6)?).ok()?;
    Some(date.with_hms(two(8)?, two(10)?, two(12)?).ok()?.assume_utc().unix_timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OcspStatus, Reason, Revoked, dev::Pki};
    use proptest::prelude::*;

    const NOW: i64 = 1_800_000_000;
    const HOUR: i64 = 3600;
    const SERIAL: &str = "a1b";

    fn answer(pki: &Pki, status: OcspStatus) -> Vec<u8> {
        pki.issuer.ocsp(SERIAL, status, NOW, NOW + HOUR).unwrap()
    }

    #[test]
    fn an_answer_says_what_its_authority_signed() {
        let pki = Pki::new("a.test", NOW - HOUR);
        let authority = pki.issuer.certificate();
        let revoked = OcspStatus::Revoked { at: NOW - 5, reason: Reason::KeyCompromise };
        for (said, read) in [
            (OcspStatus::Good, VerifiedStatus::Good),
            (OcspStatus::Unknown, VerifiedStatus::Unknown),
            (revoked, VerifiedStatus::Revoked),
        ] {
            assert_eq!(verify_ocsp(authority, SERIAL, &answer(&pki, said), NOW), Ok(read));
            assert_eq!(verify_ocsp(authority, "a1c", &answer(&pki, said), NOW), Err(AnotherCertificate));
        }
        let twice = pki.issuer.ocsp_by_both_key_hashes(SERIAL, revoked, NOW, NOW + HOUR).unwrap();
        assert_eq!(verify_ocsp(authority, SERIAL, &twice, NOW), Ok(VerifiedStatus::Revoked));
        let unsigned = crate::OcspRefusal::TryLater.to_der();
        assert_eq!(verify_ocsp(authority, SERIAL, &unsigned, NOW), Err(NoAnswer));
    }

    #[test]
    fn an_answer_of_a_namesake_or_of_another_hour_does_not_count() {
        let (pki, namesake) = (Pki::new("a.test", NOW - HOUR), Pki::new("a.test", NOW - HOUR));
        let (authority, good) = (pki.issuer.certificate(), answer(&pki, OcspStatus::Good));
        let forged = answer(&namesake, OcspStatus::Good);
        assert_eq!(verify_ocsp(authority, SERIAL, &forged, NOW), Err(Signature));
        for (at, outcome) in [
            (NOW - SKEW_SECONDS, Ok(VerifiedStatus::Good)),
            (NOW - SKEW_SECONDS - 1, Err(Stale)),
            (NOW + HOUR + SKEW_SECONDS, Ok(VerifiedStatus::Good)),
            (NOW + HOUR + SKEW_SECONDS + 1, Err(Stale)),
        ] {
            assert_eq!(verify_ocsp(authority, SERIAL, &good, at), outcome, "{}", at - NOW);
        }
    }

    #[test]
    fn a_list_counts_with_the_signature_of_its_authority_and_while_it_is_fresh() {
        let (pki, namesake) = (Pki::new("a.test", NOW - HOUR), Pki::new("a.test", NOW - HOUR));
        let authority = pki.issuer.certificate();
        let revoked = [Revoked { serial: SERIAL.to_owned(), at: NOW - 5, reason: Reason::Superseded }];
        let list = |pki: &Pki| pki.issuer.crl(&revoked, 7, NOW, NOW + HOUR).unwrap();
        let serials = verify_crl(authority, &list(&pki), NOW).unwrap();
        assert_eq!(serials, HashSet::from([SERIAL.to_owned()]));
        assert_eq!(verify_crl(authority, &list(&namesake), NOW), Err(Signature));
        assert_eq!(verify_crl(pki.registry.certificate(), &list(&pki), NOW), Err(Signature));
        assert_eq!(verify_crl(authority, &list(&pki), NOW + HOUR + SKEW_SECONDS + 1), Err(Stale));
        assert_eq!(verify_crl(authority, "noise", NOW), Err(Malformed));
    }

    proptest! {
        #[test]
        fn an_answer_that_was_changed_or_cut_is_never_believed(at in 0usize..4096, to in any::<u8>(), cut in any::<bool>()) {
            let pki = Pki::new("a.test", NOW - HOUR);
            let good = answer(&pki, OcspStatus::Good);
            let (mut bytes, at) = (good.clone(), at % good.len());
            if cut {
                bytes.truncate(at);
            } else {
                bytes[at] = to;
            }
            let read = verify_ocsp(pki.issuer.certificate(), SERIAL, &bytes, NOW);
            prop_assert!(read.is_err() || read == Ok(VerifiedStatus::Good), "{read:?}");
        }
    }
}
