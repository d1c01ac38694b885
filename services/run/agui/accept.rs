//! The acceptance of a run: what is answered is stored.

use super::front_end;
use super::input::CheckedInput;
use super::pictures::mime_type_of;
use super::thread_run::ThreadRunPlan;
use crate::RunService;
use crate::error::Error;
use crate::ids::new_id;
use crate::model::call::{CallAccess, NewCommand, RunAnswer, RunOperation};
use crate::model::decide::turn_key;
use crate::model::run::Failure;
use crate::model::thread::{GivenAnswer, NewPart, NewTurn, ThreadRow};
use crate::runs::unexpected;
use crate::shown::redacted;
use crate::store::PartView;
use ag_ui::{InputRules, ResumeAnswer};
use kernel::{Caller, CallingAgent, RpcError};
use proto_schemas::requests::agui::AcceptedTurn;
use proto_schemas::requests::run::{CommandType, TerminalStatus};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::to_raw_value;
use std::sync::Arc;

/// How often it is tried again when something has changed meanwhile.
const ATTEMPTS: usize = 5;
/// A run of the manager that has had so many turns is followed by another one: what belongs to a run is limited.
const MOST_TURNS: i64 = 200;
const NO_MESSAGE: &str = "RunAgentInput.messages must contain exactly one user message";
const NO_SIGNED_URL: &str = "binary content url is not a valid signed URL";
const UNKNOWN_INTERRUPT: &str = "unknown interruptId";
const NO_DECISION: &str = "resume needs payload.decision or payload.approved";

/// What is read of a question.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AskedForm {
    response_schema: Option<serde_json::Value>,
}

