//! The listener's certificate: the operator's own, or one from ca.

use crate::config::Config;
use anyhow::Context as _;
use certs::Curve;
use kernel::{Caller, Purpose, World};
use proto_schemas::requests::ca;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

type Credentials = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

pub async fn acceptor(config: &Config, world: &World) -> anyhow::Result<TlsAcceptor> {
    let (chain, key) = match (&config.tls.cert, &config.tls.key) {
        (Some(cert), Some(key)) => {
            let chain = CertificateDer::pem_file_iter(cert)
                .and_then(Iterator::collect)
                .with_context(|| format!("tls.cert: {} holds no certificates", cert.display()))?;
            let key = PrivateKeyDer::from_pem_file(key)
                .with_context(|| format!("tls.key: {} holds no private key", key.display()))?;
            (chain, key)
        }
        _ => own(world).await.context("the listener's certificate could not be created")?,
    };
    let mut tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("tls: the certificate and the key do not match")?;
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Agents reconnect often; with a ticket they need no second full handshake.
    tls.ticketer = ring::Ticketer::new()?;
    Ok(TlsAcceptor::from(Arc::new(tls)))
}

/// The gateway's own key, and a certificate for every name under the issuer. The root is left out: clients that trust it have it.
async fn own(world: &World) -> anyhow::Result<Credentials> {
    let purpose = Purpose {
        service: "gateway",
        file: "tls",
        curve: Curve::P256,
        key_purpose: None,
        dns_names: vec![world.issuer.clone(), format!("*.{}", world.issuer), "localhost".to_owned()],
        ips: vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
    };
    let identity = world.identity(&purpose).await?;
    let certs = world.mesh.ask(Caller::service("gateway"), &ca::GetCertChain {}).await?.certs;
    let intermediates = &certs[..certs.len().saturating_sub(1)];
    let chain = format!("{}{}", identity.certificate().pem(), intermediates.concat());
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(identity.key().to_pem().as_bytes())?;
    Ok((chain, key))
}
