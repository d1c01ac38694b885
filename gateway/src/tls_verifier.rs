//! TLS to a server whose certificate is verified by a rule of the caller. That the server has the key of its certificate is
//! checked here, whatever the rule says.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use std::fmt;
use std::sync::{Arc, LazyLock};

pub static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(ring::default_provider()));

pub type Verdict = Result<ServerCertVerified, rustls::Error>;

/// The certificate a server presents, and the name it was dialled by.
pub struct PresentedCertificate<'a> {
    pub leaf: &'a CertificateDer<'a>,
    pub between: &'a [CertificateDer<'a>],
    pub name: &'a ServerName<'a>,
    pub ocsp: &'a [u8],
    pub now: UnixTime,
}

pub fn client_config(
    rule: impl Fn(&PresentedCertificate<'_>) -> Verdict + Send + Sync + 'static,
) -> Result<ClientConfig, rustls::Error> {
    let config = ClientConfig::builder_with_provider(PROVIDER.clone())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(TlsVerifier(rule)))
        .with_no_client_auth();
    Ok(config)
}

struct TlsVerifier<Rule>(Rule);

impl<Rule> fmt::Debug for TlsVerifier<Rule> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsVerifier")
    }
}

impl<Rule: Fn(&PresentedCertificate<'_>) -> Verdict + Send + Sync> ServerCertVerifier for TlsVerifier<Rule> {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Verdict {
        (self.0)(&PresentedCertificate { leaf, between, name, ocsp, now })
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
