//! The listener's certificate: the operator's own, or one from the server's authority.

use crate::config::Config;
use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{Certificate, Curve, Identity, Key};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::Deserialize;
use serde_json::json;
use services::kernel::{Caller, World, files};
use std::fs;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// Replaced at start when less than this is left.
const LEAD_SECONDS: i64 = 240 * 86_400;

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
        _ => own(world).await.context("the listener's certificate could not be made")?,
    };
    let mut tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("tls: the certificate and the key do not fit each other")?;
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Agents come back often; with a ticket they need no second handshake.
    tls.ticketer = ring::Ticketer::new()?;
    Ok(TlsAcceptor::from(Arc::new(tls)))
}

/// The door's own key, and a certificate for every name under the issuer.
async fn own(world: &World) -> anyhow::Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    #[derive(Deserialize)]
    struct Made {
        cert: String,
        cert_chain: Vec<String>,
    }
    let folder = world.data.join("pki/gateway");
    let (key_file, crt_file) = (folder.join("tls.key"), folder.join("tls.crt"));
    let good = |pem: &str| {
        let certificate = Certificate::from_pem(pem).ok()?;
        (certificate.not_after() - world.clock.now_seconds() > LEAD_SECONDS).then_some(certificate)
    };
    let kept = fs::read_to_string(&key_file).ok().zip(fs::read_to_string(&crt_file).ok());
    let (key, chain) = match kept.filter(|(_, chain)| good(first(chain)).is_some()) {
        Some((key, chain)) => (Key::from_pem(&key)?, chain),
        None => {
            for old in [&key_file, &crt_file] {
                if old.exists() {
                    fs::remove_file(old)?;
                }
            }
            let key = Key::generate(Curve::P256);
            let request = json!({
                "name": format!("gateway.{}", world.issuer),
                "public_key": STANDARD.encode(key.public().spki_der()),
                "curve": Curve::P256,
                "dns_names": [world.issuer, format!("*.{}", world.issuer), "localhost"],
                "ips": ["127.0.0.1", "::1"],
            });
            let made: Made =
                world.mesh.ask(Caller::room("gateway"), "ca.issue_service_cert", &request).await?;
            // The root stays out: whoever trusts it has it.
            let between = &made.cert_chain[..made.cert_chain.len().saturating_sub(1)];
            let chain = format!("{}{}", made.cert, between.concat());
            files::write_new(&key_file, &key.to_pem())?;
            files::write_new(&crt_file, &chain)?;
            (key, chain)
        }
    };
    Identity::from_pem(first(&chain), &key.to_pem())?;
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(key.to_pem().as_bytes())?;
    Ok((chain, key))
}

/// The leaf of a chain in PEM.
fn first(chain: &str) -> &str {
    const END: &str = "-----END CERTIFICATE-----";
    chain.find(END).map_or(chain, |at| &chain[..at + END.len()])
}
