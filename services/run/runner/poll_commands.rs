//! `runner.poll_commands`: the commands to work on.

use crate::RunService;
use crate::access::RunAccess;
use crate::error::Error;
use crate::model::call::CancelFlags;
use crate::model::decide::{cancel_flags, holds_lease, run_ended};
use crate::runner::holder;
use crate::shown::{approval_shown, command_record};
use crate::store::BoundedPage;
use kernel::{Cache, Caller, PageLimit};
use parking_lot::Mutex;
use proto_schemas::requests::run::{GotCommand, RunApproval};
use proto_schemas::requests::runner::{PollCommands, PolledCommands};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(super) const PAGE: PageLimit = PageLimit::new(20, 100);
/// How long a poll waits at most when its runner has to be told again what it was told before.
const TELL_AGAIN: Duration = Duration::from_secs(1);
/// Runs of which is remembered what their runners were told.
const MOST_TOLD: usize = 4096;

/// What the runners of runs were told last: to cancel, and how their questions were answered. Both are told until they are done, which
/// takes a runner a while, and a poll that were answered at once each time would be sent again at once. What is forgotten here, and what
/// another process has told, is told at once again.
pub(crate) struct ToldFlags(Mutex<Cache<String, u64>>);

impl Default for ToldFlags {
    fn default() -> ToldFlags {
        ToldFlags(Mutex::new(Cache::new(MOST_TOLD)))
    }
}

impl ToldFlags {
    fn is_new(&self, run_id: &str, flags: u64) -> bool {
        self.0.lock().get(run_id) != Some(&flags)
    }

    fn remember(&self, run_id: &str, flags: Option<u64>) {
        let mut told = self.0.lock();
        match flags {
            Some(flags) => told.insert(run_id.to_owned(), flags),
            None => drop(told.remove(run_id)),
        }
    }
}

impl RunService {
    /// Only the owner of the lease gets commands. It waits for one, for a cancel or for an answer, as long as it likes. What it was told
    /// before is no reason to answer at once.
    pub(crate) async fn poll_commands(
        self: Arc<Self>,
        caller: Caller,
        params: PollCommands,
    ) -> Result<PolledCommands, Error> {
        let access = self.runner_of(&caller, &params.run_id)?;
        let limit = PAGE.of(params.limit)?;
        let wait = Duration::from_millis(u64::try_from(params.wait_ms.unwrap_or(0)).unwrap_or(0));
        let (until, again) = (Instant::now() + wait, Instant::now() + wait.min(TELL_AGAIN));
        // Before the first look, so that nothing falls in between.
        let mut watch = self.watched.watch(&params.run_id);
        loop {
            let polled = self.poll_now(&access, &params, limit).await?;
            let flags = flags_of(&params, &polled);
            let is_new = flags.is_some_and(|flags| self.told.is_new(&params.run_id, flags));
            let until = if flags.is_some() { again } else { until };
            let left = until.saturating_duration_since(Instant::now());
            if !polled.commands.is_empty() || is_new || left.is_zero() || self.stop.is_cancelled() {
                self.told.remember(&params.run_id, flags);
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
        let holder = holder(access, params.runner_id.clone(), params.epoch);
        holds_lease(&run.row, &holder, self.clock.now_ms(), self.started_at())?;
        let after = params.after_seq.unwrap_or(0);
        let BoundedPage { items: commands, .. } =
            self.store.open_commands(&params.run_id, after, limit).await?;
        let next_after_seq = commands.last().map_or(after, |command| command.row.seq);
        let open = self.store.open_command_rows(&params.run_id).await?;
        let CancelFlags { scope, command_ids } = cancel_flags(&run.row, open.iter());
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
        Ok(answered.into_iter().map(approval_shown).collect())
    }

    pub(super) async fn whole_command(&self, id: &str) -> Result<GotCommand, Error> {
        let command = self.store.command(id).await?;
        let command = command.ok_or_else(|| Error::NotFound(format!("command {id}")))?;
        Ok(GotCommand { command: command_record(command, true)? })
    }
}

/// What a runner is told besides its commands, as one number: none if that is nothing. Each lease is told anew.
fn flags_of(params: &PollCommands, polled: &PolledCommands) -> Option<u64> {
    if !polled.cancel_requested && polled.approvals.is_empty() {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    (&params.runner_id, params.epoch, &polled.command_ids).hash(&mut hasher);
    polled.cancel_scope.map(|scope| discriminant(&scope)).hash(&mut hasher);
    polled.approvals.iter().for_each(|approval| approval.approval_id.hash(&mut hasher));
    Some(hasher.finish())
}
