//! `session.refresh_storage`: what the runner found stored.

use crate::RunService;
use crate::access::RunAccess;
use crate::error::Error;
use crate::session::storage::check;
use crate::store::{FoundStorage, ReportingLease};
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
        // Whether another session exists is no answer for a runner.
        if let RunAccess::Runner { run, .. } = &access
            && session.as_ref().and_then(|session| session.active_run.as_ref()) != Some(run)
        {
            return Err(Error::of_another_run());
        }
        let is_runner = matches!(access, RunAccess::Runner { .. });
        let session = session.filter(|session| is_runner || access.sees(&session.tenant, ""));
        let Some(session) = session else {
            return Err(Error::NotFound(format!("session {}", params.session_id)));
        };
        let lease = match &access {
            RunAccess::Runner { run, attempt } => {
                self.check_lease(&session, attempt, &params).await?;
                let runner = params.runner_id.clone();
                Some(ReportingLease { run: run.clone(), runner, epoch: params.epoch })
            }
            RunAccess::Admin => None,
            RunAccess::Tenants(_) => {
                return Err(Error::Forbidden("the runner of a session reports its storage".to_owned()));
            }
        };

        let found = FoundStorage {
            session_id: &session.id,
            bytes: params.size_bytes,
            files: params.files_count,
            sha256: params.sha256.as_deref(),
            now: self.clock.now_ms(),
        };
        if !self.store.report_storage(&found, lease.as_ref()).await? {
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
