//! `agui.cancel`: cancel a run.

use crate::RunService;
use crate::error::Error;
use crate::model::call::{CallAccess, RunOperation};
use kernel::Caller;
use proto_schemas::requests::agui::{Cancel, CancelledTurn};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn agui_cancel(
        self: Arc<Self>,
        caller: Caller,
        params: Cancel,
    ) -> Result<CancelledTurn, Error> {
        let thread = self.own_thread(&caller, &params.thread_id).await?;
        let part = match &params.run_id {
            Some(id) => self.store.part(&thread.id, id).await?,
            None => self.store.open_part(&thread.id).await?,
        };
        let part = part.ok_or_else(|| Error::NotFound("run".to_owned()))?;
        if part.ended_at.is_none() {
            let reason = Some("run canceled by user".to_owned());
            let cancel = RunOperation::CancelCommand { command_id: part.task_id, reason };
            match self.submit(&part.run_id, CallAccess::System, cancel).await {
                // It has ended meanwhile.
                Ok(_) | Err(Error::RunEnded { .. } | Error::CommandEnded { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(CancelledTurn { thread_id: thread.id, run_id: part.id, accepted: true })
    }
}
