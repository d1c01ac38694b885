//! New runs.

use crate::error::Error;
use crate::model::call::{NewRun, RunAnswer};
use crate::model::run::{Failure, LeaseState, LoadedRun, NewRunRow, RunRow, Runs, SessionState};
use kernel::Kept;
use proto_schemas::requests::run::RunStatus;

/// The lease of a run that nobody has claimed yet.
pub(crate) const DEFAULT_LEASE_MS: i64 = 60_000;

pub(super) fn create(runs: &mut Runs, run_id: String, new: NewRun, now: i64) -> Result<RunAnswer, Error> {
    if let Some(key) = &new.key {
        let known = runs.keys.get(&(new.tenant.clone(), key.clone()));
        if let Some((existing, hash)) = known {
            return match Some(hash) == new.request_hash.as_ref() {
                true => Ok(RunAnswer::Run { run_id: existing.clone(), created: false }),
                false => Err(Error::Idempotency { member: "existingRunId", existing: existing.clone() }),
            };
        }
    }
    if let Some(session_id) = &new.session {
        let session = runs.sessions.get(session_id).filter(|session| session.tenant == new.tenant);
        let Some(session) = session else {
            return Err(Error::NotFound(format!("session {session_id}")));
        };
        if session.profile != new.profile {
            return Err(Error::Invalid(format!(
                "backendProfile is {}, and session {session_id} is of profile {}",
                new.profile, session.profile
            )));
        }
        if let Some(active) = &session.active_run {
            return Err(Error::SessionBusy { session: session_id.clone(), active_run: active.clone() });
        }
    }
    runs.kept.charge(&new.payer, Kept::rows(1, new.fixed.len())).map_err(kernel::ChargeError::Full)?;
    if let Some(session) = new.session.as_ref().and_then(|id| runs.sessions.get_mut(id)) {
        session.active_run = Some(run_id.clone());
        session.last_run = Some(run_id.clone());
        session.active_command = None;
        session.state = SessionState::Idle;
        session.updated_at = session.updated_at.max(now);
        runs.changed_sessions.insert(session.id.clone());
    }
    if let Some(key) = &new.key {
        let hash = new.request_hash.clone().unwrap_or_default();
        runs.keys.insert((new.tenant.clone(), key.clone()), (run_id.clone(), hash));
    }
    let row = RunRow {
        id: run_id.clone(),
        tenant: new.tenant,
        agent: None,
        session: new.session,
        timeout_ms: new.timeout_ms,
        status: RunStatus::Pending,
        failure: Failure::default(),
        lease: LeaseState { length_ms: DEFAULT_LEASE_MS, ..LeaseState::default() },
        refused: Vec::new(),
        last_seq: 0,
        last_command: 0,
        event_bytes: 0,
        event_rows: 0,
        active: false,
        due_at: None,
        created_at: now,
        updated_at: now,
        cancel_at: None,
        ended_at: None,
    };
    runs.new_runs.push(NewRunRow {
        id: run_id.clone(),
        fixed: new.fixed,
        key: new.key,
        request_hash: new.request_hash,
        profile: new.profile,
    });
    runs.runs.insert(run_id.clone(), LoadedRun { changed: true, ..LoadedRun::new(row) });
    Ok(RunAnswer::Run { run_id, created: true })
}
