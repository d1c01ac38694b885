//! `ca.add_trust_root`: trust the certificates under the root of another operator from now on.

use super::store::{MOST_ROOTS, RootChange, RootChangeOutcome, TrustRoot};
use super::trust::{digits, id};
use super::{Ca, Error};
use crate::kernel::Caller;
use certs::Certificate;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize)]
pub(super) struct AddTrustRootParams {
    certificate: String,
}

#[derive(Clone, Serialize)]
pub(super) struct Added {
    /// False if it was trusted already.
    added: bool,
    id: String,
    name: String,
    fingerprint_sha256: String,
}

impl Ca {
    pub(super) async fn add_trust_root(
        self: Arc<Self>,
        _: Caller,
        params: AddTrustRootParams,
    ) -> Result<Added, Error> {
        self.trust(&params.certificate).await
    }

    pub(super) async fn trust(&self, pem: &str) -> Result<Added, Error> {
        let certificate = Certificate::from_pem(pem.trim_start())
            .map_err(|error| Error::Bad(format!("certificate: {error}")))?;
        let now = self.clock.now_seconds();
        check(&certificate, now)?;
        let fingerprint = digits(&certificate).to_owned();
        let name = certificate.common_name().to_owned();
        if fingerprint == digits(&self.pki.root) {
            return Ok(Added { added: false, id: self.own_id(), name, fingerprint_sha256: fingerprint });
        }

        let root = TrustRoot {
            fingerprint: fingerprint.clone(),
            pem: certificate.pem().to_owned(),
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
        Ok(Added { added, id: id(&fingerprint), name, fingerprint_sha256: fingerprint })
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
