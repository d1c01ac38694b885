//! Keys: two curves, and the hash that belongs to each.

mod point;

use std::{fmt, str::FromStr, sync::Arc};

use ring::{
    digest, hkdf,
    rand::SystemRandom,
    signature::{self, EcdsaKeyPair, KeyPair, UnparsedPublicKey},
};

use crate::{CertError, Curve, encoding::der, encoding::pem};

/// A private key. Cloning shares it; printing never shows it.
#[derive(Clone)]
pub struct Key(Arc<Secret>);

struct Secret {
    pkcs8: Vec<u8>,
    der: EcdsaKeyPair,
    fixed: EcdsaKeyPair,
    public: PublicKey,
    random: SystemRandom,
}

/// A public key: a point that is known to be on its curve.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    curve: Curve,
    spki: Vec<u8>,
}

impl Curve {
    /// What every SubjectPublicKeyInfo on this curve begins with, up to and with the mark of an uncompressed point.
    fn spki_prefix(self) -> &'static [u8] {
        match self {
            Curve::P256 => b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00\x04",
            Curve::P384 => b"\x30\x76\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22\x03\x62\x00\x04",
        }
    }

    fn coordinate_bytes(self) -> usize {
        match self {
            Curve::P256 => 32,
            Curve::P384 => 48,
        }
    }

    fn signing_der(self) -> &'static signature::EcdsaSigningAlgorithm {
        match self {
            Curve::P256 => &signature::ECDSA_P256_SHA256_ASN1_SIGNING,
            Curve::P384 => &signature::ECDSA_P384_SHA384_ASN1_SIGNING,
        }
    }

    fn signing_fixed(self) -> &'static signature::EcdsaSigningAlgorithm {
        match self {
            Curve::P256 => &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
            Curve::P384 => &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
        }
    }

    fn rcgen(self) -> &'static rcgen::SignatureAlgorithm {
        match self {
            Curve::P256 => &rcgen::PKCS_ECDSA_P256_SHA256,
            Curve::P384 => &rcgen::PKCS_ECDSA_P384_SHA384,
        }
    }
}

impl FromStr for Curve {
    type Err = CertError;

    fn from_str(text: &str) -> Result<Self, CertError> {
        match text {
            "P-256" => Ok(Curve::P256),
            "P-384" => Ok(Curve::P384),
            other => Err(CertError::Curve(other.to_owned())),
        }
    }
}

impl Key {
    /// A fresh key from the system's randomness.
    pub fn generate(curve: Curve) -> Key {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(curve.signing_der(), &SystemRandom::new())
            .expect("the system has randomness");
        Key::from_pkcs8(curve, pkcs8.as_ref()).expect("a key just made can be read")
    }

    /// Reads a PKCS#8 key; which curve it is on decides itself.
    pub fn from_pem(text: &str) -> Result<Key, CertError> {
        let pkcs8 = pem::decode("PRIVATE KEY", text).ok_or(CertError::Pem("PRIVATE KEY"))?;
        Key::from_pkcs8(Curve::P256, &pkcs8).or_else(|_| Key::from_pkcs8(Curve::P384, &pkcs8))
    }

    fn from_pkcs8(curve: Curve, pkcs8: &[u8]) -> Result<Key, CertError> {
        let random = SystemRandom::new();
        let pair = |algorithm| {
            EcdsaKeyPair::from_pkcs8(algorithm, pkcs8, &random).map_err(|_| CertError::PrivateKey)
        };
        let (der, fixed) = (pair(curve.signing_der())?, pair(curve.signing_fixed())?);
        let point = &der.public_key().as_ref()[1..];
        let public = PublicKey { curve, spki: [curve.spki_prefix(), point].concat() };
        Ok(Key(Arc::new(Secret { pkcs8: pkcs8.to_vec(), der, fixed, public, random })))
    }

    /// The key as PKCS#8.
    pub fn to_pem(&self) -> String {
        pem::encode("PRIVATE KEY", &self.0.pkcs8)
    }

    /// The key as PKCS#8 in DER, for a TLS stack.
    pub fn pkcs8_der(&self) -> &[u8] {
        &self.0.pkcs8
    }

    /// The curve of the key.
    pub fn curve(&self) -> Curve {
        self.0.public.curve
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        self.0.public.clone()
    }

