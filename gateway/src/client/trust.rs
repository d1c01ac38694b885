//! The root certificate that a gateway must prove itself with.

use crate::tls_verifier::{self, PROVIDER};
use anyhow::Context as _;
use certs::Certificate;
use rustls::client::danger::ServerCertVerified;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// A root, and where it was found.
pub struct TrustedRoot {
    pub certificate: Certificate,
    pub file: PathBuf,
    /// Whether it was taken from the server itself just now.
    pub first_use: bool,
}

impl TrustedRoot {
    pub fn read(file: &Path) -> anyhow::Result<TrustedRoot> {
        let pem = fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
        let certificate = Certificate::from_pem(&pem)
            .with_context(|| format!("{} is not a root certificate", file.display()))?;
        Ok(TrustedRoot { certificate, file: file.to_owned(), first_use: false })
    }
}

/// TLS to servers whose certificates this root issued, and to no others.
pub(super) fn connector(root: &Certificate) -> anyhow::Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(root.der().to_vec())).context("the root cannot be trusted")?;
    let config = ClientConfig::builder_with_provider(PROVIDER.clone())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// TLS without verifying the certificate.
pub(super) fn unverified_connector() -> anyhow::Result<TlsConnector> {
    let config = tls_verifier::client_config(|_| Ok(ServerCertVerified::assertion()))?;
    Ok(TlsConnector::from(Arc::new(config)))
}
