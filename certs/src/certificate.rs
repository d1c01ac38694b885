//! A certificate that was parsed: every field we need, extracted once.

use std::fmt;

use x509_parser::{
    extensions::{KeyUsage, ParsedExtension},
    prelude::{FromDer, X509Certificate, X509Error},
    x509::X509Name,
};

use crate::{CertError, PublicKey, encoding::pem, key::sha256_fingerprint};

/// A certificate. Reading it says nothing about trust; [`crate::verify_chain`] does.
#[derive(Clone)]
pub struct Certificate {
    der: Vec<u8>,
    pem: String,
    signed: Vec<u8>,
    signature: Vec<u8>,
    serial: String,
    common_name: String,
    organization: String,
    not_before: i64,
    not_after: i64,
    fingerprint: String,
    public_key: PublicKey,
    issuer: Vec<u8>,
    subject: Vec<u8>,
    subject_key_identifier: Option<Vec<u8>>,
    constraints: Constraints,
}

/// What the extensions say about the use of a certificate.
#[derive(Clone, Copy)]
pub(crate) struct Constraints {
    pub(crate) ca: bool,
    pub(crate) path_length: Option<u32>,
    pub(crate) key_usage: Option<KeyUsage>,
    pub(crate) server: bool,
    pub(crate) unknown_critical: bool,
}

/// Any spelling of a serial number (case, leading zeros, `0x`, odd length) as minimal lower-case hexadecimal.
///
/// Python SDKs drop a leading zero, Node keeps it, so numbers are only ever compared in this form.
pub fn parse_serial(text: &str) -> Option<String> {
    let text = text.trim();
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let digits = digits.trim_start_matches('0').to_ascii_lowercase();
    match digits.len() {
        0 => Some("0".to_owned()),
        // "Conforming CAs MUST NOT use serialNumber values longer than 20 octets" (RFC 5280).
        1..=40 => Some(digits),
        _ => None,
    }
}

impl Certificate {
    /// Reads exactly one PEM block.
    pub fn from_pem(text: &str) -> Result<Certificate, CertError> {
        Certificate::from_der(&pem::decode("CERTIFICATE", text).ok_or(CertError::Pem("CERTIFICATE"))?)
    }

    /// The fingerprint of the certificate in a PEM block, of which nothing else is read: whoever knows the fingerprint knows
    /// the certificate, and nothing of an unknown one has to be looked at to know that it is unknown.
    pub fn fingerprint_of_pem(text: &str) -> Result<String, CertError> {
        let der = pem::decode("CERTIFICATE", text).ok_or(CertError::Pem("CERTIFICATE"))?;
        Ok(sha256_fingerprint(&der))
    }

    /// Reads a certificate for one of our curves; bytes behind it are refused.
    pub fn from_der(der: &[u8]) -> Result<Certificate, CertError> {
        let (rest, parsed) = X509Certificate::from_der(der).map_err(unreadable)?;
        if !rest.is_empty() {
            return Err(unreadable("there are bytes behind it"));
        }
        let serial = parse_serial(&hex::encode(parsed.raw_serial()))
            .ok_or_else(|| unreadable("its serial number is too long"))?;
        Ok(Certificate {
            der: der.to_vec(),
            pem: pem::encode("CERTIFICATE", der),
            signed: parsed.tbs_certificate.as_ref().to_vec(),
            signature: parsed.signature_value.data.to_vec(),
            serial,
            common_name: only(parsed.subject(), X509Name::iter_common_name, "common name")?,
            organization: only(parsed.subject(), X509Name::iter_organization, "organization")?,
            not_before: parsed.validity().not_before.timestamp(),
            not_after: parsed.validity().not_after.timestamp(),
            fingerprint: sha256_fingerprint(der),
            public_key: PublicKey::from_spki_der(parsed.public_key().raw)?,
            issuer: parsed.issuer().as_raw().to_vec(),
            subject: parsed.subject().as_raw().to_vec(),
            subject_key_identifier: subject_key_identifier(&parsed),
            constraints: constraints(&parsed).map_err(unreadable)?,
        })
    }

    /// The certificate as one PEM block with a line end behind it.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The certificate's own bytes.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The serial number in minimal lower-case hexadecimal, see [`parse_serial`].
    pub fn serial(&self) -> &str {
        &self.serial
    }

    /// The common name of the subject, empty if there is none.
    pub fn common_name(&self) -> &str {
        &self.common_name
    }

    /// The organization of the subject, empty if there is none.
    pub fn organization(&self) -> &str {
        &self.organization
    }

    /// The first second of its validity.
    pub fn not_before(&self) -> i64 {
        self.not_before
    }

    /// The last second of its validity.
    pub fn not_after(&self) -> i64 {
        self.not_after
    }

    /// `sha256:` and the hash of the DER.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Its public key.
    pub fn public_key(&self) -> &PublicKey {
        &self.public_key
    }

    /// The issuer's name as it is encoded.
    pub fn issuer_name_der(&self) -> &[u8] {
        &self.issuer
    }

    /// The subject's name as it is encoded.
    pub fn subject_name_der(&self) -> &[u8] {
        &self.subject
    }

    /// Whether its extensions allow it to sign certificates.
    pub fn is_ca(&self) -> bool {
        self.constraints.ca
    }

    pub(crate) fn subject_key_identifier(&self) -> Option<&[u8]> {
        self.subject_key_identifier.as_deref()
    }

    pub(crate) fn constraints(&self) -> Constraints {
        self.constraints
    }

    /// Whether the key signed this certificate, with the hash of the key's curve.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        key.verify(&self.signed, &self.signature)
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({:?}, {})", self.common_name, self.fingerprint)
    }
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.der == other.der
    }
}

impl Eq for Certificate {}

