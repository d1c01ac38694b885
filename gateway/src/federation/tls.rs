//! Whom we believe, in TLS, to be a server of another domain: what the public authorities vouch for, and what the
//! domain's own authority does under a root of our list.

use super::trust::Trust;
use crate::tls_verifier::{self, PROVIDER, PresentedCertificate, Verdict};
use certs::Certificate;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::CertificateDer;
use rustls::{Error, RootCertStore};
use std::sync::{Arc, LazyLock};
use tokio_rustls::TlsConnector;

type Roots = Option<Arc<WebPkiServerVerifier>>;

static PUBLIC: LazyLock<Roots> = LazyLock::new(|| {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), PROVIDER.clone()).build().ok()
});

/// TLS to the servers of one domain. Made anew for each dial: the list of roots may have changed.
pub fn connector(trust: &Trust, public_roots: bool, issuer: &str) -> Result<TlsConnector, Error> {
    let mut roots = RootCertStore::empty();
    for root in trust.roots().iter() {
        roots.add(CertificateDer::from(root.der().to_vec()))?;
    }
    let verifier = Verifier {
        issuer: issuer.to_owned(),
        // Without a single root there is nobody to believe, and nothing to build.
        own: WebPkiServerVerifier::builder_with_provider(Arc::new(roots), PROVIDER.clone()).build().ok(),
        public: public_roots.then(|| PUBLIC.clone()).flatten(),
    };
    let mut config = tls_verifier::client_config(move |shown| verifier.judge(shown))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

struct Verifier {
    issuer: String,
    own: Roots,
    public: Roots,
}

impl Verifier {
    fn judge(&self, shown: &PresentedCertificate<'_>) -> Verdict {
        let by_its_authority = self.by_its_authority(shown);
        let Some(public) = self.public.as_ref().filter(|_| by_its_authority.is_err()) else {
            return by_its_authority;
        };
        // Which of two refusals is told: the first knows the domain, and says what is wrong with its authority.
        let PresentedCertificate { leaf, between, name, ocsp, now } = *shown;
        public.verify_server_cert(leaf, between, name, ocsp, now).or(by_its_authority)
    }

    /// A chain to a trusted root whose last authority is that of the domain: another domain's could sign any name.
    fn by_its_authority(&self, shown: &PresentedCertificate<'_>) -> Verdict {
        let PresentedCertificate { leaf, between, name, now, .. } = *shown;
        let Some(own) = &self.own else {
            return Err(Error::General("no root is trusted here".to_owned()));
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
            Some(signer) if signer.common_name() == self.issuer => Ok(verified),
            Some(signer) => Err(Error::General(format!(
                "the authority of {} vouches for it, not that of {}",
                signer.common_name(),
                self.issuer
            ))),
            None => Err(Error::General("it does not show the authority that signed it".to_owned())),
        }
    }
}
