//! `run.approvals`: the open questions of a run.

use crate::RunService;
use crate::error::Error;
use crate::shown::approval_shown;
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
        // One that has expired takes no answer, though its command may not have ended yet.
        let now = self.clock.now_ms();
        let open = open.into_iter().filter(|approval| now < approval.expires_at);
        Ok(RunApprovalList { approvals: open.map(approval_shown).collect() })
    }
}
