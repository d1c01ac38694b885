//! The signed list of trusted roots: ours, and those of other operators.

mod add_trust_root;
mod get_issuer_pins;
mod get_trust_roots;
mod pin_issuer;
mod remove_trust_root;
mod unpin_issuer;

use super::store::{RootChange, RootChangeOutcome, SignedTrustList, TrustRoot};
use super::{CaService, Error};
use certs::{CertError, Certificate, RootDomains};
use kernel::iso;
use proto_schemas::requests::ca::TrustChanged;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const LIST_SECONDS: i64 = 24 * 3600;
/// A new list is published when the old one has less than this left.
const LEAD_SECONDS: i64 = 12 * 3600;

/// The folder of roots that were added before there was an authority to sign the list. Beside the file of a root stands one
/// that says what it is trusted for, a domain a line.
const ADDED_EARLY: &str = "trust";
const DOMAINS_FILE: &str = "domains";

impl CaService {
    pub(super) async fn refresh_trust_list(&self) -> Result<(), Error> {
        let due = match self.store.trust_list().await? {
            Some((_, next_update, document)) => {
                next_update - LEAD_SECONDS <= self.clock.now_seconds() || !is_complete(&document)
            }
            None => true,
        };
        if due {
            self.change_roots(&RootChange::Renew).await?;
        }
        Ok(())
    }

    pub(super) async fn change_roots(&self, change: &RootChange<'_>) -> Result<RootChangeOutcome, Error> {
        self.store.change_roots(change, |version, roots| self.sign_list(version, roots)).await
    }

    /// Has every gateway read the list again.
    pub(super) fn tell_trust_changed(&self) {
        self.bus.signal(&TrustChanged {});
    }

    /// Adds the roots that the operator put into the folder before the first start. The file of one that is refused stays
    /// there, and the log names it.
    pub(super) async fn adopt_roots(&self, keys: &Path) -> Result<(), Error> {
        let Ok(files) = fs::read_dir(keys.join(ADDED_EARLY)) else { return Ok(()) };
        let files = files.filter_map(Result::ok).map(|entry| entry.path());
        for file in files.filter(|file| file.extension().is_none_or(|kind| kind != DOMAINS_FILE)) {
            let Ok(pem) = fs::read_to_string(&file) else { continue };
            let beside = file.with_extension(DOMAINS_FILE);
            let domains = match domains_in(&beside) {
                Ok(domains) => domains,
                Err(error) => {
                    tracing::warn!("{} is not trusted: {}: {error}", file.display(), beside.display());
                    continue;
                }
            };
            match self.trust(&pem, domains.as_ref()).await {
                Ok(_) => {
                    let _ = fs::remove_file(&file);
                    let _ = fs::remove_file(&beside);
                }
                Err(error @ (Error::Store(_) | Error::TrustListContended)) => return Err(error),
                Err(error) => tracing::warn!("{} is not trusted: {error}", file.display()),
            }
        }
        Ok(())
    }

    fn sign_list(&self, version: i64, roots: &[TrustRoot]) -> SignedTrustList {
        let now = self.clock.now_seconds();
        let own = &self.pki.root;
        let mut ours = certs::roots::entry(&self.own_id(), own, own.not_before());
        ours["crl_url"] = json!(self.root_crl_url);
        ours["ocsp_url"] = json!(self.urls.ocsp);
        ours["domains"] = json!([self.issuer]);
        let theirs = roots.iter().filter_map(|root| entry(root, now));
        let list = json!({
            "version": version,
            "issued_at": iso(now * 1000),
            "next_update": iso((now + LIST_SECONDS) * 1000),
            "authority_cert_pem": self.pki.authority.certificate().pem(),
            "root_cas": std::iter::once(ours).chain(theirs).collect::<Vec<Value>>(),
        });
        let list = certs::roots::sign(list, self.pki.authority.key());
        SignedTrustList { next_update: now + LIST_SECONDS, document: list.to_string() }
    }

    /// Says in the log which roots of other operators are trusted for more than their operator may have meant.
    pub(super) async fn warn_of_wide_roots(&self) -> Result<(), Error> {
        for root in self.store.trust_roots().await?.iter().filter(|root| root.removed_at.is_none()) {
            let Ok(certificate) = Certificate::from_pem(&root.pem) else { continue };
            let (domains, name) = (domains_of(root, &certificate), certificate.common_name());
            let command = "aund certs trust add PEM --domain DOMAIN";
            if domains.is_any() {
                tracing::warn!(
                    "the root {name} ({}) is trusted for any domain: its holder can speak for all of them; {command} \
                     says for which it may",
                    root.fingerprint
                );
            } else if root.domains.is_empty() {
                tracing::warn!(
                    "the root {name} ({}) was added by an earlier version, and is trusted for {domains} because that is \
                     its organization; {command} says otherwise",
                    root.fingerprint
                );
            }
        }
        Ok(())
    }

    pub(super) fn own_id(&self) -> String {
        format!("root-{}", self.issuer)
    }
}

/// Lists of earlier versions do not say where the revocation list of our root is, nor what roots are trusted for, and are
/// signed again.
fn is_complete(document: &str) -> bool {
    let list: Value = serde_json::from_str(document).unwrap_or_default();
    let mut roots = list["root_cas"].as_array().into_iter().flatten();
    list["root_cas"][0]["crl_url"].is_string() && roots.all(|root| root["domains"].is_array())
}

/// What a root is trusted for. One that an earlier version added was trusted for every domain, because nobody was asked: it
/// keeps the domain that its organization names, as every root that this program has made does. Where that is no domain,
/// it stays as it was, and the log, `aund certs trust list` and `aund doctor` say so.
pub(super) fn domains_of(root: &TrustRoot, certificate: &Certificate) -> RootDomains {
    if !root.domains.is_empty() {
        let patterns: Vec<&str> = root.domains.split(' ').collect();
        return RootDomains::parse(&patterns).unwrap_or_else(|_| RootDomains::none());
    }
    let named = certificate.organization();
    let own = Some(named).filter(|name| certs::is_domain(name) && name.contains('.'));
    own.and_then(|name| RootDomains::parse(&[name]).ok()).unwrap_or_else(RootDomains::any)
}

/// What the file beside a root says, if there is one. A file that says nothing must not make the root one for every domain.
fn domains_in(file: &Path) -> Result<Option<RootDomains>, CertError> {
    let Ok(text) = fs::read_to_string(file) else { return Ok(None) };
    let patterns: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if patterns.is_empty() {
        return Err(CertError::Domain(String::new()));
    }
    RootDomains::parse(&patterns).map(Some)
}

/// The list's entry of another operator's root: where its revocation list is, only that operator knows. Clients
/// import what is active, and fail on an active root that has expired.
fn entry(root: &TrustRoot, now: i64) -> Option<Value> {
    let certificate = Certificate::from_pem(&root.pem).ok()?;
    let mut entry = certs::roots::entry(&id(&root.fingerprint), &certificate, root.added_at);
    entry["domains"] = json!(domains_of(root, &certificate).patterns());
    if root.removed_at.is_some() || now > certificate.not_after() {
        entry["status"] = json!("retired");
    }
    Some(entry)
}

/// The name of a root in the list.
pub(super) fn id(fingerprint: &str) -> String {
    format!("root-{}", &fingerprint[..16])
}

/// The 64 digits of a certificate's fingerprint.
pub(super) fn digits(certificate: &Certificate) -> &str {
    certificate.fingerprint().trim_start_matches("sha256:")
}
