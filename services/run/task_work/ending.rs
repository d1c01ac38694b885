//! How a task goes on and ends with its run, and the other way round.

use super::beginning::{lasting, reason};
use super::calls::Acted;
use super::inputs::task_id;
use crate::RunService;
use crate::error::Error;
use crate::model::call::{CallAccess, RunOperation};
use crate::model::run::Failure;
use crate::store::{CommandRead, RunTaskRow};
use kernel::{Aid, Caller, RpcError, codes};
use proto_schemas::requests::run::{CommandResult, TerminalStatus};
use proto_schemas::requests::task::{Complete, Fail, Get, NewArtifact, TaskId};
use serde_json::value::to_raw_value;
use std::sync::Arc;

/// What a reply may have in bytes to be a whole artifact.
const MOST_REPLY: usize = 64 << 10;
const SUBMITTED: &str = "submitted";
const WORKING: &str = "working";
const INPUT_REQUIRED: &str = "input_required";
const OPEN: [&str; 3] = [SUBMITTED, WORKING, INPUT_REQUIRED];

impl RunService {
    /// A task that is open, and its run.
    pub(super) async fn go_on_with_task(
        self: &Arc<Self>,
        status: &str,
        version: i64,
        row: RunTaskRow,
    ) -> Result<(), Error> {
        let (aid, task_id) = (aid_of(&row)?, task_id(&row)?);
        let Some(command) = self.store.command(&row.command_id).await? else {
            // Its run was removed: nothing is known of how it ended.
            return self.fail_task(&aid, &task_id, status, "infra-failed: the run was removed", &row).await;
        };
        if let Some(end) = command.row.terminal() {
            // Its owner was asked something that somebody else has answered: the task ends when the owner has said something, too.
            if end == TerminalStatus::Completed && status == INPUT_REQUIRED {
                return Ok(());
            }
            return self.finish_task(&aid, &task_id, status, (&command, end), row).await;
        }
        if let Err(error) = self.runner_for_task(&row).await {
            if !lasting(&error) {
                return Err(error);
            }
            return self.fail_task(&aid, &task_id, status, &error.to_string(), &row).await;
        }
        let mut status = status;
        if command.row.is_taken() && status == SUBMITTED {
            match self.accept_task(&aid, &task_id).await? {
                Acted::Done => status = WORKING,
                Acted::Later | Acted::Overtaken => return Ok(()),
            }
        }
        let mut changed = row.clone();
        if version != row.version {
            let passed_on = self.pass_on_inputs(&aid, &task_id, &mut changed).await;
            // What was passed on is not passed on again.
            if passed_on.is_err() {
                self.store.save_run_task(&changed).await?;
            }
            passed_on?;
        }
        if status == WORKING {
            self.ask_questions(&aid, &mut changed).await?;
        }
        changed.version = version;
        if changed != row {
            self.store.save_run_task(&changed).await?;
        }
        Ok(())
    }

    /// The turn has ended, and so does its task.
    async fn finish_task(
        self: &Arc<Self>,
        aid: &Aid,
        task_id: &TaskId,
        status: &str,
        (command, end): (&CommandRead, TerminalStatus),
        row: RunTaskRow,
    ) -> Result<(), Error> {
        // It was begun, however short it was.
        let is_begun = command.row.acknowledged_at.is_some();
        let status = match status {
            SUBMITTED if is_begun => match self.accept_task(aid, task_id).await? {
                Acted::Done => WORKING,
                Acted::Later | Acted::Overtaken => return Ok(()),
            },
            known => known,
        };
        if end != TerminalStatus::Completed {
            let Failure { kind, message } = &command.row.failure;
            let kind = kind.as_deref().unwrap_or("backend-failed");
            let sentence = match message {
                Some(message) => format!("{kind}: {message}"),
                None => kind.to_owned(),
            };
            return self.fail_task(aid, task_id, status, &sentence, &row).await;
        }
        let wanted = CommandResult { run_id: row.run_id.clone(), command_id: row.command_id.clone() };
        let result = self.clone().command_result(Caller::Operator, wanted).await?;
        let reply = result.reply.filter(|reply| !reply.is_empty());
        let artifacts = reply.map(|reply| Ok::<_, Error>(vec![artifact(&reply)?])).transpose()?;
        let complete =
            Complete { task_id: task_id.clone(), artifacts, request_id: None, expected_version: None };
        match self.change_task(aid, &complete).await? {
            Acted::Done => self.end_task_run(&row, TerminalStatus::Completed, Failure::default()).await,
            Acted::Later | Acted::Overtaken => Ok(()),
        }
    }

