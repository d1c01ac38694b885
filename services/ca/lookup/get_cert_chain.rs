//! `ca.get_cert_chain`: issuer, registry and root, in the order clients verify them.

use crate::{CaService, Error};
use kernel::Caller;
use proto_schemas::requests::ca::{GetCertChain, IssuerCertChain};
use std::sync::Arc;

impl CaService {
    pub(crate) async fn get_cert_chain(
        self: Arc<Self>,
        _: Caller,
        _: GetCertChain,
    ) -> Result<IssuerCertChain, Error> {
        let certs: Vec<String> = self.pki.chain().map(|certificate| certificate.pem().to_owned()).collect();
        Ok(IssuerCertChain { chain: certs.concat(), certs })
    }
}
