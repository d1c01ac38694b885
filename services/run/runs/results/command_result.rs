//! `run.command_result`: what came out of one command.

use crate::RunService;
use crate::error::Error;
use kernel::Caller;
use proto_schemas::requests::run::{CommandResult, RunResult};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn command_result(
        self: Arc<Self>,
        caller: Caller,
        params: CommandResult,
    ) -> Result<RunResult, Error> {
        let run = self.run_of(&caller, &params.run_id).await?;
        let command = self.command_of(&run, &params.command_id).await?;
        self.result_of(&run, Some(&command)).await
    }
}