    /// The task ends without a result. One that nobody has begun is refused.
    async fn fail_task(
        &self,
        aid: &Aid,
        task_id: &TaskId,
        status: &str,
        sentence: &str,
        row: &RunTaskRow,
    ) -> Result<(), Error> {
        let acted = match status {
            SUBMITTED => self.reject_task(aid, task_id, sentence).await?,
            _ => {
                let reason = Some(reason(sentence));
                let fail =
                    Fail { task_id: task_id.clone(), reason, request_id: None, expected_version: None };
                self.change_task(aid, &fail).await?
            }
        };
        match acted {
            Acted::Done => {
                let (kind, message) = sentence.split_once(": ").unwrap_or(("infra-failed", sentence));
                self.end_task_run(row, TerminalStatus::Failed, Failure::of(kind, message)).await
            }
            Acted::Later | Acted::Overtaken => Ok(()),
        }
    }

    /// A task that is not among the open ones: nobody waits for what its run does.
    pub(super) async fn leave_task(self: &Arc<Self>, row: RunTaskRow) -> Result<(), Error> {
        let get = Get { task_id: task_id(&row)?, messages_after_seq: Some(row.messages) };
        let status = match self.as_agent(&aid_of(&row)?, &get).await {
            Ok(task) if OPEN.contains(&&*task.status) => {
                return self.go_on_with_task(&task.status, task.version, row).await;
            }
            Ok(task) => task.status,
            Err(error) if error.code() == codes::task::TASK_NOT_FOUND.code => "removed".to_owned(),
            Err(error) => return Err(Error::Other(error)),
        };
        let cancelled = Failure::cancelled(Some(&format!("the task is {status}")));
        let cancel = RunOperation::CancelRun { reason: cancelled.message.clone() };
        let end = match &*status {
            "completed" => TerminalStatus::Completed,
            _ => TerminalStatus::Cancelled,
        };
        let command = self.store.command(&row.command_id).await?;
        if command.is_some_and(|command| command.row.terminal().is_none()) {
            // Its runner is asked to stop, and the run ends when it has.
            match self.submit(&row.run_id, CallAccess::System, cancel).await {
                Ok(_) | Err(Error::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
            return Ok(self.store.end_run_task(&row.task_id, self.clock.now_ms()).await?);
        }
        let failure = if end == TerminalStatus::Completed { Failure::default() } else { cancelled };
        self.end_task_run(&row, end, failure).await
    }

    /// First the run and then the row: what was stopped in between is done again.
    async fn end_task_run(
        &self,
        row: &RunTaskRow,
        status: TerminalStatus,
        failure: Failure,
    ) -> Result<(), Error> {
        match self.submit(&row.run_id, CallAccess::System, RunOperation::End { status, failure }).await {
            Ok(_) | Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(self.store.end_run_task(&row.task_id, self.clock.now_ms()).await?)
    }
}

fn aid_of(row: &RunTaskRow) -> Result<Aid, Error> {
    Aid::parse(&row.aid).map_err(|error| Error::Other(RpcError::internal(anyhow::anyhow!("{error}"))))
}

/// The reply, or as much of it as a task takes.
fn artifact(reply: &str) -> Result<NewArtifact, Error> {
    let text = |text: &str| to_raw_value(text).map_err(RpcError::internal);
    let content = match reply.len() > MOST_REPLY {
        false => text(reply)?,
        true => {
            let cut = reply.floor_char_boundary(MOST_REPLY);
            text(&format!("{}\n\n[The reply has {} bytes, and was cut here.]", &reply[..cut], reply.len()))?
        }
    };
    let name = |text: &str| text.to_owned();
    Ok(NewArtifact {
        id: name("reply").try_into().map_err(Error::Invalid)?,
        kind: name("text").try_into().map_err(Error::Invalid)?,
        name: None,
        mime_type: Some(name("text/markdown").try_into().map_err(Error::Invalid)?),
        content: Some(content),
        reference: None,
        size_bytes: None,
        sha256: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reply_is_cut_and_says_so() {
        let content = |reply: &str| -> String {
            serde_json::from_str(artifact(reply).unwrap().content.unwrap().get()).unwrap()
        };
        assert_eq!(content("done"), "done");
        let whole = "ä".repeat(MOST_REPLY / 2);
        assert_eq!(content(&whole), whole);
        let cut = content(&format!("x{whole}"));
        let end = format!("\n\n[The reply has {} bytes, and was cut here.]", MOST_REPLY + 1);
        assert_eq!(cut.strip_suffix(&end).map(str::len), Some(MOST_REPLY - 1), "at the end of a character");
    }
}