impl RunService {
    pub(super) async fn accept_run(
        self: &Arc<Self>,
        caller: &Caller,
        json: Vec<u8>,
        rules: InputRules,
    ) -> Result<AcceptedTurn, Error> {
        let agent = front_end(caller)?;
        let checked = self.checked_input(caller, json, rules).await?;
        if checked.input.client_time_ignored {
            tracing::info!(aid = %agent.aid, "client_time was ignored: it is not valid (client_time_ignored)");
        }
        if checked.input.clocks_disagree {
            tracing::info!(aid = %agent.aid, "the two times of client_time are over a day apart");
        }
        for _ in 0..ATTEMPTS {
            match self.accept_once(agent, &checked).await {
                Ok(Some(accepted)) => return Ok(accepted),
                // Somebody else has begun or ended the conversation's run meanwhile.
                Ok(None) | Err(Error::RunEnded { .. }) => {}
                // The same id was accepted meanwhile: the next look finds it.
                Err(Error::Idempotency { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Other(RpcError::internal(anyhow::anyhow!("a conversation changes all the time"))))
    }

    /// The conversation is read before its runs. So a run that was accepted in an earlier run of the manager is found: the next one is not
    /// begun before the earlier one has ended.
    async fn accept_once(
        self: &Arc<Self>,
        agent: &CallingAgent,
        checked: &CheckedInput,
    ) -> Result<Option<AcceptedTurn>, Error> {
        let input = &checked.input;
        let thread = self.store.thread(&input.thread_id).await?;
        if thread.as_ref().is_some_and(|thread| thread.aid != agent.aid.as_str()) {
            return Err(Error::NotOwner);
        }
        if let Some(known) = self.store.part(&input.thread_id, &input.run_id).await? {
            return match known.input_hash == checked.hash {
                true => Ok(Some(accepted(&known.task_id, checked, false))),
                false => Err(Error::RunIdUsed),
            };
        }
        if !input.resume.is_empty() {
            let thread = thread.ok_or_else(|| Error::RunInput(UNKNOWN_INTERRUPT.to_owned()))?;
            return self.accept_answers(agent, checked, &thread).await.map(Some);
        }
        if !self.store.has_pictures(agent.aid.as_str(), &checked.pictures).await? {
            return Err(Error::RunInput(NO_SIGNED_URL.to_owned()));
        }
        let command = self.new_turn(agent, checked).await?;
        let (run_id, command_id, created) = match self.plan_of(agent, thread.as_ref()).await? {
            ThreadRunPlan::Goes(run_id) => {
                let answer =
                    self.submit(&run_id, CallAccess::System, RunOperation::AddCommand(command)).await?;
                let RunAnswer::Command { command_id, .. } = answer else { return Err(unexpected()) };
                (run_id, command_id, false)
            }
            ThreadRunPlan::Ends(run_id) => {
                let end =
                    RunOperation::End { status: TerminalStatus::Completed, failure: Failure::default() };
                self.submit(&run_id, CallAccess::System, end).await?;
                return Ok(None);
            }
            ThreadRunPlan::Begins(next) => {
                let Some((run_id, command_id)) = self.begin_run(&input.thread_id, next, command).await?
                else {
                    return Ok(None);
                };
                (run_id, command_id, thread.is_none())
            }
        };
        self.has_turn_worked_on(run_id, command_id.clone());
        Ok(Some(accepted(&command_id, checked, created)))
    }

    /// Answers to all open questions of the conversation.
    async fn accept_answers(
        self: &Arc<Self>,
        agent: &CallingAgent,
        checked: &CheckedInput,
        thread: &ThreadRow,
    ) -> Result<AcceptedTurn, Error> {
        if let Some(turn) = &checked.input.turn
            && !self.store.knows_message(&thread.id, &turn.message_id).await?
        {
            return Err(Error::RunInput(NO_MESSAGE.to_owned()));
        }
        let mut answers = Vec::new();
        for answer in &checked.input.resume {
            answers.push(self.given_answer(thread, answer).await?);
        }
        let part = Box::new(self.new_part(agent, checked));
        let resume = RunOperation::Resume { answers, part };
        let answer = match self.submit(&thread.run_id, CallAccess::System, resume).await {
            // The run of the manager has ended, and its questions with it.
            Err(Error::RunEnded { .. } | Error::NotFound(_)) => {
                return Err(Error::RunInput(UNKNOWN_INTERRUPT.to_owned()));
            }
            Err(Error::Invalid(sentence)) => return Err(Error::RunInput(sentence)),
            answer => answer?,
        };
        let RunAnswer::Command { command_id, .. } = answer else { return Err(unexpected()) };
        self.has_turn_worked_on(thread.run_id.clone(), command_id.clone());
        Ok(accepted(&command_id, checked, false))
    }

    /// What fills in a form needs no decision. Everything else does: no other answer counts as a consent.
    async fn given_answer(&self, thread: &ThreadRow, answer: &ResumeAnswer) -> Result<GivenAnswer, Error> {
        let payload = answer.payload.as_ref().map(to_raw_value).transpose().map_err(RpcError::internal)?;
        let decision = match answer.decision() {
            Some(decision) => decision,
            None => {
                let asked = self.store.approval(&thread.run_id, &answer.interrupt_id).await?;
                let asked = asked.ok_or_else(|| Error::RunInput(UNKNOWN_INTERRUPT.to_owned()))?;
                let asked: AskedForm = serde_json::from_str(asked.question.get()).unwrap_or_default();
                if asked.response_schema.is_none() || payload.is_none() {
                    return Err(Error::RunInput(NO_DECISION.to_owned()));
                }
                "accept".to_owned()
            }
        };
        Ok(GivenAnswer {
            approval_id: answer.interrupt_id.clone(),
            decision,
            payload: payload.map(|payload| redacted(&payload)).transpose()?,
        })
    }

    /// The run of the manager that a turn goes to.
    async fn plan_of(
        &self,
        agent: &CallingAgent,
        thread: Option<&ThreadRow>,
    ) -> Result<ThreadRunPlan, Error> {
        let Some(thread) = thread else {
            self.may_begin_thread(agent).await?;
            return Ok(ThreadRunPlan::Begins(None));
        };
        let run = self.store.run(&thread.run_id).await?;
        let open = run.filter(|run| run.row.ended_at.is_none() && run.row.cancel_at.is_none());
        let Some(run) = open else { return Ok(ThreadRunPlan::Begins(Some(thread.clone()))) };
        let most_bytes = i64::try_from(self.settings.event_bytes / 2).unwrap_or(i64::MAX);
        let is_used_up = run.row.last_command >= MOST_TURNS || run.row.event_bytes > most_bytes;
        match is_used_up && self.store.open_part(&thread.id).await?.is_none() {
            true => Ok(ThreadRunPlan::Ends(thread.run_id.clone())),
            false => Ok(ThreadRunPlan::Goes(thread.run_id.clone())),
        }
    }

    async fn new_turn(&self, agent: &CallingAgent, checked: &CheckedInput) -> Result<NewCommand, Error> {
        let input = &checked.input;
        let turn = input.turn.as_ref().ok_or_else(|| Error::RunInput(NO_MESSAGE.to_owned()))?;
        let timezone = match &input.client_time {
            Some(time) => time.device_timezone.clone(),
            None => self.zone_of(agent.aid.as_str()).await?,
        };
        let mode = match input.mode {
            ag_ui::RuntimeMode::Chat => &self.settings.agui.chat,
            ag_ui::RuntimeMode::Automation => &self.settings.agui.automation,
        };
        let pictures = turn.attachments.iter().zip(&checked.pictures);
        let pictures: Vec<_> = pictures
            .map(|(_, path)| json!({ "attachmentId": path, "mimeType": mime_type_of(path) }))
            .collect();
        let payload = json!({
            "prompt": turn.text, "mode": input.mode.as_str(), "timezone": timezone, "tools": mode.tools,
            "context": mode.context, "attachments": pictures,
        });
        let attachments = turn.attachments.iter().zip(&checked.pictures);
        let attachments: Vec<_> =
            attachments.map(|(_, path)| json!({ "path": path, "mimeType": mime_type_of(path) })).collect();
        Ok(NewCommand {
            id: new_id(&self.ids, "cmd", self.clock.now_ms()),
            kind: CommandType::Turn,
            payload: to_raw_value(&payload).map_err(RpcError::internal)?,
            payload_hash: checked.hash.clone(),
            key: Some(turn_key(&input.run_id)),
            turn: Some(Box::new(NewTurn {
                part: self.new_part(agent, checked),
                message_id: turn.message_id.clone(),
                text: turn.text.clone(),
                attachments: Some(serde_json::to_string(&attachments).map_err(RpcError::internal)?)
                    .filter(|_| !attachments.is_empty()),
                pictures: checked.pictures.clone(),
            })),
        })
    }

    fn new_part(&self, agent: &CallingAgent, checked: &CheckedInput) -> NewPart {
        let input = &checked.input;
        NewPart {
            thread_id: input.thread_id.clone(),
            id: input.run_id.clone(),
            aid: agent.aid.to_string(),
            input: checked.text.clone(),
            input_hash: checked.hash.clone(),
            parent_id: input.parent_run_id.clone(),
            has_protocol: input.protocol_version.is_some(),
            payer: self.store.account.payer(agent),
        }
    }
}

fn accepted(task_id: &str, checked: &CheckedInput, created: bool) -> AcceptedTurn {
    AcceptedTurn {
        task_id: task_id.to_owned(),
        thread_id: checked.input.thread_id.clone(),
        run_id: checked.input.run_id.clone(),
        created,
    }
}

/// How a part is shown by the fold.
pub(super) fn shown_part(part: &PartView) -> ag_ui::RunPart {
    ag_ui::RunPart {
        run_id: part.id.clone(),
        parent_run_id: part.parent_id.clone(),
        has_protocol_version: part.has_protocol == 1,
        answers: serde_json::from_str(&part.answers).unwrap_or_default(),
    }
}
