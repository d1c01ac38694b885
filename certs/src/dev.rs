//! A whole PKI for tests.

use crate::Authority;

/// A root, a registry below it, and the issuer of one domain below that.
#[derive(Debug)]
pub struct Pki {
    /// The trust anchor.
    pub root: Authority,
    /// Signed by the root.
    pub registry: Authority,
    /// Signed by the registry; signs the leaves of the domain.
    pub issuer: Authority,
}

impl Pki {
    /// Makes all three, with addresses under `domain`.
    pub fn new(domain: &str, now: i64) -> Pki {
        let root = Authority::root("AUN Development Root CA", "AUN Development", now);
        let registry = root
            .registry("AUN Registry CA Development", &format!("http://pki.{domain}/root.crl"), now)
            .expect("a root may sign a registry");
        let issuer = registry
            .issuer(
                domain,
                &format!("http://{domain}/ca/cert"),
                &format!("http://pki.{domain}/registry.crl"),
                now,
            )
            .expect("a registry may sign an issuer");
        Pki { root, registry, issuer }
    }

    /// The chain as `/pki/chain` serves it: issuer, registry, root, in PEM.
    pub fn chain_pem(&self) -> String {
        [&self.issuer, &self.registry, &self.root].map(|authority| authority.certificate().pem()).concat()
    }
}
