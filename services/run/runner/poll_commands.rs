//! `runner.poll_commands`: the commands to work on.

use crate::RunService;
use crate::access::RunAccess;
use crate::error::Error;
use crate::model::call::CancelFlags;
use crate::model::decide::{cancel_flags, holds_lease, run_ended};
use crate::runner::holder;
use crate::shown::command_record;
use crate::store::ReportedStorage;
use kernel::{Caller, PageLimit};
use proto_schemas::requests::run::{GotCommand, RunApproval};
use proto_schemas::requests::runner::{PollCommands, PolledCommands};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(super) const PAGE: PageLimit = PageLimit::new(20, 100);
/// What a back end may need to go on with its thread.
pub(super) const MOST_BACK_END: usize = 16 << 10;

impl RunService {
    /// Only the owner of the lease gets commands. It waits for one, for a cancel or for an answer, as long as it likes.
    pub(crate) async fn poll_commands(
        self: Arc<Self>,
        caller: Caller,
        params: PollCommands,
    ) -> Result<PolledCommands, Error> {
        let access = self.runner_of(&caller, &params.run_id)?;
        let limit = PAGE.of(params.limit)?;
        let wait = Duration::from_millis(u64::try_from(params.wait_ms.unwrap_or(0)).unwrap_or(0));
        let until = Instant::now() + wait;
        // Before the first look, so that nothing falls in between.
        let mut watch = self.watched.watch(&params.run_id);
        loop {
            let polled = self.poll_now(&access, &params, limit).await?;
            let found =
                !polled.commands.is_empty() || polled.cancel_requested || !polled.approvals.is_empty();
            let left = until.saturating_duration_since(Instant::now());
            if found || left.is_zero() || self.stop.is_cancelled() {
                return Ok(polled);
            }
            self.stop.run_until_cancelled(watch.changed(left)).await;
        }
    }

    pub(super) async fn poll_now(
        &self,
        access: &RunAccess,
        params: &PollCommands,
        limit: i64,
    ) -> Result<PolledCommands, Error> {
        let run = self.visible_run(access, &params.run_id).await?;
        if run.row.terminal().is_some() {
            return Err(run_ended(&run.row));
        }
        let holder = holder(params.runner_id.clone(), params.epoch);
        holds_lease(&run.row, &holder, self.clock.now_ms(), self.started_at)?;
        let after = params.after_seq.unwrap_or(0);
        let commands = self.store.open_commands(&params.run_id, after, limit).await?;
        let next_after_seq = commands.last().map_or(after, |command| command.row.seq);
        let asked =
            self.store.open_commands(&params.run_id, 0, i64::from(self.settings.waiting_commands)).await?;
        let CancelFlags { scope, command_ids } =
            cancel_flags(&run.row, asked.iter().map(|command| &command.row));
        let commands = commands.into_iter().map(|command| command_record(command, true));
        Ok(PolledCommands {
            commands: commands.collect::<Result<_, _>>()?,
            next_after_seq,
            cancel_requested: scope.is_some(),
            cancel_scope: scope,
            command_ids,
            approvals: self.answers_for_runner(&params.run_id).await?,
        })
    }

    /// Answers that are not in the log yet.
    pub(crate) async fn answers_for_runner(&self, run_id: &str) -> Result<Vec<RunApproval>, Error> {
        let answered = self.store.answered_approvals(run_id).await?;
        answered.into_iter().map(|approval| self.approval_shown(approval, 0)).collect()
    }

    /// After each turn the storage of a session is measured, while its runner goes on.
    pub(super) async fn measure_storage_of(&self, access: &RunAccess, run_id: &str) -> Result<(), Error> {
        let Some(session_id) = self.visible_run(access, run_id).await?.row.session else { return Ok(()) };
        let (storage, store, now) = (self.storage.clone(), self.store.clone(), self.clock.now_ms());
        self.tracker.spawn(async move {
            let Ok(measured) = storage.measure(&session_id).await else { return };
            let reported = ReportedStorage {
                session_id: &session_id,
                bytes: measured.bytes,
                files: measured.files,
                sha256: measured.sha256.as_deref(),
                now,
            };
            if let Err(error) = store.report_storage(&reported, None).await {
                tracing::warn!("the size of the storage of {session_id} could not be stored: {error}");
            }
        });
        Ok(())
    }

    pub(super) async fn whole_command(&self, id: &str) -> Result<GotCommand, Error> {
        let command = self.store.command(id).await?;
        let command = command.ok_or_else(|| Error::NotFound(format!("command {id}")))?;
        Ok(GotCommand { command: command_record(command, true)? })
    }
}
