//! `ca.remove_trust_root`: trust nothing under the root of another operator any more.

use crate::store::{RootChange, RootChangeOutcome};
use crate::trust::{digits, id};
use crate::{CaService, Error};
use kernel::Caller;
use proto_schemas::requests::ca::{RemoveTrustRoot, RemovedTrustRoot};
use serde_json::Value;
use std::sync::Arc;

impl CaService {
    pub(crate) async fn remove_trust_root(
        self: Arc<Self>,
        _: Caller,
        params: RemoveTrustRoot,
    ) -> Result<RemovedTrustRoot, Error> {
        let (fingerprint, name) = self.listed_root(&params).await?;
        if fingerprint == digits(&self.pki.root) {
            return Err(Error::OwnRoot);
        }

        let change = RootChange::Remove { fingerprint: &fingerprint, at: self.clock.now_seconds() };
        let removed = matches!(self.change_roots(&change).await?, RootChangeOutcome::Published);
        if removed {
            self.tell_trust_changed();
        }
        Ok(RemovedTrustRoot { removed, id: id(&fingerprint), name, fingerprint_sha256: fingerprint })
    }

    /// The fingerprint and the name of the root. Whatever can be removed is in the list.
    async fn listed_root(&self, params: &RemoveTrustRoot) -> Result<(String, String), Error> {
        let (member, wanted) = match (&params.fingerprint, &params.id) {
            (Some(fingerprint), None) => ("fingerprint_sha256", plain(fingerprint)),
            (None, Some(id)) => ("id", id.clone()),
            _ => return Err(Error::Bad("either fingerprint or id must be given".to_owned())),
        };
        let (_, _, document) = self.store.trust_list().await?.ok_or(Error::NoTrustList)?;
        let list: Value = serde_json::from_str(&document)?;
        let mut roots = list["root_cas"].as_array().into_iter().flatten();
        let root = roots.find(|root| root[member] == wanted.as_str()).ok_or(Error::RootNotFound(wanted))?;
        let text = |name: &str| root[name].as_str().unwrap_or_default().to_owned();
        Ok((text("fingerprint_sha256"), text("name")))
    }
}

/// As people copy it: with or without `sha256:`, in either case, with colons between.
fn plain(fingerprint: &str) -> String {
    let text = fingerprint.trim().to_ascii_lowercase();
    text.strip_prefix("sha256:").unwrap_or(&text).replace(':', "")
}
