//! `ca.get_cert_chain`: issuer, registry and root, in the order clients verify them.

use crate::{CaService, Error};
use kernel::Caller;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize)]
pub(crate) struct GetCertChainParams {}

#[derive(Clone, Serialize)]
pub(crate) struct CertChain {
    pub chain: String,
    pub certs: Vec<String>,
}

impl CaService {
    pub(crate) async fn get_cert_chain(
        self: Arc<Self>,
        _: Caller,
        _: GetCertChainParams,
    ) -> Result<CertChain, Error> {
        let certs: Vec<String> = self.pki.chain().map(|certificate| certificate.pem().to_owned()).collect();
        Ok(CertChain { chain: certs.concat(), certs })
    }
}
