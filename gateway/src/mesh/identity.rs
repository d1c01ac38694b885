//! Who a process is on the mesh: its certificate, its key, and the authority it trusts.

use crate::config;
use anyhow::Context as _;
use kernel::Clock;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Read anew for every link, so that a renewed certificate is used without a restart.
pub struct MeshIdentity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    roots: Arc<RootCertStore>,
}

const DOMAIN: &str = ".mesh.internal";

/// The name of a service in a mesh certificate. It does not name a machine: the service may run anywhere.
pub fn server_name(service: &str) -> String {
    format!("{service}{DOMAIN}")
}

/// The service that has this name on the mesh.
pub(super) fn service_of(server_name: &str) -> Option<&str> {
    server_name.strip_suffix(DOMAIN)
}

impl MeshIdentity {
    pub fn read(mesh: &config::MeshConfig) -> anyhow::Result<MeshIdentity> {
        let chain = certificates("mesh.cert", mesh.cert.as_deref())?;
        let file = mesh.key.as_deref().context("mesh.key is not set")?;
        let key = PrivateKeyDer::from_pem_file(file)
            .with_context(|| format!("mesh.key: {} holds no private key", file.display()))?;
        let mut roots = RootCertStore::empty();
        for root in certificates("mesh.authority", mesh.authority.as_deref())? {
            roots.add(root).context("mesh.authority is not a certificate of an authority")?;
        }
        Ok(MeshIdentity { chain, key, roots: Arc::new(roots) })
    }

    /// For both kinds of connection: a WebSocket names no protocol.
    pub fn acceptor(self, protocol: &[u8]) -> anyhow::Result<TlsAcceptor> {
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(self.roots, provider.clone()).build()?;
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.chain, self.key)
            .context("mesh: the certificate and the key do not match")?;
        tls.alpn_protocols = vec![protocol.to_vec()];
        Ok(TlsAcceptor::from(Arc::new(tls)))
    }

    pub fn connector(self, protocol: Option<&[u8]>) -> anyhow::Result<TlsConnector> {
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(self.roots, provider.clone()).build()?;
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_webpki_verifier(verifier)
            .with_client_auth_cert(self.chain, self.key)
            .context("mesh: the certificate and the key do not match")?;
        tls.alpn_protocols = protocol.into_iter().map(<[u8]>::to_vec).collect();
        Ok(TlsConnector::from(Arc::new(tls)))
    }

    /// When the certificate expires, in seconds since 1970.
    pub fn not_after(&self) -> i64 {
        self.chain.first().map_or(0, not_after)
    }

    /// The services this process itself may speak for.
    pub fn services(&self) -> Vec<&'static str> {
        self.chain.first().map(services_of).unwrap_or_default()
    }
}

/// When a certificate expires, in seconds since 1970; 0 if it cannot be read.
pub(super) fn not_after(certificate: &CertificateDer<'_>) -> i64 {
    certs::Certificate::from_der(certificate).map_or(0, |certificate| certificate.not_after())
}

/// Returns when the clock has passed this second: a link must not outlive the certificates it was made with.
pub(super) async fn expired(clock: &Clock, second: i64) {
    // Checked again at least once a minute, because clocks are set.
    while let Ok(left @ 1..) = u64::try_from(second - clock.now_seconds()) {
        tokio::time::sleep(Duration::from_secs(left.min(60))).await;
    }
}

/// The services the holder of a certificate may speak for.
pub(super) fn services_of(certificate: &CertificateDer<'_>) -> Vec<&'static str> {
    let Ok(parsed) = ParsedCertificate::try_from(certificate) else { return Vec::new() };
    proto_schemas::services()
        .filter(|service| {
            let name = ServerName::try_from(server_name(service));
            name.is_ok_and(|name| rustls::client::verify_server_name(&parsed, &name).is_ok())
        })
        .collect()
}

fn certificates(setting: &str, file: Option<&Path>) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let file = file.with_context(|| format!("{setting} is not set"))?;
    let read: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .with_context(|| format!("{setting}: {} holds no certificates", file.display()))?;
    anyhow::ensure!(!read.is_empty(), "{setting}: {} holds no certificates", file.display());
    Ok(read)
}
