//! What can be wrong with a key, a certificate or a request for one.

/// Why something could not be read or issued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertError {
    /// The text is not exactly one PEM block of the expected kind.
    #[error("expected exactly one PEM block {0}")]
    Pem(&'static str),
    /// The curve is none that the protocol names.
    #[error("curve {0:?} is not supported, use P-256 or P-384")]
    Curve(String),
    /// The key that signs the list of roots is on the wrong curve.
    #[error("the authority of the list of roots needs a key on P-384, not on {0}")]
    AuthorityCurve(crate::Curve),
    /// The bytes are not a private key on one of our curves.
    #[error("the private key is not a PKCS#8 key on P-256 or P-384")]
    PrivateKey,
    /// The bytes are not a SubjectPublicKeyInfo on one of our curves, or have something behind it.
    #[error("the public key is not an uncompressed point on P-256 or P-384 in DER")]
    PublicKey,
    /// The encoding is fine, the point is not.
    #[error("the public key is not a point on {0}")]
    NotOnCurve(crate::Curve),
    /// The bytes are not a certificate we can read.
    #[error("the certificate cannot be read: {0}")]
    Certificate(String),
    /// A key was handed in together with a certificate for another key.
    #[error("the key does not belong to the certificate of {0}")]
    KeyMismatch(String),
    /// The certificate must not sign certificates.
    #[error("the certificate of {0} is not that of a CA")]
    NotACa(String),
    /// The CA may sign leaves only, or fewer levels than asked for.
    #[error("the path length of {0} leaves no space for another CA")]
    PathLength(String),
    /// A name that cannot stand in a certificate.
    #[error("{0:?} cannot be a name in a certificate")]
    Name(String),
    /// A URL that cannot stand in a certificate.
    #[error("{0:?} cannot be a URL in a certificate")]
    Url(String),
    /// A serial number that is not a positive number of at most twenty bytes.
    #[error("{0:?} is not a serial number")]
    Serial(String),
    /// A time outside the calendar, or an end before its beginning.
    #[error("the time from {0} to {1} cannot be a validity")]
    Validity(i64, i64),
    /// A revocation reason that RFC 5280 does not know.
    #[error("{0:?} is not a revocation reason")]
    Reason(String),
    /// The encoder refused.
    #[error("the certificate could not be written: {0}")]
    Encoding(String),
}

impl From<rcgen::Error> for CertError {
    fn from(error: rcgen::Error) -> Self {
        CertError::Encoding(error.to_string())
    }
}
