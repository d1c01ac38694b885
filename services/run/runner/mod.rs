//! Methods of `runner`: what a runner asks. Only the routes open them, for the token of one run and attempt.

mod acknowledge;
mod append_events;
mod claim;
mod heartbeat;
mod poll_commands;
mod register;
mod report;
mod set_command_status;
mod set_run_status;

pub(crate) use poll_commands::ToldFlags;

use crate::RunService;
use crate::access::RunAccess;
use crate::error::Error;
use crate::model::call::Holder;
use kernel::{Caller, Rpc};

pub(crate) fn methods(rpc: Rpc<RunService>) -> Rpc<RunService> {
    rpc.method(RunService::register)
        .method(RunService::claim)
        .method(RunService::heartbeat)
        .method(RunService::poll_commands)
        .method(RunService::append_events)
        .method(RunService::acknowledge)
        .method(RunService::set_command_status)
        .method(RunService::set_run_status)
}

impl RunService {
    /// The caller as the runner of this run: the token of another run is refused.
    fn runner_of(&self, caller: &Caller, run_id: &str) -> Result<RunAccess, Error> {
        let access = self.access(caller)?;
        match &access {
            RunAccess::Runner { run, .. } if run != run_id => Err(Error::of_another_run()),
            RunAccess::Runner { .. } | RunAccess::Admin => Ok(access),
            RunAccess::Tenants(_) => Err(Error::Forbidden("this is for runners".to_owned())),
        }
    }

    /// The same for a command: the token says of which run it has to be. What is not of that run is refused alike, whether it exists or not.
    async fn runner_of_command(&self, caller: &Caller, id: &str) -> Result<(RunAccess, String), Error> {
        let access = self.access(caller)?;
        match (self.store.run_of_command(id).await?, &access) {
            (Some(run), _) => Ok((self.runner_of(caller, &run)?, run)),
            (None, RunAccess::Runner { .. }) => Err(Error::of_another_run()),
            (None, _) => Err(Error::NotFound(format!("command {id}"))),
        }
    }
}

/// Who says that it has the lease; a runner, as the attempt of its token.
fn holder(access: &RunAccess, runner_id: String, epoch: i64) -> Holder {
    let attempt = match access {
        RunAccess::Runner { attempt, .. } => Some(attempt.clone()),
        RunAccess::Admin | RunAccess::Tenants(_) => None,
    };
    Holder { runner_id, epoch, attempt }
}