/// The single attribute of its kind in a name: with two of them, two readers could disagree on who this is.
fn only<'a, I>(
    name: &'a X509Name<'a>,
    pick: fn(&'a X509Name<'a>) -> I,
    what: &str,
) -> Result<String, CertError>
where
    I: Iterator<Item = &'a x509_parser::x509::AttributeTypeAndValue<'a>> + 'a,
{
    let mut found = pick(name);
    let Some(first) = found.next() else { return Ok(String::new()) };
    if found.next().is_some() {
        return Err(unreadable(format!("it has more than one {what}")));
    }
    first.as_str().map(str::to_owned).map_err(|_| unreadable(format!("its {what} is not text")))
}

fn constraints(parsed: &X509Certificate<'_>) -> Result<Constraints, X509Error> {
    let basic = parsed.basic_constraints()?.map(|extension| extension.value);
    let extended = parsed.extended_key_usage()?.map(|extension| extension.value);
    Ok(Constraints {
        ca: basic.is_some_and(|basic| basic.ca),
        path_length: basic.and_then(|basic| basic.path_len_constraint),
        key_usage: parsed.key_usage()?.map(|extension| *extension.value),
        server: extended.is_some_and(|extended| extended.server_auth),
        unknown_critical: parsed
            .iter_extensions()
            .any(|found| found.critical && !is_known(found.parsed_extension())),
    })
}

fn subject_key_identifier(parsed: &X509Certificate<'_>) -> Option<Vec<u8>> {
    parsed.iter_extensions().find_map(|found| match found.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(identifier) => Some(identifier.0.to_vec()),
        _ => None,
    })
}

/// The extensions that we look at, and so may be critical.
fn is_known(extension: &ParsedExtension<'_>) -> bool {
    matches!(
        extension,
        ParsedExtension::BasicConstraints(_)
            | ParsedExtension::KeyUsage(_)
            | ParsedExtension::ExtendedKeyUsage(_)
            | ParsedExtension::SubjectAlternativeName(_)
    )
}

fn unreadable(reason: impl ToString) -> CertError {
    CertError::Certificate(reason.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Authority;
    use proptest::prelude::*;

    const NOW: i64 = 1_800_000_000;

    #[test]
    fn a_certificate_survives_pem_and_der() {
        let root = Authority::root("Root", "Org", NOW);
        let certificate = root.certificate();
        assert_eq!(Certificate::from_pem(certificate.pem()).as_ref(), Ok(certificate));
        assert_eq!(Certificate::from_der(certificate.der()).as_ref(), Ok(certificate));
        assert_eq!((certificate.common_name(), certificate.organization()), ("Root", "Org"));
        assert_eq!(certificate.fingerprint().len(), 7 + 64);
        let of_pem = Certificate::fingerprint_of_pem(certificate.pem());
        assert_eq!(of_pem.as_deref(), Ok(certificate.fingerprint()));
        assert_eq!(Certificate::fingerprint_of_pem("noise"), Err(CertError::Pem("CERTIFICATE")));
    }

    #[test]
    fn two_blocks_and_trailing_bytes_are_refused() {
        let root = Authority::root("Root", "Org", NOW);
        let pem = root.certificate().pem();
        assert_eq!(Certificate::from_pem(&pem.repeat(2)), Err(CertError::Pem("CERTIFICATE")));
        let mut der = root.certificate().der().to_vec();
        der.push(0);
        assert!(matches!(Certificate::from_der(&der), Err(CertError::Certificate(_))));
    }

    #[test]
    fn a_name_with_two_common_names_is_refused() {
        let key = crate::Key::generate(crate::Curve::P256);
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, "alice");
        // The encoder keeps one value per type, so the second common name hides behind the type's number.
        params.distinguished_name.push(rcgen::DnType::CustomDnType(vec![2, 5, 4, 3]), "bob");
        let made = params.self_signed(&key).unwrap();
        let error = Certificate::from_der(made.der()).unwrap_err();
        assert_eq!(error.to_string(), "the certificate cannot be read: it has more than one common name");
    }

    #[test]
    fn a_serial_number_has_one_form() {
        for (text, expected) in [
            ("0a1B", Some("a1b")),
            ("0x0A1b", Some("a1b")),
            ("a1b", Some("a1b")),
            ("0", Some("0")),
            ("000", Some("0")),
            ("", None),
            ("0x", None),
            ("-1", None),
            ("+1", None),
            ("1:2", None),
            ("xyz", None),
            ("é", None),
        ] {
            assert_eq!(parse_serial(text).as_deref(), expected, "{text:?}");
        }
        assert_eq!(parse_serial(&"f".repeat(41)), None);
        assert_eq!(parse_serial(&format!("00{}", "f".repeat(40))), Some("f".repeat(40)));
    }

    proptest! {
        #[test]
        fn padding_case_and_prefix_never_matter(number in 1u128.., zeros in 0usize..9, upper: bool, prefix: bool) {
            let plain = format!("{number:x}");
            let digits = if upper { plain.to_uppercase() } else { plain.clone() };
            let text = format!("{}{}{digits}", if prefix { "0x" } else { "" }, "0".repeat(zeros));
            prop_assert_eq!(parse_serial(&text), Some(plain));
        }

        #[test]
        fn noise_is_never_a_certificate_and_never_a_panic(noise in proptest::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(Certificate::from_der(&noise).is_err());
        }
    }

    #[test]
    fn a_flipped_bit_is_never_a_panic() {
        let der = Authority::root("Root", "Org", NOW).certificate().der().to_vec();
        for index in 0..der.len() {
            let mut changed = der.clone();
            changed[index] ^= 1 << (index % 8);
            if let Ok(certificate) = Certificate::from_der(&changed) {
                assert!(certificate.fingerprint().starts_with("sha256:"));
            }
        }
    }
}
