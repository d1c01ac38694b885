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
        self.store.account.list(AccountChange { aid, bytes, rows, recount: recount == Some(true) }).await
    }
}
