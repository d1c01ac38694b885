//! `run.tokens`: the tokens of tenants and administrators.

use crate::RunService;
use crate::error::Error;
use kernel::{Caller, iso_ms};
use proto_schemas::requests::run::{RunToken, RunTokenList, Tokens};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn tokens(self: Arc<Self>, _: Caller, _: Tokens) -> Result<RunTokenList, Error> {
        let rows = self.store.tokens().await?;
        let shown = rows.into_iter().map(|row| RunToken {
            prefix: row.prefix,
            kind: row.kind,
            tenant_id: row.tenant,
            created_at: iso_ms(row.created_at),
            revoked_at: row.revoked_at.map(iso_ms),
        });
        Ok(RunTokenList { tokens: shown.collect() })
    }
}
