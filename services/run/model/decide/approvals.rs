//! Questions of back ends, and how they are answered.

use super::RunDecision;
use crate::error::Error;
use crate::model::call::RunAnswer;
use crate::model::run::ApprovalRow;
use kernel::{Kept, Payer};
use serde::Deserialize;
use serde_json::value::RawValue;

/// What a back end may offer besides. It was checked when it was asked: a list of texts, or `null`.
#[derive(Deserialize)]
struct OfferedOptions {
    options: Option<Vec<String>>,
}

/// The decisions that every question takes.
const DECISIONS: [&str; 3] = ["accept", "decline", "cancel"];

/// Refuses a decision that the question does not take.
pub(super) fn is_offered(approval: &ApprovalRow, decision: &str) -> Result<(), Error> {
    let question = serde_json::from_str::<OfferedOptions>(approval.question.get()).ok();
    let options = question.and_then(|question| question.options).unwrap_or_default();
    if DECISIONS.contains(&decision) || options.iter().any(|option| option == decision) {
        return Ok(());
    }
    let offered: Vec<&str> = match options.is_empty() {
        true => DECISIONS.to_vec(),
        false => options.iter().map(String::as_str).collect(),
    };
    Err(Error::Invalid(format!("decision must be one of {}", offered.join(", "))))
}

impl RunDecision<'_> {
    /// The first answer counts.
    pub fn approve(
        &mut self,
        id: &str,
        command_id: Option<&str>,
        decision: String,
        answer: Option<Box<RawValue>>,
        by: String,
    ) -> Result<RunAnswer, Error> {
        let now = self.now;
        let of_command = |row: &&mut ApprovalRow| command_id.is_none_or(|command| row.command_id == command);
        let approval = self.run.approvals.get_mut(id).filter(of_command);
        let Some(approval) = approval else {
            return Err(Error::NotFound(format!("approval {id}")));
        };
        if let Some(first) = &approval.decision {
            return match *first == decision {
                true => Ok(RunAnswer::Approved),
                false => Err(Error::Illegal(format!("approval {id} was answered already: {first}"))),
            };
        }
        if approval.settled_at.is_some() || now >= approval.expires_at {
            return Err(Error::Illegal(format!("approval {id} is not open any more")));
        }
        is_offered(approval, &decision)?;
        let answer_bytes = answer.as_ref().map_or(0, |answer| answer.get().len());
        let payer = Payer::tenant(&self.run.row.tenant);
        let more = Kept { bytes: i64::try_from(answer_bytes).unwrap_or(i64::MAX), rows: 0 };
        self.runs.kept.charge(&payer, more).map_err(kernel::ChargeError::Full)?;
        let (cancels, command) = (decision == "cancel", approval.command_id.clone());
        approval.decision = Some(decision);
        approval.answer = answer;
        approval.answered_by = Some(by);
        approval.answered_at = Some(now);
        self.run.changed_approvals.insert(id.to_owned());
        self.touch();
        // A back end that is told to cancel ends its turn so, and its runner reports that.
        if cancels {
            let command = self.command(&command)?;
            command.cancel_at.get_or_insert(now);
            let id = command.id.clone();
            self.command_changed(&id);
        }
        Ok(RunAnswer::Approved)
    }
}
