//! Whom an agent believes to be its gateway.

use super::dial::{Gateway, Target};
use super::home;
use crate::tls_verifier::{self, PROVIDER};
use anyhow::{Context as _, bail};
use certs::Certificate;
use rustls::client::danger::ServerCertVerified;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// A root, and where it was found.
pub struct Root {
    pub certificate: Certificate,
    pub file: PathBuf,
    /// Whether it was taken from the server itself just now.
    pub first_use: bool,
}

/// The first of these files that is there; on this machine, where nobody stands between, else what the server says.
pub async fn root_of(gateway: &Gateway, files: &[PathBuf], keep_at: &Path) -> anyhow::Result<Root> {
    for file in files {
        if file.exists() {
            return Root::read(file);
        }
    }
    if keep_at.exists() {
        return Root::read(keep_at);
    }
    if !gateway.is_loopback() {
        bail!(
            "nothing says whom to trust at {}: give the root certificate with --root FILE",
            gateway.place()
        );
    }
    let pem = Target::unproven(gateway.clone())?.get("/pki/root.crt").await?;
    let certificate = Certificate::from_pem(&pem)
        .with_context(|| format!("the gateway at {} has no root certificate to show", gateway.place()))?;
    home::put_once(keep_at, certificate.pem())?;
    Ok(Root { certificate, file: keep_at.to_owned(), first_use: true })
}

impl Root {
    pub fn read(file: &Path) -> anyhow::Result<Root> {
        let pem = fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
        let certificate =
            Certificate::from_pem(&pem).with_context(|| format!("{} is no root", file.display()))?;
        Ok(Root { certificate, file: file.to_owned(), first_use: false })
    }
}

/// TLS to servers that this root vouches for, and to no others.
pub(super) fn connector(root: &Certificate) -> anyhow::Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(root.der().to_vec())).context("the root cannot be trusted")?;
    let config = ClientConfig::builder_with_provider(PROVIDER.clone())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// TLS to whoever answers.
pub(super) fn anybody() -> anyhow::Result<TlsConnector> {
    let config = tls_verifier::client_config(|_| Ok(ServerCertVerified::assertion()))?;
    Ok(TlsConnector::from(Arc::new(config)))
}
