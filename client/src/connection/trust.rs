//! The root certificate that a gateway must prove itself with.

use crate::error::Error;
use crate::files;
use certs::Certificate;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use tokio_rustls::TlsConnector;

static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(ring::default_provider()));

/// A root, and where it was found.
pub struct TrustedRoot {
    /// The certificate itself.
    pub certificate: Certificate,
    /// The file that holds it.
    pub file: PathBuf,
    /// Whether it was taken from the server itself just now.
    pub first_use: bool,
}

impl TrustedRoot {
    /// Reads a root from a PEM file.
    pub fn read(file: &Path) -> Result<TrustedRoot, Error> {
        let certificate = Certificate::from_pem(&files::read(file)?).map_err(|error| {
            Error::Invalid(format!("{} is not a root certificate: {error}", file.display()))
        })?;
        Ok(TrustedRoot { certificate, file: file.to_owned(), first_use: false })
    }
}

/// TLS to servers whose certificates this root issued, and to no others.
pub(crate) fn connector(root: &Certificate) -> Result<TlsConnector, Error> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from(root.der().to_vec()))
        .map_err(|error| Error::Invalid(format!("the root cannot be trusted: {error}")))?;
    connector_of(roots)
}

/// TLS to servers whose certificates an authority of the public web issued.
pub(crate) fn web_connector() -> Result<TlsConnector, Error> {
    connector_of(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() })
}

fn connector_of(roots: RootCertStore) -> Result<TlsConnector, Error> {
    let config = ClientConfig::builder_with_provider(PROVIDER.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Invalid(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// TLS without verifying whose certificate it is.
pub(crate) fn unverified_connector() -> Result<TlsConnector, Error> {
    let config = ClientConfig::builder_with_provider(PROVIDER.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Invalid(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(FirstUseVerifier))
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Accepts any certificate. That the server has its key is checked all the same.
#[derive(Debug)]
struct FirstUseVerifier;

impl ServerCertVerifier for FirstUseVerifier {
    fn verify_server_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &PROVIDER.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &PROVIDER.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        PROVIDER.signature_verification_algorithms.supported_schemes()
    }
}
