//! `run.approvals`: the open questions of a run.

use crate::RunService;
use crate::error::Error;
use kernel::Caller;
use proto_schemas::requests::run::{Approvals, RunApprovalList};
use std::sync::Arc;

/// What an answer may carry.
pub(super) const MOST_PAYLOAD: usize = 64 << 10;

impl RunService {
    pub(crate) async fn approvals(
        self: Arc<Self>,
        caller: Caller,
        params: Approvals,
    ) -> Result<RunApprovalList, Error> {
        let run = self.run_of(&caller, &params.run_id).await?;
        let open = self.store.open_approvals(&run.row.id).await?;
        let shown = open.into_iter().map(|approval| self.approval_shown(approval, run.row.timeout_ms));
        Ok(RunApprovalList { approvals: shown.collect::<Result<_, _>>()? })
    }
}