    /// Signs in ASN.1 DER, the form of certificates and of every signature in `auth.*`.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        let signature = self.0.der.sign(&self.0.random, message).expect("the system has randomness");
        signature.as_ref().to_vec()
    }

    /// Signs as r‖s of fixed length, the form of JOSE.
    pub fn sign_fixed(&self, message: &[u8]) -> Vec<u8> {
        let signature = self.0.fixed.sign(&self.0.random, message).expect("the system has randomness");
        signature.as_ref().to_vec()
    }

    /// A secret that only the owner of this key can compute, a different one for each label.
    pub fn derive_secret(&self, label: &[u8]) -> [u8; 32] {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"aund derived secret");
        let scalar = self.scalar().expect("a key that could be read has a scalar");
        let mut secret = [0; 32];
        salt.extract(scalar)
            .expand(&[label], hkdf::HKDF_SHA256)
            .and_then(|okm| okm.fill(&mut secret))
            .expect("one block is never too much for HKDF");
        secret
    }

    /// The private number itself, so that a key that was re-encoded by some tool still derives the same secrets.
    fn scalar(&self) -> Option<&[u8]> {
        let (info, _) = der::read(der::SEQUENCE, &self.0.pkcs8)?;
        let (_version, rest) = der::read(der::INTEGER, info)?;
        let (_algorithm, rest) = der::read(der::SEQUENCE, rest)?;
        let (wrapped, _) = der::read(der::OCTET_STRING, rest)?;
        let (private, _) = der::read(der::SEQUENCE, wrapped)?;
        let (_version, rest) = der::read(der::INTEGER, private)?;
        der::read(der::OCTET_STRING, rest).map(|(scalar, _)| scalar)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}, private)", self.curve())
    }
}

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo. Another curve, a compressed point, a point beside the curve and bytes behind
    /// the key are refused.
    pub fn from_spki_der(spki: &[u8]) -> Result<PublicKey, CertError> {
        let fits = |curve: &Curve| {
            spki.strip_prefix(curve.spki_prefix()).is_some_and(|xy| xy.len() == 2 * curve.coordinate_bytes())
        };
        let curve = [Curve::P256, Curve::P384].into_iter().find(fits).ok_or(CertError::PublicKey)?;
        let key = PublicKey { curve, spki: spki.to_vec() };
        if key.is_on_curve() { Ok(key) } else { Err(CertError::NotOnCurve(curve)) }
    }

    fn is_on_curve(&self) -> bool {
        // The first byte says that the point is not compressed.
        let (x, y) = self.point()[1..].split_at(self.curve.coordinate_bytes());
        point::is_on_curve(self.curve, x, y)
    }

    /// The curve of the key.
    pub fn curve(&self) -> Curve {
        self.curve
    }

    /// The SubjectPublicKeyInfo, byte for byte as it came in.
    pub fn spki_der(&self) -> &[u8] {
        &self.spki
    }

    /// The content of the subjectPublicKey bit string: the uncompressed point.
    pub(crate) fn point(&self) -> &[u8] {
        &self.spki[self.curve.spki_prefix().len() - 1..]
    }

    /// `sha256:` and the hash of the SubjectPublicKeyInfo.
    pub fn fingerprint(&self) -> String {
        sha256_fingerprint(&self.spki)
    }

    /// Checks a signature in ASN.1 DER.
    pub fn verify(&self, message: &[u8], der_sig: &[u8]) -> bool {
        let algorithm: &dyn signature::VerificationAlgorithm = match self.curve {
            Curve::P256 => &signature::ECDSA_P256_SHA256_ASN1,
            Curve::P384 => &signature::ECDSA_P384_SHA384_ASN1,
        };
        UnparsedPublicKey::new(algorithm, self.point()).verify(message, der_sig).is_ok()
    }

    /// Checks a signature in the form r‖s.
    pub fn verify_fixed(&self, message: &[u8], sig: &[u8]) -> bool {
        let algorithm: &dyn signature::VerificationAlgorithm = match self.curve {
            Curve::P256 => &signature::ECDSA_P256_SHA256_FIXED,
            Curve::P384 => &signature::ECDSA_P384_SHA384_FIXED,
        };
        UnparsedPublicKey::new(algorithm, self.point()).verify(message, sig).is_ok()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({}, {})", self.curve, self.fingerprint())
    }
}

impl rcgen::PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        self.point()
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        self.curve.rcgen()
    }
}

impl rcgen::PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        self.0.public.point()
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        self.curve().rcgen()
    }
}

impl rcgen::SigningKey for Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok(Key::sign(self, message))
    }
}

