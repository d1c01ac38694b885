//! What this server finds in the folders of sessions: after each turn, and before a runner is started.

use crate::RunService;
use crate::error::Error;
use crate::model::call::StorageCheck;
use crate::storage::StorageMeasure;
use crate::store::{FoundStorage, ReportingLease};
use kernel::RpcError;
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// For how long it is not measured again before a runner is started.
const RECENT_MS: i64 = 60_000;

impl RunService {
    /// After each turn the storage of a session is measured, while its runner goes on.
    pub(crate) async fn measure_storage_after(self: &Arc<Self>, lease: ReportingLease) -> Result<(), Error> {
        let run = self.store.run(&lease.run).await?;
        let Some(session_id) = run.and_then(|run| run.row.session) else { return Ok(()) };
        let service = self.clone();
        // What fails here is in the log, and is measured again before the next runner is started.
        self.tracker.spawn(async move { drop(service.measured(&session_id, Some(&lease)).await) });
        Ok(())
    }

    /// Whether a runner can work in the storage of a session. A folder has no quota of its own, so it is measured, unless that was done or
    /// reported a moment ago.
    pub(crate) async fn storage_of(&self, session_id: &str) -> Result<StorageCheck, Error> {
        let exists = self.storage.exists(session_id).await.map_err(RpcError::internal)?;
        let session = self.store.session(session_id, "").await?;
        let Some(session) = session.filter(|_| exists) else { return Ok(StorageCheck::Missing) };
        let age = session.storage_at.map(|at| self.clock.now_ms() - at);
        if let (Some(bytes), Some(0..RECENT_MS)) = (session.storage_bytes, age) {
            let is_whole = session.storage_lease.is_some() || session.storage_hash.is_some();
            return Ok(self.within_quota(bytes, is_whole));
        }
        match self.measured(session_id, None).await {
            Ok(found) => Ok(self.within_quota(found.bytes, found.sha256.is_some())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(StorageCheck::Missing),
            // Nobody knows how much is in what cannot be read.
            Err(_) => Ok(StorageCheck::Full),
        }
    }

    /// What has more than is measured is more than enough.
    fn within_quota(&self, bytes: i64, is_whole: bool) -> StorageCheck {
        match is_whole && bytes.unsigned_abs() <= self.settings.session_bytes {
            true => StorageCheck::Present,
            false => StorageCheck::Full,
        }
    }

    /// Measures the folder of a session, and stores what was found, unless a runner knows better.
    pub(crate) async fn measured(
        &self,
        session_id: &str,
        lease: Option<&ReportingLease>,
    ) -> io::Result<StorageMeasure> {
        let measured = self.storage.measure(session_id).await.inspect_err(|error| {
            if error.kind() != ErrorKind::NotFound {
                self.storage.log_failure(session_id, "measured", error);
            }
        })?;
        let found = FoundStorage {
            session_id,
            bytes: measured.bytes,
            files: measured.files,
            sha256: measured.sha256.as_deref(),
            now: self.clock.now_ms(),
        };
        if let Err(error) = self.store.measured_storage(&found, lease).await {
            tracing::warn!("the size of the storage of {session_id} could not be stored: {error}");
        }
        Ok(measured)
    }
}
