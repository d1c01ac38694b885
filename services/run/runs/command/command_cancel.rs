//! `run.command_cancel`: cancel a command.

use crate::RunService;
use crate::error::Error;
use crate::model::call::RunOperation;
use crate::runs::cancel::reason;
use crate::shown::command_record;
use kernel::Caller;
use proto_schemas::requests::run::{CommandCancel, GotCommand};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn command_cancel(
        self: Arc<Self>,
        caller: Caller,
        params: CommandCancel,
    ) -> Result<GotCommand, Error> {
        let access = self.access(&caller)?;
        let run = self.run_of_command(&access, &params.command_id).await?;
        let cancel = RunOperation::CancelCommand {
            command_id: params.command_id.clone(),
            reason: reason(params.reason)?,
        };
        self.change(&access, &run.row.id, cancel).await?;
        let command = self.command_of(&run, &params.command_id).await?;
        Ok(GotCommand { command: command_record(command, false)? })
    }
}
