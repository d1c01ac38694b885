//! `ca.add_trust_root`: trust the certificates under the root of another operator from now on.

use crate::store::{MOST_ROOTS, RootChange, RootChangeOutcome, TrustRoot};
use crate::trust::{digits, domains_of, id};
use crate::{CaService, Error};
use certs::{Certificate, RootDomains};
use kernel::Caller;
use proto_schemas::requests::ca::{AddTrustRoot, AddedTrustRoot};
use std::sync::Arc;

/// Domains and patterns that one root may have.
const MOST_DOMAINS: usize = 100;

impl CaService {
    pub(crate) async fn add_trust_root(
        self: Arc<Self>,
        _: Caller,
        params: AddTrustRoot,
    ) -> Result<AddedTrustRoot, Error> {
        let domains = wanted_domains(params.domains.as_deref(), params.any_domain)?;
        self.trust(&params.certificate, Some(&domains)).await
    }

    /// Trusts a root for these domains; without them it was never said, as in earlier versions.
    pub(crate) async fn trust(
        &self,
        pem: &str,
        domains: Option<&RootDomains>,
    ) -> Result<AddedTrustRoot, Error> {
        let certificate = Certificate::from_pem(pem.trim_start())
            .map_err(|error| Error::Bad(format!("certificate: {error}")))?;
        let now = self.clock.now_seconds();
        check(&certificate, now)?;
        let fingerprint = digits(&certificate).to_owned();
        let name = certificate.common_name().to_owned();
        if fingerprint == digits(&self.pki.root) {
            let domains = vec![self.issuer.clone()];
            return Ok(AddedTrustRoot {
                added: false,
                id: self.own_id(),
                name,
                fingerprint_sha256: fingerprint,
                domains,
            });
        }

        let root = TrustRoot {
            fingerprint: fingerprint.clone(),
            pem: certificate.pem().to_owned(),
            domains: domains.map(|domains| domains.patterns().join(" ")).unwrap_or_default(),
            added_at: now,
            removed_at: None,
        };
        let added = match self.change_roots(&RootChange::Add(&root)).await? {
            RootChangeOutcome::Published => true,
            RootChangeOutcome::Unchanged => false,
            RootChangeOutcome::Full => return Err(Error::Full(MOST_ROOTS)),
        };
        if added {
            self.tell_trust_changed();
        }
        let domains = domains_of(&root, &certificate).patterns().to_vec();
        Ok(AddedTrustRoot { added, id: id(&fingerprint), name, fingerprint_sha256: fingerprint, domains })
    }
}

/// The domains that are named, or all of them where that is said.
fn wanted_domains(domains: Option<&[String]>, any_domain: Option<bool>) -> Result<RootDomains, Error> {
    match (domains, any_domain) {
        (None | Some([]), Some(true)) => Ok(RootDomains::any()),
        (Some(domains @ [_, ..]), None | Some(false)) => {
            let parsed =
                RootDomains::parse(domains).map_err(|error| Error::Bad(format!("domains: {error}")))?;
            if parsed.is_any() {
                return Err(Error::Bad("domains must name domains; use any_domain for all".to_owned()));
            }
            if domains.len() > MOST_DOMAINS {
                return Err(Error::Bad(format!("domains must have at most {MOST_DOMAINS} entries")));
            }
            Ok(parsed)
        }
        _ => Err(Error::Bad("either domains or any_domain must be given".to_owned())),
    }
}

/// A root is signed by itself, may sign others, and is valid now.
fn check(certificate: &Certificate, now: i64) -> Result<(), Error> {
    let name = certificate.common_name();
    let own = certificate.issuer_name_der() == certificate.subject_name_der()
        && certificate.is_signed_by(certificate.public_key());
    if !own {
        return Err(Error::Bad(format!("the certificate of {name} must be a root: another one signed it")));
    }
    if !certificate.is_ca() {
        return Err(Error::Bad(format!("the certificate of {name} must be that of an authority")));
    }
    if !(certificate.not_before()..=certificate.not_after()).contains(&now) {
        return Err(Error::Bad(format!("the certificate of {name} is not valid now")));
    }
    Ok(())
}
