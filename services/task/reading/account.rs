//! `task.account`: what tasks keep for agents.

use crate::TaskService;
use kernel::{AccountChange, Caller, RpcError};
use proto_schemas::requests::meta::ServiceAccounts;
use proto_schemas::requests::task::Account;
use std::sync::Arc;

impl TaskService {
    pub(crate) async fn account(
        self: Arc<Self>,
        _: Caller,
        params: Account,
    ) -> Result<ServiceAccounts, RpcError> {
        let Account { aid, bytes, rows, recount } = params;
        self.store.account.list(AccountChange { aid, bytes, rows, recount: recount == Some(true) }).await
    }
}
