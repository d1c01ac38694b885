//! `runner.set_command_status`: say that a command runs, or has ended.

use crate::RunService;
use crate::error::Error;
use crate::model::call::{RunAnswer, RunOperation};
use crate::runner::holder;
use crate::runner::report::report;
use crate::shown::redacted;
use crate::store::ReportingLease;
use kernel::Caller;
use proto_schemas::requests::run::GotCommand;
use proto_schemas::requests::runner::SetCommandStatus;
use serde_json::value::RawValue;
use std::sync::Arc;

/// What a back end may need to go on with its thread.
const MOST_BACK_END: usize = 16 << 10;

impl RunService {
    pub(crate) async fn set_command_status(
        self: Arc<Self>,
        caller: Caller,
        params: SetCommandStatus,
    ) -> Result<GotCommand, Error> {
        let (access, run_id) = self.runner_of_command(&caller, &params.command_id).await?;
        let report = report(params.status, params.failure_kind, params.failure_message)?;
        let back_end = params.session_ref.as_deref().map(session_state).transpose()?;
        let lease =
            ReportingLease { run: run_id.clone(), runner: params.runner_id.clone(), epoch: params.epoch };
        let operation = RunOperation::ReportCommand {
            holder: holder(&access, params.runner_id, params.epoch),
            command_id: params.command_id.clone(),
            report,
            back_end,
        };
        let answer = self.change(&access, &run_id, operation).await?;
        if let RunAnswer::Reported { ended: true } = answer {
            self.measure_storage_after(lease).await?;
        }
        self.whole_command(&params.command_id).await
    }
}

/// What the session remembers for its next runner, without secrets.
fn session_state(given: &RawValue) -> Result<String, Error> {
    let too_large = || Error::TooLarge(format!("sessionRef must have at most {MOST_BACK_END} bytes"));
    if given.get().len() > MOST_BACK_END {
        return Err(too_large());
    }
    let state = redacted(given)?.get().to_owned();
    if state.len() > MOST_BACK_END { Err(too_large()) } else { Ok(state) }
}
