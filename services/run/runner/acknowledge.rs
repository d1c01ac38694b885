//! `runner.acknowledge`: take a command.

use crate::RunService;
use crate::error::Error;
use crate::model::call::RunOperation;
use crate::runner::holder;
use kernel::Caller;
use proto_schemas::requests::run::GotCommand;
use proto_schemas::requests::runner::Acknowledge;
use std::sync::Arc;

impl RunService {
    pub(crate) async fn acknowledge(
        self: Arc<Self>,
        caller: Caller,
        params: Acknowledge,
    ) -> Result<GotCommand, Error> {
        let (access, run_id) = self.runner_of_command(&caller, &params.command_id).await?;
        let operation = RunOperation::Acknowledge {
            holder: holder(&access, params.runner_id, params.epoch),
            command_id: params.command_id.clone(),
        };
        self.change(&access, &run_id, operation).await?;
        self.whole_command(&params.command_id).await
    }
}
