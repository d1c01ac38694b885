//! `session.create`: create a session and its storage.

use crate::RunService;
use crate::error::Error;
use crate::ids::new_id;
use crate::known_profiles::check_slug;
use crate::runs::printable;
use crate::session::record::record;
use crate::shown::redacted_text;
use crate::store::NewSession;
use kernel::{Caller, Payer, RpcError};
use proto_schemas::requests::session::{Create, GotRunSession};
use sqlx::AnyConnection;
use std::sync::Arc;

const DEFAULT_EXPIRY_MS: i64 = 30 * 86_400_000;
const EXPIRY_MS: std::ops::RangeInclusive<i64> = 60_000..=31_536_000_000;
const LONGEST_TEXT: usize = 200;

impl RunService {
    pub(crate) async fn session_create(
        self: Arc<Self>,
        caller: Caller,
        params: Create,
    ) -> Result<GotRunSession, Error> {
        let access = self.session_access(&caller)?;
        check(&params)?;
        printable("projectId", &params.project_id)?;
        let params = Create { title: params.title.as_deref().map(redacted_text), ..params };
        access.may_create_for(&params.tenant_id, &self.settings)?;
        check_slug(&params.backend_profile)?;
        self.check_credential(&params.backend_profile).await?;

        let now = self.clock.now_ms();
        let id = new_id(&self.ids, "sess", now);
        // The folder first: one without a session is empty and does no harm, and a session without its folder could not be used.
        self.storage.create(&id).await.map_err(RpcError::internal)?;
        if let Err(error) = self.store_session(&id, &params, now).await {
            if let Err(error) = self.storage.remove(&id).await {
                tracing::warn!(session = id, "the folder of a session that was not stored remains: {error}");
            }
            return Err(error);
        }
        let stored = self.store.session(&id, "").await?;
        Ok(GotRunSession { session: record(stored.ok_or(Error::NotFound(format!("session {id}")))?) })
    }

    async fn store_session(&self, id: &str, params: &Create, now: i64) -> Result<(), Error> {
        let payer = Payer::tenant(&params.tenant_id);
        let new = NewSession {
            id,
            payer: payer.key(),
            tenant: &params.tenant_id,
            project: &params.project_id,
            profile: &params.backend_profile,
            title: params.title.as_deref(),
            now,
            expires_at: now + params.expires_in_ms.unwrap_or(DEFAULT_EXPIRY_MS),
        };
        let mut tx = self.store.db().begin().await?;
        let charge = self.store.account.before(&mut tx, payer.clone()).await?;
        // Behind the lock of the tenant's account, so that nobody else is counted meanwhile.
        self.has_place(&mut tx, &params.tenant_id).await?;
        self.store.insert_session(&mut tx, &new).await?;
        self.store.account.charge(&mut tx, charge).await?;
        Ok(self.store.db().commit(tx).await?)
    }

    /// A folder costs the server more than its row, and only the row is in the account of the tenant.
    async fn has_place(&self, tx: &mut AnyConnection, tenant: &str) -> Result<(), Error> {
        let limit = i64::from(self.settings.sessions);
        let held = self.store.count_sessions(tx, tenant, limit).await?;
        match held < limit {
            true => Ok(()),
            false => Err(Error::Limit {
                sentence: format!("a tenant can have at most {limit} sessions with storage"),
                scope: "run.sessions",
                limit,
                held,
            }),
        }
    }
}

fn check(params: &Create) -> Result<(), Error> {
    for (name, text) in [("tenantId", &params.tenant_id), ("projectId", &params.project_id)] {
        if text.is_empty() {
            return Err(Error::Invalid(format!("{name} is required")));
        }
    }
    let texts = [
        ("tenantId", Some(&params.tenant_id)),
        ("projectId", Some(&params.project_id)),
        ("title", params.title.as_ref()),
    ];
    for (name, text) in texts {
        if text.is_some_and(|text| text.is_empty() || text.chars().count() > LONGEST_TEXT) {
            return Err(Error::Invalid(format!("{name} must have 1 to {LONGEST_TEXT} characters")));
        }
        if text.is_some_and(|text| text.chars().any(char::is_control)) {
            return Err(Error::Invalid(format!("{name} must not have control characters")));
        }
    }
    match params.expires_in_ms.is_none_or(|wanted| EXPIRY_MS.contains(&wanted)) {
        true => Ok(()),
        false => {
            let (least, most) = (EXPIRY_MS.start(), EXPIRY_MS.end());
            Err(Error::Invalid(format!("expiresInMs must be between {least} and {most}")))
        }
    }
}
