//! `ca.verify_chain`: is this certificate issued under our root, valid now, and not revoked?

use crate::{CaService, Error};
use certs::Certificate;
use kernel::{Caller, CpuOwner};
use proto_schemas::requests::ca::{VerifiedCertificate, VerifyChain};
use std::slice;
use std::sync::Arc;

impl CaService {
    pub(crate) async fn verify_chain(
        self: Arc<Self>,
        _: Caller,
        params: VerifyChain,
    ) -> Result<VerifiedCertificate, Error> {
        let reason = match Certificate::from_pem(&params.cert) {
            Err(error) => Some(error.to_string()),
            Ok(leaf) => self.why_not(leaf).await?,
        };
        Ok(VerifiedCertificate { valid: reason.is_none(), reason })
    }

    /// Who shows a certificate that is not known has not proved anything yet: its signature is verified beside the threads of
    /// the runtime.
    async fn why_not(self: &Arc<Self>, leaf: Certificate) -> Result<Option<String>, Error> {
        let (ca, now) = (self.clone(), self.clock.now_seconds());
        let checked = self.cpu.run(CpuOwner::Server, move || {
            let issuer = ca.authority().certificate();
            // The leaf is all that can be made up here, so its signature is the first.
            certs::verify_chain(&leaf, &[], slice::from_ref(issuer), now)?;
            let between = [issuer.clone(), ca.pki.registry.clone()];
            certs::verify_chain(&leaf, &between, slice::from_ref(&ca.pki.root), now).map(|()| leaf)
        });
        let leaf = match checked.await? {
            Ok(leaf) => leaf,
            Err(error) => return Ok(Some(error.to_string())),
        };
        let row = self.store.by_serial(leaf.serial()).await?;
        Ok(match row {
            Some(row) if row.state == "revoked" => Some("the certificate was revoked".to_owned()),
            Some(row) if row.fingerprint == leaf.fingerprint() => None,
            _ => Some("the certificate is not one this authority signed".to_owned()),
        })
    }
}
