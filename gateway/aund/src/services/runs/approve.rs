//! `aund runs approve`: the questions of back ends, and their answers.

use super::caller::RunCallerArgs;
use super::text::question;
use crate::show::printable_line;
use clap::Args;
use proto_schemas::requests::run::{Approvals, Approve};
use serde_json::value::RawValue;

#[derive(Args)]
pub(super) struct ApproveCommand {
    /// The id of the run
    run: String,
    /// The id of the question [default: list the open questions]
    #[arg(requires = "decision")]
    approval: Option<String>,
    /// accept, decline or cancel, or one of the question's own options
    decision: Option<String>,
    /// JSON for the back end, as the question's schema describes it
    #[arg(long, value_name = "JSON", value_parser = json, requires = "decision")]
    payload: Option<Box<RawValue>>,
    #[command(flatten)]
    caller: RunCallerArgs,
}

impl ApproveCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let ApproveCommand { run: run_id, approval, decision, payload, caller } = self;
        let caller = caller.caller()?;
        let show = caller.show;
        let (Some(approval_id), Some(decision)) = (approval, decision) else {
            let open = caller.ask(&Approvals { run_id }).await?;
            if show.json {
                return Ok(show.line(&serde_json::to_string(&open)?)?);
            }
            if open.approvals.is_empty() {
                show.note("no open questions");
            }
            return Ok(open.approvals.iter().try_for_each(|open| show.line(&question(&show, open)))?);
        };
        let approve = Approve { run_id, approval_id, command_id: None, decision, payload };
        let answered = caller.ask(&approve).await?;
        if show.json {
            return Ok(show.line(&serde_json::to_string(&answered)?)?);
        }
        let id = printable_line(&answered.approval.approval_id);
        let decision = printable_line(answered.approval.decision.as_deref().unwrap_or_default());
        Ok(show.line(&format!("{} {id}: {decision}", show.green("answered")))?)
    }
}

fn json(text: &str) -> Result<Box<RawValue>, String> {
    serde_json::from_str(text).map_err(|error| format!("invalid JSON: {error}"))
}
