//! `runner.poll_commands`, `runner.acknowledge` and `runner.set_command_status`.

use super::holder;
use super::leases::report;
use crate::RunService;
use crate::access::Access;
use crate::error::Error;
use crate::model::call::{CancelFlags, Operation};
use crate::model::decide::{cancel_flags, holds_lease, run_ended};
use crate::shown::command_record;
use kernel::{Caller, PageLimit};
use proto_schemas::requests::run::{GotCommand, RunApproval};
use proto_schemas::requests::runner::{Acknowledge, PollCommands, PolledCommands, SetCommandStatus};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const PAGE: PageLimit = PageLimit::new(20, 100);
/// What a back end may need to go on with its thread.
const MOST_BACK_END: usize = 16 << 10;

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

    async fn poll_now(
        &self,
        access: &Access,
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
    pub(super) async fn answers_for_runner(&self, run_id: &str) -> Result<Vec<RunApproval>, Error> {
        let answered = self.store.answered_approvals(run_id).await?;
        answered.into_iter().map(|approval| self.approval_shown(approval, 0)).collect()
    }

    pub(crate) async fn acknowledge(
        self: Arc<Self>,
        caller: Caller,
        params: Acknowledge,
    ) -> Result<GotCommand, Error> {
        let (access, run_id) = self.runner_of_command(&caller, &params.command_id).await?;
        let operation = Operation::Acknowledge {
            holder: holder(params.runner_id, params.epoch),
            command_id: params.command_id.clone(),
        };
        self.change(&access, &run_id, operation).await?;
        self.whole_command(&params.command_id).await
    }

    pub(crate) async fn set_command_status(
        self: Arc<Self>,
        caller: Caller,
        params: SetCommandStatus,
    ) -> Result<GotCommand, Error> {
        let (access, run_id) = self.runner_of_command(&caller, &params.command_id).await?;
        let report = report(params.status, params.failure_kind, params.failure_message)?;
        let back_end = params.session_ref.map(|given| given.get().to_owned());
        if back_end.as_ref().is_some_and(|given| given.len() > MOST_BACK_END) {
            return Err(Error::TooLarge(format!("sessionRef must have at most {MOST_BACK_END} bytes")));
        }
        let operation = Operation::ReportCommand {
            holder: holder(params.runner_id, params.epoch),
            command_id: params.command_id.clone(),
            report,
            back_end,
        };
        self.change(&access, &run_id, operation).await?;
        self.whole_command(&params.command_id).await
    }

    async fn whole_command(&self, id: &str) -> Result<GotCommand, Error> {
        let command = self.store.command(id).await?;
        let command = command.ok_or_else(|| Error::NotFound(format!("command {id}")))?;
        Ok(GotCommand { command: command_record(command, true)? })
    }
}
