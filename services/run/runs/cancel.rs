//! `run.cancel`: cancel a run and its commands.

use crate::RunService;
use crate::access::RunAccess;
use crate::error::Error;
use crate::model::call::{CallAccess, RunOperation};
use crate::shown::redacted_text;
use kernel::Caller;
use proto_schemas::requests::run::{Cancel, GotRun};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn cancel(self: Arc<Self>, caller: Caller, params: Cancel) -> Result<GotRun, Error> {
        let access = self.access(&caller)?;
        let reason = reason(params.reason)?;
        self.change(&access, &params.run_id, RunOperation::CancelRun { reason }).await?;
        let run = self.visible_run(&access, &params.run_id).await?;
        Ok(GotRun { run: self.run_record(&run)? })
    }

    /// For a session, whose caller may cancel what it does.
    pub(crate) async fn cancel_run_now(&self, run_id: String, given: Option<String>) -> Result<(), Error> {
        let reason = reason(given)?;
        self.submit(&run_id, CallAccess::Of(RunAccess::Admin), RunOperation::CancelRun { reason }).await?;
        Ok(())
    }

    pub(crate) async fn cancel_command_now(
        &self,
        command_id: String,
        given: Option<String>,
    ) -> Result<(), Error> {
        let run = self.run_of_command(&RunAccess::Admin, &command_id).await?;
        let cancel = RunOperation::CancelCommand { command_id, reason: reason(given)? };
        self.submit(&run.row.id, CallAccess::Of(RunAccess::Admin), cancel).await?;
        Ok(())
    }
}

/// It goes into the log, so it is redacted first.
pub(crate) fn reason(given: Option<String>) -> Result<Option<String>, Error> {
    let Some(given) = given else { return Ok(None) };
    if given.contains('\0') {
        return Err(Error::Invalid("reason must not have control characters".to_owned()));
    }
    Ok(Some(redacted_text(&given)))
}
