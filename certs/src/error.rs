//! What can be wrong with a key, a certificate or a request for one.

/// Why something could not be read or issued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertError {
    /// The text is not exactly one PEM block of the expected kind.
    #[error("the text must be exactly one PEM block {0}")]
    Pem(&'static str),
    /// The curve is not one of the protocol.
    #[error("curve must be P-256 or P-384, and is {0:?}")]
    Curve(String),
    /// The key that signs the list of roots is on the wrong curve.
    #[error("the key that signs the list of roots must be on P-384, and is on {0}")]
    AuthorityCurve(crate::Curve),
    /// The bytes are not a private key on one of our curves.
    #[error("the private key must be a PKCS#8 key on P-256 or P-384")]
    PrivateKey,
    /// The bytes are not a SubjectPublicKeyInfo on one of our curves, or have something behind it.
    #[error("the public key must be an uncompressed point on P-256 or P-384 in DER")]
    PublicKey,
    /// The encoding is fine, the point is not.
    #[error("the public key must be a point on {0}")]
    NotOnCurve(crate::Curve),
    /// The bytes are not a certificate we can read.
    #[error("the certificate cannot be read: {0}")]
    Certificate(String),
    /// A key was handed in together with a certificate for another key.
    #[error("the key does not belong to the certificate of {0}")]
    KeyMismatch(String),
    /// The certificate must not sign certificates.
    #[error("the certificate of {0} must be that of a CA")]
    NotACa(String),
    /// The CA may sign leaves only, or fewer levels than asked for.
    #[error("the path length of {0} does not allow another CA")]
    PathLength(String),
    /// A name that is not valid in a certificate.
    #[error("{0:?} is not a valid name in a certificate")]
    Name(String),
    /// What a root is trusted for is neither a domain nor a pattern.
    #[error("{0:?} is neither a domain nor a pattern such as *.east.example")]
    Domain(String),
    /// A URL that is not valid in a certificate.
    #[error("{0:?} is not a valid URL in a certificate")]
    Url(String),
    /// A serial number that is not a positive number of at most twenty bytes.
    #[error("{0:?} is not a serial number")]
    Serial(String),
    /// A time outside the calendar, or an end before its beginning.
    #[error("the time from {0} to {1} is not a valid validity period")]
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
