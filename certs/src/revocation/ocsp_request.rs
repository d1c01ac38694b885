//! What an OCSP client asks, as RFC 6960 has it. Signatures of requests are not read: the answers are public.

use crate::{certificate::parse_serial, encoding::der};

/// Certificates that one request may be about. Clients ask about one.
const MOST_CERTIFICATES: usize = 16;

/// A nonce has at most 128 bytes (RFC 9654), and a tag and a length before them.
const NONCE_BYTES: std::ops::RangeInclusive<usize> = 1..=131;

/// id-pkix-ocsp-nonce, encoded.
pub(crate) const NONCE: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x30\x01\x02";

const BOOLEAN: u8 = 0x01;

/// The certificates that a client asks about, and the nonce that its answer has to repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OcspRequest {
    /// At least one.
    pub certificates: Vec<OcspCertificate>,
    /// The value of the extension; empty if there is none.
    pub(crate) nonce: Vec<u8>,
}

/// A certificate as a request names it: by its serial number and hashes of its issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OcspCertificate {
    /// The CertID byte for byte, because clients look for it in the answer.
    pub(crate) id: Vec<u8>,
    /// The algorithm of the hashes, an OID.
    pub(crate) hash: Vec<u8>,
    pub(crate) issuer_name_hash: Vec<u8>,
    pub(crate) issuer_key_hash: Vec<u8>,
    /// None if no certificate has such a number.
    pub(crate) serial: Option<String>,
}

impl OcspRequest {
    /// Reads a request in DER. `None` if it is not one, or asks about more than we answer at once.
    pub fn from_der(bytes: &[u8]) -> Option<OcspRequest> {
        let (request, behind) = der::read(der::SEQUENCE, bytes)?;
        if !behind.is_empty() {
            return None;
        }
        let (unsigned, _signature) = der::read(der::SEQUENCE, request)?;
        // The version and the name of the client are optional, and neither changes the answer.
        let (mut list, extensions) = der::read(der::SEQUENCE, without(1, without(0, unsigned)))?;
        let mut certificates = Vec::new();
        while !list.is_empty() {
            let (asked, rest) = der::read(der::SEQUENCE, list)?;
            certificates.push(OcspCertificate::read(asked)?);
            list = rest;
        }
        if certificates.is_empty() || certificates.len() > MOST_CERTIFICATES {
            return None;
        }
        Some(OcspRequest { certificates, nonce: nonce(extensions)? })
    }
}

impl OcspCertificate {
    /// `Request ::= SEQUENCE { reqCert CertID, singleRequestExtensions [0] OPTIONAL }`, of which this is the content. What stands
    /// behind the CertID is not read.
    pub(crate) fn read(asked: &[u8]) -> Option<OcspCertificate> {
        let (content, extensions) = der::read(der::SEQUENCE, asked)?;
        let (algorithm, rest) = der::read(der::SEQUENCE, content)?;
        let (hash, _parameters) = der::read(der::OID, algorithm)?;
        let (issuer_name_hash, rest) = der::read(der::OCTET_STRING, rest)?;
        let (issuer_key_hash, rest) = der::read(der::OCTET_STRING, rest)?;
        let (number, behind) = der::read(der::INTEGER, rest)?;
        if !behind.is_empty() {
            return None;
        }
        let positive = number.first().is_some_and(|byte| *byte < 0x80);
        Some(OcspCertificate {
            id: asked[..asked.len() - extensions.len()].to_vec(),
            hash: hash.to_vec(),
            issuer_name_hash: issuer_name_hash.to_vec(),
            issuer_key_hash: issuer_key_hash.to_vec(),
            serial: positive.then(|| parse_serial(&hex::encode(number))).flatten(),
        })
    }
}

/// What follows the optional member with this tag.
fn without(number: u8, input: &[u8]) -> &[u8] {
    der::read(der::context_constructed(number), input).map_or(input, |(_, rest)| rest)
}

