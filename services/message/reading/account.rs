//! `message.account`: what is stored of what agents sent.

use crate::MessageService;
use kernel::{AccountChange, Caller, RpcError};
use proto_schemas::requests::message::{Account, MessageAccounts};
use std::sync::Arc;

impl MessageService {
    pub(crate) async fn account(
        self: Arc<Self>,
        _: Caller,
        params: Account,
    ) -> Result<MessageAccounts, RpcError> {
        let Account { aid, bytes, rows } = params;
        let change = AccountChange { aid, bytes, rows, recount: false };
        let accounts = self.quotas.list(change, self.clock.now_ms()).await?;
        Ok(MessageAccounts { accounts })
    }
}
