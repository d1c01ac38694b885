//! Methods of `run`: what a back end asks.

mod account;
mod approvals;
mod approve;
mod cancel;
mod command;
mod commands;
mod create;
mod events;
mod get;
mod job;
mod list;
mod results;
mod watching;

pub(crate) use create::unexpected;
pub(crate) use results::KnownFolds;
pub(crate) use watching::{LOOK_EVERY, PAUSE, RunSubscriptions, SubscriptionKey, watch_events};

use crate::RunService;
use crate::access::RunAccess;
use crate::error::Error;
use crate::redact::redact_text;
use crate::store::{CommandRead, RunFacts};
use kernel::{Caller, Rpc};

pub(crate) fn methods(rpc: Rpc<RunService>) -> Rpc<RunService> {
    rpc.method(RunService::create)
        .method(RunService::get)
        .method(RunService::list)
        .method(RunService::cancel)
        .method(RunService::events)
        .method(RunService::result)
        .method(RunService::command_result)
        .method(RunService::command_create)
        .method(RunService::command_get)
        .method(RunService::commands)
        .method(RunService::command_cancel)
        .method(RunService::runner_job_create)
        .method(RunService::runner_jobs)
        .method(RunService::runner_job_get)
        .method(RunService::approvals)
        .method(RunService::approve)
        .method(RunService::subscribe)
        .method(RunService::unsubscribe)
        .method(RunService::account)
}

impl RunService {
    /// A run, if it exists for the caller.
    pub(crate) async fn visible_run(&self, access: &RunAccess, id: &str) -> Result<RunFacts, Error> {
        if let RunAccess::Runner { run, .. } = access
            && run != id
        {
            return Err(Error::of_another_run());
        }
        let found = self.store.run(id).await?;
        let found = found.filter(|run| access.sees(&run.row.tenant, &run.row.id));
        found.ok_or_else(|| Error::NotFound(format!("run {id}")))
    }

    /// The same for a caller of a method.
    pub(crate) async fn run_of(&self, caller: &Caller, id: &str) -> Result<RunFacts, Error> {
        self.visible_run(&self.access(caller)?, id).await
    }

    /// A command of a run that exists for the caller.
    pub(crate) async fn command_of(&self, run: &RunFacts, id: &str) -> Result<CommandRead, Error> {
        let found = self.store.command(id).await?.filter(|command| command.row.run_id == run.row.id);
        found.ok_or_else(|| Error::NotFound(format!("command {id}")))
    }

    /// The run of a command, if the command exists for the caller. A runner is not told which commands of other runs there are.
    pub(crate) async fn run_of_command(&self, access: &RunAccess, id: &str) -> Result<RunFacts, Error> {
        let not_found = || match access {
            RunAccess::Runner { .. } => Error::of_another_run(),
            RunAccess::Tenants(_) | RunAccess::Admin => Error::NotFound(format!("command {id}")),
        };
        let run = self.store.run_of_command(id).await?.ok_or_else(not_found)?;
        self.visible_run(access, &run).await.map_err(|error| match error {
            Error::NotFound(_) => not_found(),
            other => other,
        })
    }
}

/// A text that is a key or a name in the store: it has no character that PostgreSQL cannot keep, and no secret, because a name cannot be
/// redacted.
pub(crate) fn printable(member: &str, text: &str) -> Result<(), Error> {
    if text.chars().any(char::is_control) {
        return Err(Error::Invalid(format!("{member} must not have control characters")));
    }
    match redact_text(text) == text {
        true => Ok(()),
        false => Err(Error::Invalid(format!("{member} must not have a secret"))),
    }
}
