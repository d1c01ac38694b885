//! `session.refresh_storage`: what the runner found stored.

use crate::RunService;
use crate::access::RunAccess;
use crate::error::Error;
use crate::session::storage::check;
use crate::store::ReportedStorage;
use kernel::Caller;
use proto_schemas::requests::session::{RefreshStorage, RunSessionStorage, StorageKind};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn session_refresh_storage(
        self: Arc<Self>,
        caller: Caller,
        params: RefreshStorage,
    ) -> Result<RunSessionStorage, Error> {
        check(&params)?;
        let access = RunAccess::of(&caller, &self.settings)?;
        let session = self.store.session(&params.session_id, "").await?;
        if let (RunAccess::Runner { run, .. }, Some(session)) = (&access, &session)
            && session.active_run.as_ref() != Some(run)
        {
            return Err(Error::Forbidden("the token belongs to a runner of another run".to_owned()));
        }
        let is_runner = matches!(access, RunAccess::Runner { .. });
        let session = session.filter(|session| is_runner || access.sees(&session.tenant, ""));
        let Some(session) = session else {
            return Err(Error::NotFound(format!("session {}", params.session_id)));
        };
        let holder = match &access {
            RunAccess::Runner { attempt, .. } => {
                self.check_lease(&session, attempt, &params).await?;
                Some((params.runner_id.as_str(), params.epoch))
            }
            RunAccess::Admin => None,
            RunAccess::Tenants(_) => {
                return Err(Error::Forbidden("the runner of a session reports its storage".to_owned()));
            }
        };

        let reported = ReportedStorage {
            session_id: &session.id,
            bytes: params.size_bytes,
            files: params.files_count,
            sha256: params.sha256.as_deref(),
            now: self.clock.now_ms(),
        };
        if !self.store.report_storage(&reported, holder).await? {
            // Either it was evicted, or the lease has changed hands since it was checked.
            return Err(match session.kind_of_storage() {
                StorageKind::Pvc => Error::Lease(Box::default()),
                StorageKind::None | StorageKind::Evicted => Error::StoreEvicted(session.id),
            });
        }
        let stored = self.store.session(&session.id, "").await?;
        self.shown_storage(stored.ok_or(Error::NotFound(format!("session {}", session.id)))?).await
    }
}
