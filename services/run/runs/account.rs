//! `run.account`: what runs keep for tenants.

use crate::RunService;
use kernel::{AccountChange, Caller, RpcError};
use proto_schemas::requests::meta::ServiceAccounts;
use proto_schemas::requests::run::Account;
use std::sync::Arc;

impl RunService {
    pub(crate) async fn account(
        self: Arc<Self>,
        _: Caller,
        params: Account,
    ) -> Result<ServiceAccounts, RpcError> {
        let Account { aid, bytes, rows, recount } = params;
        if aid.is_some() && (bytes.is_some() || rows.is_some()) {
            let sentence = "tenants pay for runs, not agents: set run.tenants.NAME.kept_bytes";
            return Err(RpcError::invalid_member("aid", sentence));
        }
        let change = AccountChange { aid: None, bytes, rows, recount: recount == Some(true) };
        let mut answer = self.store.account.list(change).await?;
        if aid.is_some() {
            answer.accounts.clear();
        }
        Ok(answer)
    }
}
