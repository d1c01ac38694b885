//! TLS at both ends of the bench: a throw-away PKI for the baseline, and a client that verifies no certificate.

use std::sync::Arc;

use certs::dev::Pki;
use certs::{Curve, Key, Urls};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme};

/// The baseline's certificates are valid around this moment. They are not verified, so it need not be now.
const ISSUED: i64 = 1_700_000_000;
const YEAR: i64 = 365 * 24 * 60 * 60;

/// What the raw baseline serves TLS with: a P-256 leaf and the two authorities above it.
pub(super) fn server() -> anyhow::Result<Arc<ServerConfig>> {
    const NAME: &str = "raw.localhost";
    let (pki, key) = (Pki::new(NAME, ISSUED), Key::generate(Curve::P256));
    let url = format!("http://{NAME}/");
    let urls = Urls { ca_issuers: url.clone(), ocsp: url.clone(), crl: url };
    let names = [NAME.to_owned()];
    let leaf = pki.issuer.issue_service(NAME, &key.public(), &names, &[], &urls, ISSUED, ISSUED + YEAR)?;
    let chain = [&leaf, pki.issuer.certificate(), pki.registry.certificate()];
    let chain = chain.map(|certificate| CertificateDer::from(certificate.der().to_vec())).to_vec();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, PrivatePkcs8KeyDer::from(key.pkcs8_der().to_vec()).into())?;
    Ok(Arc::new(config))
}

/// What the load generator dials with.
///
/// It talks to its own children over loopback, and the cost of verifying a chain would be the client's, which
/// is not measured. Resumption is off, so that each connect is a full handshake.
pub(super) fn client() -> anyhow::Result<Arc<ClientConfig>> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(UnverifiedServer(provider)))
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

#[derive(Debug)]
struct UnverifiedServer(Arc<CryptoProvider>);

impl ServerCertVerifier for UnverifiedServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
