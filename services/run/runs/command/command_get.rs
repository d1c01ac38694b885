//! `run.command_get`: read a command.

use crate::RunService;
use crate::error::Error;
use crate::shown::command_record;
use kernel::Caller;
use proto_schemas::requests::run::{CommandGet, GotCommand};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn command_get(
        self: Arc<Self>,
        caller: Caller,
        params: CommandGet,
    ) -> Result<GotCommand, Error> {
        let run = self.run_of(&caller, &params.run_id).await?;
        let command = self.command_of(&run, &params.command_id).await?;
        Ok(GotCommand { command: command_record(command, false)? })
    }
}
