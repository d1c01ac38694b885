//! TLS to the servers of another domain: their certificates are signed by a public authority, or by the domain's own
//! authority under a root of our list that is trusted for the domain.

use super::PeerTrust;
use super::blocked::is_blocked;
use crate::tls_verifier::{self, PROVIDER, PresentedCertificate, Verdict};
use certs::Certificate;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::CertificateDer;
use rustls::{Error, RootCertStore};
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};
use tokio_rustls::TlsConnector;

type RootVerifier = Option<Arc<WebPkiServerVerifier>>;

static PUBLIC: LazyLock<RootVerifier> = LazyLock::new(|| {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), PROVIDER.clone()).build().ok()
});

/// TLS to the servers of one domain. Made anew for each dial, because the list of roots may have changed.
pub fn connector(trust: &PeerTrust, public_roots: bool, issuer: &str) -> Result<TlsConnector, Error> {
    let mut roots = RootCertStore::empty();
    for root in trust.roots_for(issuer) {
        roots.add(CertificateDer::from(root.der().to_vec()))?;
    }
    let verifier = PeerTlsVerifier {
        issuer: issuer.to_owned(),
        // Without any root there is no verifier.
        own: WebPkiServerVerifier::builder_with_provider(Arc::new(roots), PROVIDER.clone()).build().ok(),
        public: public_roots.then(|| PUBLIC.clone()).flatten(),
        pinned: trust.pinned(issuer),
        blocked: trust.blocked_keys(),
    };
    let mut config = tls_verifier::client_config(move |shown| verifier.verify(shown))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

struct PeerTlsVerifier {
    issuer: String,
    own: RootVerifier,
    public: RootVerifier,
    /// The key that the authority of the domain had when it was seen first.
    pinned: Option<String>,
    /// Keys and certificates that are blocked under whatever name.
    blocked: Arc<HashSet<String>>,
}

impl PeerTlsVerifier {
    fn verify(&self, shown: &PresentedCertificate<'_>) -> Verdict {
        self.check_blocked(shown)?;
        let by_its_authority = self.by_its_authority(shown);
        let Some(public) = self.public.as_ref().filter(|_| by_its_authority.is_err()) else {
            return by_its_authority;
        };
        // If both refuse, the first error counts: it says what is wrong with the authority of the domain.
        let PresentedCertificate { leaf, between, name, ocsp, now } = *shown;
        public.verify_server_cert(leaf, between, name, ocsp, now).or(by_its_authority)
    }

    /// None of the certificates that are shown may be blocked, whoever vouches for them.
    fn check_blocked(&self, shown: &PresentedCertificate<'_>) -> Result<(), Error> {
        if self.blocked.is_empty() {
            return Ok(());
        }
        // Certificates of public authorities may have keys that we cannot read, and that nobody blocks.
        let mut shown = std::iter::once(shown.leaf).chain(shown.between);
        let blocked = |der: &CertificateDer<'_>| {
            Certificate::from_der(der).is_ok_and(|certificate| is_blocked(&self.blocked, &certificate))
        };
        match shown.any(blocked) {
            true => Err(Error::General(format!("this domain does not federate with {}", self.issuer))),
            false => Ok(()),
        }
    }

    /// The key of an authority that was seen before counts, until the operator accepts another one.
    fn check_pinned(&self, signer: &Certificate) -> Result<(), Error> {
        match &self.pinned {
            Some(pinned) if *pinned != signer.public_key().fingerprint() => Err(Error::General(format!(
                "the authority of {} has another key than before; aund certs trust unpin accepts it",
                self.issuer
            ))),
            _ => Ok(()),
        }
    }

    /// A chain to a trusted root in which the authority of the domain signed the leaf: that of another domain could sign any
    /// name.
    fn by_its_authority(&self, shown: &PresentedCertificate<'_>) -> Verdict {
        let PresentedCertificate { leaf, between, name, now, .. } = *shown;
        let Some(own) = &self.own else {
            return Err(Error::General(format!("no root is trusted for {}", self.issuer)));
        };
        let verified = own.verify_server_cert(leaf, between, name, &[], now)?;
        let unreadable = |error: certs::CertError| Error::General(error.to_string());
        let leaf = Certificate::from_der(leaf).map_err(unreadable)?;
        let mut authorities = between.iter().filter_map(|der| Certificate::from_der(der).ok());
        let signer = authorities.find(|authority| {
            authority.subject_name_der() == leaf.issuer_name_der()
                && leaf.is_signed_by(authority.public_key())
        });
        match signer {
            Some(signer) if signer.common_name() == self.issuer => {
                self.check_pinned(&signer).map(|()| verified)
            }
            Some(signer) => Err(Error::General(format!(
                "it is signed by the authority of {}, not by that of {}",
                signer.common_name(),
                self.issuer
            ))),
            None => {
                Err(Error::General("the certificate of the authority that signed it is missing".to_owned()))
            }
        }
    }
}
