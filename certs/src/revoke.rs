//! Who may no longer: the revocation list, and the answer about one certificate.

use std::{fmt, str::FromStr};

use rcgen::{
    CertificateRevocationListParams, KeyIdMethod, RevocationReason, RevokedCertParams, SerialNumber,
};
use ring::digest;

use crate::{Authority, CertError, Curve, certificate::parse_serial, der, issue::moment, pem};

/// A certificate that was revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// Its serial number, in any spelling that [`parse_serial`] reads.
    pub serial: String,
    /// When, in unix seconds.
    pub at: i64,
    /// Why.
    pub reason: Reason,
}

/// Why a certificate was revoked: the reasons of RFC 5280. `removeFromCRL` is not here, because it only means
/// something in a delta list, and we publish whole ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are RFC 5280's own")]
pub enum Reason {
    Unspecified,
    KeyCompromise,
    CaCompromise,
    AffiliationChanged,
    Superseded,
    CessationOfOperation,
    CertificateHold,
    PrivilegeWithdrawn,
    AaCompromise,
}

/// What an OCSP answer says about a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OcspStatus {
    /// Known, and not revoked.
    Good,
    /// Known and revoked.
    Revoked {
        /// When, in unix seconds.
        at: i64,
        /// Why.
        reason: Reason,
    },
    /// Not one of ours.
    Unknown,
}

