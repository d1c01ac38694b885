//! `runner.set_command_status`: say that a command runs, or has ended.

use crate::RunService;
use crate::error::Error;
use crate::model::call::RunOperation;
use crate::runner::holder;
use crate::runner::poll_commands::MOST_BACK_END;
use crate::runner::report::report;
use kernel::Caller;
use proto_schemas::requests::run::GotCommand;
use proto_schemas::requests::runner::SetCommandStatus;
use std::sync::Arc;

impl RunService {
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
        let operation = RunOperation::ReportCommand {
            holder: holder(params.runner_id, params.epoch),
            command_id: params.command_id.clone(),
            report,
            back_end,
        };
        self.change(&access, &run_id, operation).await?;
        if params.status.terminal().is_some() {
            self.measure_storage_of(&access, &run_id).await?;
        }
        self.whole_command(&params.command_id).await
    }
}
