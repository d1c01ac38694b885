//! `ca.status`: how many certificates there are in each state.

use super::{CaService, Error};
use kernel::Caller;
use proto_schemas::requests::ca::{CertificateCounts, Status};
use std::sync::Arc;

impl CaService {
    pub(super) async fn status(self: Arc<Self>, _: Caller, _: Status) -> Result<CertificateCounts, Error> {
        Ok(CertificateCounts {
            issuer: self.issuer.clone(),
            certificates: self.store.count_by_state().await?.into_iter().collect(),
        })
    }
}
