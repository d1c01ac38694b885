//! Who may no longer: the reasons, and the revocation list.

use std::{fmt, str::FromStr};

use rcgen::{
    CertificateRevocationListParams, KeyIdMethod, RevocationReason, RevokedCertParams, SerialNumber,
};

use crate::{Authority, CertError, certificate::parse_serial, encoding::pem, issue::moment};

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

    pub(crate) fn rcgen(self) -> RevocationReason {
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

pub(crate) fn serial_bytes(serial: &str) -> Result<Vec<u8>, CertError> {
    let wrong = || CertError::Serial(serial.to_owned());
    let digits = parse_serial(serial).ok_or_else(wrong)?;
    let even = if digits.len() % 2 == 0 { digits } else { format!("0{digits}") };
    hex::decode(even).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{dev::Pki, encoding::pem};
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
}
