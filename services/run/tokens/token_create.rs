//! `run.token_create`: a token of a tenant, or of an administrator.

use super::{hash_of, new_token, shown_part};
use crate::RunService;
use crate::access::{ADMIN, TENANT};
use crate::error::Error;
use crate::store::NewToken;
use kernel::Caller;
use proto_schemas::requests::run::{CreatedRunToken, TokenCreate};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn token_create(
        self: Arc<Self>,
        _: Caller,
        params: TokenCreate,
    ) -> Result<CreatedRunToken, Error> {
        let (kind, tenant) = match (params.tenant_id, params.admin.unwrap_or(false)) {
            (None, true) => (ADMIN, None),
            (Some(tenant), false) => (TENANT, Some(tenant)),
            _ => return Err(Error::Invalid("tenantId or admin is required, and not both".to_owned())),
        };
        if let Some(tenant) = tenant.as_ref().filter(|name| !self.settings.tenants.contains_key(*name)) {
            let sentence = format!("tenantId {tenant} is not listed: add the table [run.tenants.{tenant}]");
            return Err(Error::Denied(sentence));
        }

        let token = new_token(&self.ids, kind);
        let (hash, prefix) = (hash_of(&token), shown_part(&token));
        let new = NewToken {
            hash: &hash,
            prefix: &prefix,
            kind,
            tenant: tenant.as_deref(),
            run_and_attempt: None,
            created_at: self.clock.now_ms(),
        };
        let mut tx = self.store.db().begin().await?;
        self.store.insert_token(&mut tx, &new).await?;
        self.store.db().commit(tx).await?;
        Ok(CreatedRunToken { token, prefix })
    }
}