/// id-pkix-ocsp-basic, id-sha256, ecdsa-with-SHA256 and ecdsa-with-SHA384, encoded.
const OCSP_BASIC: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x30\x01\x01";
const SHA256: &[u8] = b"\x60\x86\x48\x01\x65\x03\x04\x02\x01";
const ECDSA_SHA256: &[u8] = b"\x2a\x86\x48\xce\x3d\x04\x03\x02";
const ECDSA_SHA384: &[u8] = b"\x2a\x86\x48\xce\x3d\x04\x03\x03";
const NULL: &[u8] = b"\x05\x00";

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 9] = [
        Reason::Unspecified,
        Reason::KeyCompromise,
        Reason::CaCompromise,
        Reason::AffiliationChanged,
        Reason::Superseded,
        Reason::CessationOfOperation,
        Reason::CertificateHold,
        Reason::PrivilegeWithdrawn,
        Reason::AaCompromise,
    ];

    /// The name in RFC 5280.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Unspecified => "unspecified",
            Reason::KeyCompromise => "keyCompromise",
            Reason::CaCompromise => "cACompromise",
            Reason::AffiliationChanged => "affiliationChanged",
            Reason::Superseded => "superseded",
            Reason::CessationOfOperation => "cessationOfOperation",
            Reason::CertificateHold => "certificateHold",
            Reason::PrivilegeWithdrawn => "privilegeWithdrawn",
            Reason::AaCompromise => "aACompromise",
        }
    }

    fn rcgen(self) -> RevocationReason {
        match self {
            Reason::Unspecified => RevocationReason::Unspecified,
            Reason::KeyCompromise => RevocationReason::KeyCompromise,
            Reason::CaCompromise => RevocationReason::CaCompromise,
            Reason::AffiliationChanged => RevocationReason::AffiliationChanged,
            Reason::Superseded => RevocationReason::Superseded,
            Reason::CessationOfOperation => RevocationReason::CessationOfOperation,
            Reason::CertificateHold => RevocationReason::CertificateHold,
            Reason::PrivilegeWithdrawn => RevocationReason::PrivilegeWithdrawn,
            Reason::AaCompromise => RevocationReason::AaCompromise,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Reason {
    type Err = CertError;

    /// Case does not matter: RFC 5280 writes `cACompromise`, and people do not.
    fn from_str(text: &str) -> Result<Self, CertError> {
        let found = Reason::ALL.into_iter().find(|reason| reason.as_str().eq_ignore_ascii_case(text));
        found.ok_or_else(|| CertError::Reason(text.to_owned()))
    }
}

impl OcspStatus {
    /// The word in the JSON around the answer; it must agree with the DER inside.
    pub fn as_str(self) -> &'static str {
        match self {
            OcspStatus::Good => "good",
            OcspStatus::Revoked { .. } => "revoked",
            OcspStatus::Unknown => "unknown",
        }
    }
}

impl Authority {
    /// The revocation list in PEM: X.509 v2, with its number, this authority's key identifier, and the reasons.
    pub fn crl(
        &self,
        revoked: &[Revoked],
        number: u64,
        now: i64,
        next_update: i64,
    ) -> Result<String, CertError> {
        let outside = || CertError::Validity(now, next_update);
        let params = CertificateRevocationListParams {
            this_update: moment(now).ok_or_else(outside)?,
            next_update: moment(next_update).ok_or_else(outside)?,
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(entry).collect::<Result<_, _>>()?,
            key_identifier_method: self.key_identifier(),
        };
        let list = params.signed_by(self.signer())?;
        Ok(pem::encode("X509 CRL", list.der()))
    }

    /// The answer about one certificate, in DER, signed here and now by the CA itself.
    ///
    /// The strict path of the SDKs wants `thisUpdate` within half a minute, so an answer is never kept.
    pub fn ocsp(
        &self,
        serial: &str,
        status: OcspStatus,
        now: i64,
        next_update: i64,
    ) -> Result<Vec<u8>, CertError> {
        let data = self.response_data(serial, status, now, next_update)?;
        let algorithm = match self.key().curve() {
            Curve::P256 => ECDSA_SHA256,
            Curve::P384 => ECDSA_SHA384,
        };
        let algorithm = der::value(der::SEQUENCE, &[&der::value(der::OID, &[algorithm])]);
        // The zero in front says that no bit of the last byte is unused.
        let signature = der::value(der::BIT_STRING, &[&[0], &self.key().sign(&data)]);
        let basic = der::value(der::SEQUENCE, &[&data, &algorithm, &signature]);

        let kind = der::value(der::OID, &[OCSP_BASIC]);
        let body = der::value(der::SEQUENCE, &[&kind, &der::value(der::OCTET_STRING, &[&basic])]);
        let successful = der::value(der::ENUMERATED, &[&[0]]);
        Ok(der::value(der::SEQUENCE, &[&successful, &der::value(der::context_constructed(0), &[&body])]))
    }

    /// What is signed: who answers, when, and exactly one answer.
    fn response_data(
        &self,
        serial: &str,
        status: OcspStatus,
        now: i64,
        next_update: i64,
    ) -> Result<Vec<u8>, CertError> {
        if next_update <= now {
            return Err(CertError::Validity(now, next_update));
        }
        let time = generalized_time(now)?;
        let next = der::value(der::context_constructed(0), &[&generalized_time(next_update)?]);
        let id = self.certificate_id(&serial_bytes(serial)?);
        let single = der::value(der::SEQUENCE, &[&id, &encode_status(status)?, &time, &next]);
        let answers = der::value(der::SEQUENCE, &[&single]);

        // "KeyHash ::= OCTET STRING -- SHA-1 hash of responder's public key" (RFC 6960), the bit string's content.
        let key = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, self.certificate().public_key().point());
        let responder =
            der::value(der::context_constructed(2), &[&der::value(der::OCTET_STRING, &[key.as_ref()])]);
        Ok(der::value(der::SEQUENCE, &[&responder, &time, &answers]))
    }

    /// CertID with SHA-256; the key hash covers the bit string's content, as RFC 6960 has it.
    fn certificate_id(&self, serial: &[u8]) -> Vec<u8> {
        let hash = |bytes| der::value(der::OCTET_STRING, &[digest::digest(&digest::SHA256, bytes).as_ref()]);
        let algorithm = der::value(der::SEQUENCE, &[&der::value(der::OID, &[SHA256]), NULL]);
        let name = hash(self.certificate().subject_name_der());
        let key = hash(self.certificate().public_key().point());
        der::value(der::SEQUENCE, &[&algorithm, &name, &key, &der::unsigned(serial)])
    }

    /// The list names our key as our certificate does, even if another tool made the certificate.
    fn key_identifier(&self) -> KeyIdMethod {
        match self.certificate().subject_key_identifier() {
            Some(identifier) => KeyIdMethod::PreSpecified(identifier.to_vec()),
            None => KeyIdMethod::Sha256,
        }
    }
}

fn entry(revoked: &Revoked) -> Result<RevokedCertParams, CertError> {
    Ok(RevokedCertParams {
        serial_number: serial_bytes(&revoked.serial)?.into(),
        revocation_time: moment(revoked.at).ok_or(CertError::Validity(revoked.at, revoked.at))?,
        reason_code: Some(revoked.reason.rcgen()),
        invalidity_date: None,
    })
}

fn encode_status(status: OcspStatus) -> Result<Vec<u8>, CertError> {
    Ok(match status {
        OcspStatus::Good => der::value(der::context(0), &[]),
        OcspStatus::Unknown => der::value(der::context(2), &[]),
        OcspStatus::Revoked { at, reason } => {
            let reason = match reason {
                // As in the list: no reason is written as no reason.
                Reason::Unspecified => Vec::new(),
                reason => {
                    let code = der::value(der::ENUMERATED, &[&[reason.rcgen() as u8]]);
                    der::value(der::context_constructed(0), &[&code])
                }
            };
            der::value(der::context_constructed(1), &[&generalized_time(at)?, &reason])
        }
    })
}

