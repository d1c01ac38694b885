//! `agent.account`: what documents, manifests and relations keep for agents.

use crate::AgentService;
use kernel::{AccountChange, Caller, RpcError};
use proto_schemas::requests::agent::Account;
use proto_schemas::requests::meta::ServiceAccounts;
use std::sync::Arc;

impl AgentService {
    pub(crate) async fn account(
        self: Arc<Self>,
        _: Caller,
        params: Account,
    ) -> Result<ServiceAccounts, RpcError> {
        let Account { aid, bytes, rows, recount } = params;
        self.store.account.list(AccountChange { aid, bytes, rows, recount: recount == Some(true) }).await
    }
}
