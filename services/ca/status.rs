//! `ca.status`: how many certificates there are in each state.

use super::{CaService, Error};
use kernel::Caller;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Deserialize)]
pub(super) struct StatusParams {}

#[derive(Clone, Serialize)]
pub(super) struct CaStatus {
    issuer: String,
    certificates: BTreeMap<String, i64>,
}

impl CaService {
    pub(super) async fn status(self: Arc<Self>, _: Caller, _: StatusParams) -> Result<CaStatus, Error> {
        Ok(CaStatus {
            issuer: self.issuer.clone(),
            certificates: self.store.count_by_state().await?.into_iter().collect(),
        })
    }
}
