//! `run.approve`: answer a question.

use crate::RunService;
use crate::access::name_of;
use crate::error::Error;
use crate::model::call::{RunAnswer, RunOperation};
use crate::runs::approvals::MOST_PAYLOAD;
use crate::runs::create::unexpected;
use crate::runs::printable;
use crate::shown::{approval_shown, redacted};
use kernel::Caller;
use proto_schemas::requests::run::{AnsweredApproval, Approve};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn approve(
        self: Arc<Self>,
        caller: Caller,
        params: Approve,
    ) -> Result<AnsweredApproval, Error> {
        let access = self.access(&caller)?;
        let Approve { run_id, approval_id, command_id, decision, payload } = params;
        printable("decision", &decision)?;
        if payload.as_ref().is_some_and(|payload| payload.get().len() > MOST_PAYLOAD) {
            return Err(Error::TooLarge(format!("payload must have at most {MOST_PAYLOAD} bytes")));
        }
        let payload = payload.map(|payload| redacted(&payload)).transpose()?;
        let by = name_of(&caller);
        let approve = RunOperation::Approve {
            approval_id: approval_id.clone(),
            command_id,
            decision,
            answer: payload,
            by,
        };
        let answer = self.change(&access, &run_id, approve).await?;
        let RunAnswer::Approved = answer else { return Err(unexpected()) };
        let approval = self.store.approval(&run_id, &approval_id).await?;
        let approval = approval.ok_or_else(|| Error::NotFound(format!("approval {approval_id}")))?;
        Ok(AnsweredApproval { approval: approval_shown(approval) })
    }
}
