//! `session.storage`: what is stored for a session, in numbers.

use crate::RunService;
use crate::error::{Error, LeaseConflict};
use crate::storage::{BACKEND, pvc_name};
use crate::store::RunSessionView;
use kernel::{Caller, RpcError, iso_ms};
use proto_schemas::requests::session::{RefreshStorage, RunSessionStorage, Storage, StorageKind};
use std::sync::Arc;

/// A volume that can be used, and one that is not there, in the words of Kubernetes.
pub(super) const BOUND: &str = "Bound";
pub(super) const LOST: &str = "Lost";

impl RunService {
    pub(crate) async fn session_storage(
        self: Arc<Self>,
        caller: Caller,
        Storage { session_id }: Storage,
    ) -> Result<RunSessionStorage, Error> {
        let session = self.visible_session(&caller, &session_id, "").await?;
        self.shown_storage(session).await
    }

    /// Who reports has the lease of the session's run. One that has expired and that nobody took is still its owner's.
    pub(super) async fn check_lease(
        &self,
        session: &RunSessionView,
        attempt: &str,
        params: &RefreshStorage,
    ) -> Result<(), Error> {
        let lease = self.store.lease_of_session(&session.id).await?;
        let is_owner = lease.as_ref().is_some_and(|lease| {
            lease.lease_runner.as_deref() == Some(params.runner_id.as_str())
                && lease.lease_attempt.as_deref() == Some(attempt)
                && lease.lease_epoch == params.epoch
                && lease.lease_released == 0
        });
        if is_owner {
            return Ok(());
        }
        let now = self.clock.now_ms();
        let live = lease.filter(|lease| lease.is_live(now, self.started_at()));
        let conflict = live.map(|lease| {
            let ends_at = lease.ends_at(self.started_at());
            LeaseConflict {
                owner: lease.lease_runner,
                attempt: lease.lease_attempt,
                expires_at: Some(iso_ms(ends_at)),
                retry_after_ms: ends_at - now,
            }
        });
        Err(Error::Lease(Box::new(conflict.unwrap_or_default())))
    }

    pub(super) async fn shown_storage(&self, session: RunSessionView) -> Result<RunSessionStorage, Error> {
        let kind = session.kind_of_storage();
        let is_there =
            kind == StorageKind::Pvc && self.storage.exists(&session.id).await.map_err(RpcError::internal)?;
        let (at, evicted_at) = (session.storage_at.map(iso_ms), session.evicted_at.map(iso_ms));
        Ok(RunSessionStorage {
            storage_kind: kind,
            storage_backend: BACKEND.to_owned(),
            pvc_name: pvc_name(&session.id),
            pvc_phase: if is_there { BOUND } else { LOST }.to_owned(),
            storage_size_bytes: session.storage_bytes,
            storage_files_count: session.storage_files,
            storage_sha256: session.storage_hash.clone(),
            storage_updated_at: at.clone(),
            storage_evicted_at: evicted_at.clone(),
            kind_in_snake_case: kind,
            size_in_snake_case: session.storage_bytes,
            files_in_snake_case: session.storage_files,
            hash_in_snake_case: session.storage_hash,
            updated_in_snake_case: at,
            evicted_in_snake_case: evicted_at,
            session_id: session.id,
        })
    }
}

pub(super) fn check(params: &RefreshStorage) -> Result<(), Error> {
    for (name, number) in [("sizeBytes", params.size_bytes), ("filesCount", params.files_count)] {
        if number < 0 {
            return Err(Error::Invalid(format!("{name} must be at least 0")));
        }
    }
    let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_hash = |text: &String| text.len() == 64 && text.bytes().all(lower_hex);
    match params.sha256.as_ref().is_none_or(is_hash) {
        true => Ok(()),
        false => Err(Error::Invalid("sha256 must have 64 digits of lower-case hex".to_owned())),
    }
}