/// The value of the nonce in `[2] EXPLICIT Extensions`, empty if there is none. Other extensions do not change the answer.
fn nonce(extensions: &[u8]) -> Option<Vec<u8>> {
    if extensions.is_empty() {
        return Some(Vec::new());
    }
    let (extensions, _) = der::read(der::context_constructed(2), extensions)?;
    let (mut list, _) = der::read(der::SEQUENCE, extensions)?;
    while !list.is_empty() {
        let (extension, rest) = der::read(der::SEQUENCE, list)?;
        let (oid, value) = der::read(der::OID, extension)?;
        if oid == NONCE {
            let value = der::read(BOOLEAN, value).map_or(value, |(_critical, value)| value);
            let (nonce, _) = der::read(der::OCTET_STRING, value)?;
            return NONCE_BYTES.contains(&nonce.len()).then(|| nonce.to_vec());
        }
        list = rest;
    }
    Some(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHA1: &[u8] = b"\x2b\x0e\x03\x02\x1a";

    fn asked(serial: &[u8]) -> Vec<u8> {
        let algorithm = der::value(der::SEQUENCE, &[&der::value(der::OID, &[SHA1]), b"\x05\x00"]);
        let hash = der::value(der::OCTET_STRING, &[&[7; 20]]);
        let id = der::value(der::SEQUENCE, &[&algorithm, &hash, &hash, &der::value(der::INTEGER, &[serial])]);
        der::value(der::SEQUENCE, &[&id])
    }

    fn request(before: &[u8], asked: &[Vec<u8>], extensions: &[u8]) -> Vec<u8> {
        let list = der::value(der::SEQUENCE, &[&asked.concat()]);
        der::value(der::SEQUENCE, &[&der::value(der::SEQUENCE, &[before, &list, extensions])])
    }

    fn with_nonce(nonce: &[u8]) -> Vec<u8> {
        let value = der::value(der::OCTET_STRING, &[&der::value(der::OCTET_STRING, &[nonce])]);
        let extension = der::value(der::SEQUENCE, &[&der::value(der::OID, &[NONCE]), &value]);
        der::value(der::context_constructed(2), &[&der::value(der::SEQUENCE, &[&extension])])
    }

    #[test]
    fn a_request_is_read_with_and_without_what_is_optional() {
        let version = der::value(der::context_constructed(0), &[&[2, 1, 0]]);
        let bare = OcspRequest::from_der(&request(&[], &[asked(&[0x0a, 0x1b])], &[])).unwrap();
        assert_eq!(bare.certificates[0].serial.as_deref(), Some("a1b"));
        assert!(bare.nonce.is_empty());
        let whole = request(&version, &[asked(&[0, 0xff]), asked(&[5])], &with_nonce(&[3; 32]));
        let whole = OcspRequest::from_der(&whole).unwrap();
        let serials: Vec<_> = whole.certificates.iter().map(|asked| asked.serial.as_deref()).collect();
        assert_eq!(serials, [Some("ff"), Some("5")]);
        assert_eq!(whole.nonce, der::value(der::OCTET_STRING, &[&[3; 32]]));
    }

    #[test]
    fn a_number_that_no_certificate_has_is_nobodys() {
        for serial in [&[0x80][..], &[1; 21], &[]] {
            let read = OcspRequest::from_der(&request(&[], &[asked(serial)], &[])).unwrap();
            assert_eq!(read.certificates[0].serial, None);
        }
    }

    #[test]
    fn too_many_certificates_no_certificate_and_a_long_nonce_are_refused() {
        assert!(OcspRequest::from_der(&request(&[], &vec![asked(&[1]); 16], &[])).is_some());
        assert!(OcspRequest::from_der(&request(&[], &vec![asked(&[1]); 17], &[])).is_none());
        assert!(OcspRequest::from_der(&request(&[], &[], &[])).is_none());
        assert!(OcspRequest::from_der(&request(&[], &[asked(&[1])], &with_nonce(&[1; 128]))).is_some());
        assert!(OcspRequest::from_der(&request(&[], &[asked(&[1])], &with_nonce(&[1; 129]))).is_none());
        let behind = [request(&[], &[asked(&[1])], &[]), vec![0]].concat();
        assert!(OcspRequest::from_der(&behind).is_none());
    }

    proptest! {
        #[test]
        fn a_request_that_was_cut_or_changed_never_panics(at in 0usize..120, to in any::<u8>(), cut in any::<bool>()) {
            let mut bytes = request(&[], &[asked(&[9; 20])], &with_nonce(&[1; 16]));
            let at = at % bytes.len();
            if cut {
                bytes.truncate(at);
                prop_assert!(OcspRequest::from_der(&bytes).is_none());
            } else {
                bytes[at] = to;
                let _ = OcspRequest::from_der(&bytes);
            }
        }
    }
}
