//! What becomes of a validation. Its end follows from its command and its runner job; it is stored when it is first seen, and the run of the
//! validation is cancelled: an open run would keep its profile from being deleted, and would itself never be removed.

use crate::RunService;
use crate::error::Error;
use crate::model::call::{CallAccess, RunOperation};
use crate::model::run::CommandRow;
use crate::store::{ValidationEnd, ValidationRow};
use kernel::RpcError;
use proto_schemas::requests::profile::ValidationStatus;
use proto_schemas::requests::run::TerminalStatus;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// How often it is looked whether a validation has ended.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After so long nobody waits for a validation any more. Its turn has a time-out of 120 seconds at most.
const MOST_MS: i64 = 180_000;
/// Why its run is cancelled.
const REASON: &str = "the validation has ended";

impl ValidationRow {
    pub(super) fn status(&self) -> ValidationStatus {
        match (self.ended_at, self.failed) {
            (None, _) => ValidationStatus::Running,
            (Some(_), 0) => ValidationStatus::Passed,
            (Some(_), _) => ValidationStatus::Failed,
        }
    }
}

impl RunService {
    /// Waits until a validation has ended, also if nobody asks for it.
    pub(super) fn follow_validation(self: &Arc<Self>, row: ValidationRow) {
        let service = self.clone();
        self.tracker.spawn(async move {
            let stop = service.stop.clone();
            stop.run_until_cancelled(service.until_settled(row)).await;
        });
    }

    async fn until_settled(&self, row: ValidationRow) {
        loop {
            sleep(LOOK_EVERY).await;
            match self.settle_validation(row.clone()).await {
                Ok(row) if row.ended_at.is_none() => {}
                Ok(_) | Err(Error::NotFound(_)) => return,
                Err(error) => RpcError::from(error).log("profile.validate"),
            }
        }
    }

    /// Looks at the validations that go on: after a restart nobody follows them.
    pub(crate) async fn settle_validations(&self) -> sqlx::Result<()> {
        for row in self.store.open_validations().await? {
            let id = row.id.clone();
            match self.settle_validation(row).await {
                Ok(_) | Err(Error::NotFound(_)) => {}
                Err(error) => tracing::warn!("validation {id} could not be looked at: {error}"),
            }
        }
        self.end_lost_runs_of_validations().await
    }

    /// Cancels the runs of validations that were never stored, because the process that began them has ended.
    async fn end_lost_runs_of_validations(&self) -> sqlx::Result<()> {
        let Some((tenant, _)) = self.settings.tenant_of_validations() else { return Ok(()) };
        let before = self.clock.now_ms() - MOST_MS;
        for run in self.store.lost_runs_of_validations(tenant, before).await? {
            if let Err(error) = self.end_run_of_validation(&run).await {
                tracing::warn!("{run} of a validation could not be cancelled: {error}");
            }
        }
        Ok(())
    }

    /// Stores how a validation has ended, and cancels its run then. The validation as it is now. Not found is one that was removed
    /// meanwhile, or whose run was before its end was seen.
    pub(super) async fn settle_validation(&self, row: ValidationRow) -> Result<ValidationRow, Error> {
        if row.ended_at.is_none() {
            let Some(end) = self.end_of_validation(&row).await? else { return Ok(row) };
            // Stored before the run is cancelled: a turn that nobody works on is cancelled with it, and would have failed otherwise.
            self.store.end_validation(&row.id, &end, self.clock.now_ms()).await?;
        }
        self.end_run_of_validation(&row.run_id).await?;
        let stored = self.store.validation(&row.id).await?;
        stored.ok_or_else(|| not_found(&row))
    }

    /// How a validation has ended; nothing while it goes on. The rows are read in this order because a runner whose job is over changes
    /// its command no more.
    async fn end_of_validation(&self, row: &ValidationRow) -> Result<Option<ValidationEnd>, Error> {
        let job = self.store.job(&row.run_id, &row.job_id).await?.ok_or_else(|| not_found(row))?;
        let run = self.store.run(&row.run_id).await?.ok_or_else(|| not_found(row))?;
        let command = self.store.command(&row.command_id).await?.ok_or_else(|| not_found(row))?;
        let now = self.clock.now_ms();
        let is_abandoned = job.ended_at.is_some() && !run.row.lease.is_live(now, self.started_at());
        Ok(end_of(&command.row, is_abandoned, now >= row.created_at + MOST_MS))
    }

    pub(super) async fn end_run_of_validation(&self, run_id: &str) -> Result<(), Error> {
        let run = self.store.run(run_id).await?;
        if run.is_none_or(|run| run.row.ended_at.is_some()) {
            return Ok(());
        }
        let cancel = RunOperation::CancelRun { reason: Some(REASON.to_owned()) };
        match self.submit(run_id, CallAccess::System, cancel).await {
            Ok(_) | Err(Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn not_found(row: &ValidationRow) -> Error {
    Error::NotFound(format!("validation {}", row.id))
}

/// How a validation has ended by its command. One that has not ended counts as failed where no runner works on it, or too late.
fn end_of(command: &CommandRow, is_abandoned: bool, is_late: bool) -> Option<ValidationEnd> {
    let failed = |kind: &str| Some(ValidationEnd { failed: true, failure_kind: Some(kind.to_owned()) });
    match command.terminal() {
        Some(TerminalStatus::Completed) => Some(ValidationEnd { failed: false, failure_kind: None }),
        Some(TerminalStatus::Failed | TerminalStatus::Blocked | TerminalStatus::Cancelled) => {
            Some(ValidationEnd { failed: true, failure_kind: command.failure.kind.clone() })
        }
        None if is_late && command.is_taken() && !is_abandoned => failed("backend-timeout"),
        None if is_late || is_abandoned => failed("infra-failed"),
        None => None,
    }
}
