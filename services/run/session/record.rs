//! A session as it is shown, and who may see it.

use crate::RunService;
use crate::access::RunAccess;
use crate::error::Error;
use crate::runs::printable;
use crate::storage::BACKEND;
use crate::store::RunSessionView;
use kernel::{Caller, iso_ms};
use proto_schemas::requests::session::{ExecutionState, RunSessionRecord, StorageKind};

/// Whose cursor decides what is unread, where a call does not say it.
const READER: &str = "cli";
const LONGEST_READER: usize = 64;

impl RunService {
    /// Who asks for sessions: runners do not, they have one run.
    pub(crate) fn session_access(&self, caller: &Caller) -> Result<RunAccess, Error> {
        match RunAccess::of(caller, &self.settings)? {
            RunAccess::Runner { .. } => {
                Err(Error::Forbidden("the token of a runner is for its run only".to_owned()))
            }
            access => Ok(access),
        }
    }

    /// A session of a tenant of the caller. Others do not exist for the caller.
    pub(crate) async fn visible_session(
        &self,
        caller: &Caller,
        session_id: &str,
        reader: &str,
    ) -> Result<RunSessionView, Error> {
        let access = self.session_access(caller)?;
        let session = self.store.session(session_id, reader).await?;
        let session = session.filter(|session| access.sees(&session.tenant, ""));
        session.ok_or_else(|| Error::NotFound(format!("session {session_id}")))
    }
}

/// The name of a reader: 1 to 64 of `A-Za-z0-9_.@-`.
pub(crate) fn reader_of(reader: Option<String>) -> Result<String, Error> {
    let reader = reader.unwrap_or_else(|| READER.to_owned());
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.@-".contains(&byte);
    match (1..=LONGEST_READER).contains(&reader.len()) && reader.bytes().all(allowed) {
        true => printable("readerId", &reader).map(|()| reader),
        false => {
            let sentence = "readerId must have 1 to 64 characters of A-Z, a-z, 0-9, '_', '.', '@' and '-'";
            Err(Error::Invalid(sentence.to_owned()))
        }
    }
}

impl RunSessionView {
    pub(crate) fn is_unread(&self) -> bool {
        self.version > self.read_version
    }

    pub(crate) fn execution_state(&self) -> ExecutionState {
        match &*self.state {
            "running" => ExecutionState::Running,
            "terminal" => ExecutionState::Terminal,
            _ => ExecutionState::Idle,
        }
    }

    pub(crate) fn kind_of_storage(&self) -> StorageKind {
        match &*self.storage_kind {
            "pvc" => StorageKind::Pvc,
            "evicted" => StorageKind::Evicted,
            _ => StorageKind::None,
        }
    }
}

pub(crate) fn record(session: RunSessionView) -> RunSessionRecord {
    RunSessionRecord {
        execution_state: session.execution_state(),
        unread: session.is_unread(),
        storage_kind: session.kind_of_storage(),
        storage_backend: BACKEND.to_owned(),
        session_id: session.id,
        tenant_id: session.tenant,
        project_id: session.project,
        backend_profile: session.profile,
        version: session.version,
        active_run_id: session.active_run,
        active_command_id: session.active_command,
        last_run_id: session.last_run,
        last_command_id: session.last_command,
        last_event_seq: session.last_seq,
        title: session.title,
        created_at: iso_ms(session.created_at),
        updated_at: iso_ms(session.updated_at),
        expires_at: iso_ms(session.expires_at),
        storage_size_bytes: session.storage_bytes,
        storage_files_count: session.storage_files,
        storage_updated_at: session.storage_at.map(iso_ms),
        storage_evicted_at: session.evicted_at.map(iso_ms),
        liveness: None,
        supervisor: None,
    }
}