/// `sha256:` and 64 hexadecimal digits.
pub(crate) fn sha256_fingerprint(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(digest::digest(&digest::SHA256, bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOTH: [Curve; 2] = [Curve::P256, Curve::P384];

    #[test]
    fn a_key_survives_its_pem_and_signs_both_forms() {
        for curve in BOTH {
            let key = Key::from_pem(&Key::generate(curve).to_pem()).unwrap();
            assert_eq!(key.curve(), curve);
            let public = PublicKey::from_spki_der(key.public().spki_der()).unwrap();
            assert!(public.verify(b"hello", &key.sign(b"hello")));
            assert!(public.verify_fixed(b"hello", &key.sign_fixed(b"hello")));
            assert_eq!(key.sign_fixed(b"hello").len(), 2 * curve.coordinate_bytes());
            assert!(!public.verify(b"hello", &key.sign(b"hullo")));
            assert!(!public.verify(b"hello", &key.sign_fixed(b"hello")));
            assert!(!Key::generate(curve).public().verify(b"hello", &key.sign(b"hello")));
        }
    }

    #[test]
    fn printing_a_key_does_not_show_it() {
        let key = Key::generate(Curve::P256);
        assert_eq!(format!("{key:?}"), "Key(P-256, private)");
    }

    #[test]
    fn a_derived_secret_depends_on_the_key_and_the_label_only() {
        for curve in BOTH {
            let key = Key::generate(curve);
            assert_eq!(key.scalar().unwrap().len(), curve.coordinate_bytes());
            let again = Key::from_pem(&key.to_pem()).unwrap();
            assert_eq!(key.derive_secret(b"tokens"), again.derive_secret(b"tokens"));
            assert_ne!(key.derive_secret(b"tokens"), key.derive_secret(b"nonces"));
            assert_ne!(key.derive_secret(b"tokens"), Key::generate(curve).derive_secret(b"tokens"));
        }
    }

    #[test]
    fn a_point_beside_the_curve_is_refused() {
        for curve in BOTH {
            let good = Key::generate(curve).public().spki_der().to_vec();
            let mut beside = good.clone();
            *beside.last_mut().unwrap() ^= 1;
            assert_eq!(PublicKey::from_spki_der(&beside), Err(CertError::NotOnCurve(curve)));
            let mut origin = good.clone();
            origin[curve.spki_prefix().len()..].fill(0);
            assert_eq!(PublicKey::from_spki_der(&origin), Err(CertError::NotOnCurve(curve)));
            let mut beyond_the_field = good;
            beyond_the_field[curve.spki_prefix().len()..].fill(0xff);
            assert_eq!(PublicKey::from_spki_der(&beyond_the_field), Err(CertError::NotOnCurve(curve)));
        }
    }

    #[test]
    fn other_curves_other_forms_and_trailing_bytes_are_refused() {
        let good = Key::generate(Curve::P256).public().spki_der().to_vec();
        let mut trailing = good.clone();
        trailing.push(0);
        let mut secp256k1 = hex::decode("3056301006072a8648ce3d020106052b8104000a034200").unwrap();
        secp256k1.extend(&good[26..]);
        let ed25519 = [hex::decode("302a300506032b6570032100").unwrap(), vec![7; 32]].concat();
        let mut compressed = hex::decode("3039301306072a8648ce3d020106082a8648ce3d030107032200").unwrap();
        compressed.push(2);
        compressed.extend(&good[27..59]);
        for wrong in [trailing, secp256k1, ed25519, compressed, good[..90].to_vec(), Vec::new()] {
            assert_eq!(PublicKey::from_spki_der(&wrong), Err(CertError::PublicKey));
        }
    }

    #[test]
    fn a_curve_has_one_name() {
        for curve in BOTH {
            assert_eq!(curve.as_str().parse(), Ok(curve));
            assert_eq!(serde_json::to_value(curve).unwrap(), curve.as_str());
        }
        assert!("p-256".parse::<Curve>().is_err());
    }

    #[test]
    fn what_is_no_key_is_refused_in_a_sentence() {
        let noise = pem::encode("PRIVATE KEY", b"noise");
        assert_eq!(Key::from_pem(&noise).unwrap_err(), CertError::PrivateKey);
        assert_eq!(
            Key::from_pem("").unwrap_err().to_string(),
            "the text must be exactly one PEM block PRIVATE KEY"
        );
    }

    proptest! {
        #[test]
        fn noise_is_never_a_key(noise in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(PublicKey::from_spki_der(&noise).is_err());
            prop_assert!(Key::from_pkcs8(Curve::P256, &noise).is_err());
        }
    }
}
