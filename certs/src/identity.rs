//! A leaf with its key.

use crate::{CertError, Certificate, Key};

/// A leaf certificate with its key: signs messages.
#[derive(Clone, Debug)]
pub struct Identity {
    certificate: Certificate,
    key: Key,
}

impl Identity {
    /// Joins a leaf and its key; a key of another certificate is refused.
    pub fn new(certificate: Certificate, key: Key) -> Result<Identity, CertError> {
        require_pair(&certificate, &key)?;
        Ok(Identity { certificate, key })
    }

    /// Reads a leaf and its key; a key of another certificate is refused.
    pub fn from_pem(cert: &str, key: &str) -> Result<Identity, CertError> {
        Identity::new(Certificate::from_pem(cert)?, Key::from_pem(key)?)
    }

    /// The certificate.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The private key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Signs in ASN.1 DER with the hash of the key's curve.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.key.sign(message)
    }
}

/// A certificate is for one key; what another key signs cannot be verified with it.
pub(crate) fn require_pair(certificate: &Certificate, key: &Key) -> Result<(), CertError> {
    if *certificate.public_key() == key.public() {
        return Ok(());
    }
    Err(CertError::KeyMismatch(certificate.common_name().to_owned()))
}