fn generalized_time(seconds: i64) -> Result<Vec<u8>, CertError> {
    let time = moment(seconds).ok_or(CertError::Validity(seconds, seconds))?;
    let (date, (hour, minute, second)) = (time.date(), time.to_hms());
    let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
    let text = format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}Z");
    Ok(der::value(der::GENERALIZED_TIME, &[text.as_bytes()]))
}

fn serial_bytes(serial: &str) -> Result<Vec<u8>, CertError> {
    let wrong = || CertError::Serial(serial.to_owned());
    let digits = parse_serial(serial).ok_or_else(wrong)?;
    let even = if digits.len() % 2 == 0 { digits } else { format!("0{digits}") };
    hex::decode(even).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{dev::Pki, pem};
    use x509_parser::prelude::*;

    const NOW: i64 = 1_800_000_000;
    const HOUR: i64 = 3600;

    fn revoked(serial: &str, reason: Reason) -> Revoked {
        Revoked { serial: serial.to_owned(), at: NOW - 60, reason }
    }

    #[test]
    fn a_list_carries_number_key_identifier_serials_and_reasons() {
        let pki = Pki::new("a.test", NOW);
        let entries = [
            revoked("0xA1B", Reason::KeyCompromise),
            revoked("ff", Reason::Unspecified),
            revoked("7", Reason::Superseded),
        ];
        let pem = pki.issuer.crl(&entries, 42, NOW, NOW + HOUR).unwrap();
        let der = pem::decode("X509 CRL", &pem).unwrap();
        let (rest, list) = CertificateRevocationList::from_der(&der).unwrap();
        assert!(rest.is_empty());
        assert_eq!(list.version(), Some(X509Version::V2));
        assert_eq!(list.crl_number().unwrap().to_string(), "42");
        assert_eq!(list.issuer().as_raw(), pki.issuer.certificate().subject_name_der());
        assert_eq!(list.last_update().timestamp(), NOW);
        assert_eq!(list.next_update().unwrap().timestamp(), NOW + HOUR);
        let found: Vec<_> = list
            .iter_revoked_certificates()
            .map(|entry| {
                (entry.user_certificate.to_str_radix(16), entry.reason_code().map(|(_, code)| code.0))
            })
            .collect();
        assert_eq!(found, [("a1b".into(), Some(1)), ("ff".into(), None), ("7".into(), Some(4))]);
        let key = pki.issuer.certificate().public_key();
        assert!(key.verify(list.tbs_cert_list.as_ref(), &list.signature_value.data));
        let authority = list.extensions().iter().find_map(|found| match found.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(found) => found.key_identifier.as_ref(),
            _ => None,
        });
        assert_eq!(authority.map(|found| found.0), pki.issuer.certificate().subject_key_identifier());
    }

    #[test]
    fn an_empty_list_is_a_list() {
        let pki = Pki::new("a.test", NOW);
        let pem = pki.issuer.crl(&[], 0, NOW, NOW + HOUR).unwrap();
        let der = pem::decode("X509 CRL", &pem).unwrap();
        let (_, list) = CertificateRevocationList::from_der(&der).unwrap();
        assert_eq!(list.iter_revoked_certificates().count(), 0);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let pki = Pki::new("a.test", NOW);
        let entries = [revoked("nonsense", Reason::Superseded)];
        assert_eq!(pki.issuer.crl(&entries, 1, NOW, NOW + 1), Err(CertError::Serial("nonsense".into())));
        assert!(pki.issuer.crl(&[], 1, NOW, NOW).is_err());
        assert!(pki.issuer.ocsp("12", OcspStatus::Good, NOW, NOW).is_err());
        assert!(pki.issuer.ocsp("", OcspStatus::Good, NOW, NOW + 1).is_err());
    }

    #[test]
    fn a_reason_has_one_name_and_any_case_reads_it() {
        for reason in Reason::ALL {
            assert_eq!(reason.as_str().parse(), Ok(reason));
            assert_eq!(reason.as_str().to_lowercase().parse(), Ok(reason));
        }
        assert_eq!("caCompromise".parse(), Ok(Reason::CaCompromise));
        assert!("removeFromCRL".parse::<Reason>().is_err());
        assert_eq!(
            "boredom".parse::<Reason>().unwrap_err().to_string(),
            "\"boredom\" is not a revocation reason"
        );
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
            let (response, rest) = der::read(der::SEQUENCE, &answer).unwrap();
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
            assert!(pki.issuer.certificate().public_key().verify(signed, &signature[1..]));
            assert_eq!(signed.windows(4).filter(|bytes| *bytes == b"\x02\x02\x0a\x1b").count(), 1);
        }
    }
}
