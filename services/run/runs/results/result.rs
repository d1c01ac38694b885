//! `run.result`: what came out of a command of a run.

use crate::RunService;
use crate::error::Error;
use kernel::Caller;
use proto_schemas::requests::run::RunResult;
use std::sync::Arc;

impl RunService {
    pub(crate) async fn result(
        self: Arc<Self>,
        caller: Caller,
        params: proto_schemas::requests::run::Result,
    ) -> Result<RunResult, Error> {
        let run = self.run_of(&caller, &params.run_id).await?;
        let command = match &params.command_id {
            Some(id) => Some(self.command_of(&run, id).await?),
            None => self.store.newest_command(&run.row.id).await?,
        };
        self.result_of(&run, command.as_ref()).await
    }
}
