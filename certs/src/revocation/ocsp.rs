//! The answer about one certificate, or several, signed here and now by the CA itself (RFC 6960).
//!
//! The strict path of the SDKs wants `thisUpdate` within half a minute, so an answer is never kept.

use ring::digest;

use crate::{
    Authority, CertError, Curve, Reason,
    encoding::der,
    issue::moment,
    revocation::ocsp_request::{NONCE, OcspCertificate, OcspRequest},
    revocation::revoke::serial_bytes,
};

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

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OcspRefusal {
    /// It cannot be read.
    MalformedRequest,
    /// It cannot be answered now.
    TryLater,
}

/// id-pkix-ocsp-basic, id-sha1, id-sha256, ecdsa-with-SHA256 and ecdsa-with-SHA384, encoded.
const OCSP_BASIC: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x30\x01\x01";
pub(crate) const SHA1: &[u8] = b"\x2b\x0e\x03\x02\x1a";
pub(crate) const SHA256: &[u8] = b"\x60\x86\x48\x01\x65\x03\x04\x02\x01";
const ECDSA_SHA256: &[u8] = b"\x2a\x86\x48\xce\x3d\x04\x03\x02";
const ECDSA_SHA384: &[u8] = b"\x2a\x86\x48\xce\x3d\x04\x03\x03";
const NULL: &[u8] = b"\x05\x00";

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

impl OcspRefusal {
    /// The whole OCSPResponse, in DER. It is not signed, because it says nothing about a certificate.
    pub fn to_der(self) -> Vec<u8> {
        let status = match self {
            OcspRefusal::MalformedRequest => 1,
            OcspRefusal::TryLater => 3,
        };
        der::value(der::SEQUENCE, &[&der::value(der::ENUMERATED, &[&[status]])])
    }
}

impl Authority {
    /// The answer about one certificate, in DER. The hash of our key is that of RFC 6960: over the bit string's content.
    pub fn ocsp(
        &self,
        serial: &str,
        status: OcspStatus,
        now: i64,
        next_update: i64,
    ) -> Result<Vec<u8>, CertError> {
        let id = self.certificate_id(self.certificate().public_key().point(), &serial_bytes(serial)?);
        self.sign_answers(&[(id, status)], &[], now, next_update)
    }

    /// The same twice in one answer: by the hash of our key as RFC 6960 has it, and by that over the whole
    /// SubjectPublicKeyInfo, which some clients compute instead.
    pub fn ocsp_by_both_key_hashes(
        &self,
        serial: &str,
        status: OcspStatus,
        now: i64,
        next_update: i64,
    ) -> Result<Vec<u8>, CertError> {
        let (key, serial) = (self.certificate().public_key(), serial_bytes(serial)?);
        let answers =
            [key.point(), key.spki_der()].map(|hashed| (self.certificate_id(hashed, &serial), status));
        self.sign_answers(&answers, &[], now, next_update)
    }

    /// The serial number that a client asks about, if it means a certificate of this authority.
    pub fn asked_serial<'a>(&self, asked: &'a OcspCertificate) -> Option<&'a str> {
        let algorithm = match asked.hash.as_slice() {
            oid if oid == SHA1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            oid if oid == SHA256 => &digest::SHA256,
            _ => return None,
        };
        let hash = |bytes| digest::digest(algorithm, bytes).as_ref().to_vec();
        let ours = asked.issuer_name_hash == hash(self.certificate().subject_name_der())
            && asked.issuer_key_hash == hash(self.certificate().public_key().point());
        asked.serial.as_deref().filter(|_| ours)
    }

    /// The answer to a request: a status for each of its certificates, in their order.
    pub fn answer_ocsp(
        &self,
        request: &OcspRequest,
        statuses: &[OcspStatus],
        now: i64,
        next_update: i64,
    ) -> Result<Vec<u8>, CertError> {
        let answers: Vec<_> = request
            .certificates
            .iter()
            .zip(statuses)
            .map(|(asked, status)| (asked.id.clone(), *status))
            .collect();
        self.sign_answers(&answers, &request.nonce, now, next_update)
    }

    /// A successful response with these answers, each with the CertID that it is about.
    fn sign_answers(
        &self,
        answers: &[(Vec<u8>, OcspStatus)],
        nonce: &[u8],
        now: i64,
        next_update: i64,
    ) -> Result<Vec<u8>, CertError> {
        let data = self.response_data(answers, nonce, now, next_update)?;
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

    /// What is signed: who answers, when, the answers, and the nonce if there is one.
    fn response_data(
        &self,
        answers: &[(Vec<u8>, OcspStatus)],
        nonce: &[u8],
        now: i64,
        next_update: i64,
    ) -> Result<Vec<u8>, CertError> {
        if next_update <= now {
            return Err(CertError::Validity(now, next_update));
        }
        let time = generalized_time(now)?;
        let next = der::value(der::context_constructed(0), &[&generalized_time(next_update)?]);
        let mut singles = Vec::new();
        for (id, status) in answers {
            singles.extend(der::value(der::SEQUENCE, &[id, &encode_status(*status)?, &time, &next]));
        }
        let singles = der::value(der::SEQUENCE, &[&singles]);

        // "KeyHash ::= OCTET STRING -- SHA-1 hash of responder's public key" (RFC 6960), the bit string's content.
        let key = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, self.certificate().public_key().point());
        let responder =
            der::value(der::context_constructed(2), &[&der::value(der::OCTET_STRING, &[key.as_ref()])]);
        Ok(der::value(der::SEQUENCE, &[&responder, &time, &singles, &nonce_extension(nonce)]))
    }

    /// CertID with SHA-256, where `hashed` is what counts as our key.
    fn certificate_id(&self, hashed: &[u8], serial: &[u8]) -> Vec<u8> {
        let hash = |bytes| der::value(der::OCTET_STRING, &[digest::digest(&digest::SHA256, bytes).as_ref()]);
        let algorithm = der::value(der::SEQUENCE, &[&der::value(der::OID, &[SHA256]), NULL]);
        let name = hash(self.certificate().subject_name_der());
        der::value(der::SEQUENCE, &[&algorithm, &name, &hash(hashed), &der::unsigned(serial)])
    }
}

/// `responseExtensions [1] EXPLICIT Extensions` with the nonce; nothing without one.
fn nonce_extension(nonce: &[u8]) -> Vec<u8> {
    if nonce.is_empty() {
        return Vec::new();
    }
    let value = der::value(der::OCTET_STRING, &[nonce]);
    let extension = der::value(der::SEQUENCE, &[&der::value(der::OID, &[NONCE]), &value]);
    der::value(der::context_constructed(1), &[&der::value(der::SEQUENCE, &[&extension])])
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

#[cfg(test)]
mod tests;
