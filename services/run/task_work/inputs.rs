//! What is said while a run works on a task: answers of the owner to questions of the back end, and guidance.

use super::beginning::text_of;
use super::calls::Acted;
use crate::RunService;
use crate::error::Error;
use crate::model::call::{CallAccess, RunOperation};
use crate::model::run::ApprovalRow;
use crate::store::RunTaskRow;
use kernel::{Aid, Caller, RpcError, sha256_hex};
use proto_schemas::requests::run::{CommandCreate, CommandType};
use proto_schemas::requests::task::{Get, TaskId, TaskMessage, TaskObject};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use std::sync::Arc;

/// The decisions that every question takes, and what people write for them.
const WORDS: [(&str, &[&str]); 3] = [
    ("accept", &["accept", "accepted", "yes", "y", "ok", "okay", "approve", "approved"]),
    ("decline", &["decline", "declined", "no", "n", "reject", "deny"]),
    ("cancel", &["cancel", "canceled", "cancelled", "stop"]),
];

/// A question, as its back end asked it. What may be absent may be `null`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OwnersQuestion {
    reason: Option<String>,
    message: Option<String>,
    response_schema: Option<Box<RawValue>>,
    options: Option<Vec<String>>,
}

/// An answer in JSON.
#[derive(Deserialize)]
struct JsonAnswer {
    decision: String,
    payload: Option<Box<RawValue>>,
}

/// What an owner has answered.
#[derive(Debug)]
struct OwnersAnswer {
    decision: String,
    payload: Option<Box<RawValue>>,
}

impl RunService {
    /// Passes on what was said since the last look.
    pub(super) async fn pass_on_inputs(
        self: &Arc<Self>,
        aid: &Aid,
        task_id: &TaskId,
        row: &mut RunTaskRow,
    ) -> Result<(), Error> {
        loop {
            let get = Get { task_id: task_id.clone(), messages_after_seq: Some(row.messages) };
            let task = self.as_agent(aid, &get).await?;
            for message in &task.messages {
                if message.kind == "input" {
                    self.pass_on(aid, &task, message, row).await?;
                }
                row.messages = message.seq;
            }
            if !task.messages_truncated || task.messages.is_empty() {
                return Ok(());
            }
        }
    }

    async fn pass_on(
        self: &Arc<Self>,
        aid: &Aid,
        task: &TaskObject,
        message: &TaskMessage,
        row: &mut RunTaskRow,
    ) -> Result<(), Error> {
        let asked = row.asked.as_ref().filter(|_| message.from == task.owner);
        if let Some(approval) = self.open_question(row, asked).await? {
            return self.answer(aid, &approval, message, row).await;
        }
        // What cannot be read changes nothing: the work goes on without it.
        let Ok(text) = text_of(&message.body) else { return Ok(()) };
        let steer = CommandCreate {
            run_id: row.run_id.clone(),
            kind: CommandType::Steer,
            payload: to_raw_value(&json!({ "prompt": text })).map_err(RpcError::internal)?,
            idempotency_key: Some(format!("{} {}", row.task_id, message.seq)),
        };
        match self.clone().command_create(Caller::Operator, steer).await {
            Ok(_) => Ok(()),
            Err(error) if super::beginning::lasting(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn open_question(
        &self,
        row: &RunTaskRow,
        asked: Option<&String>,
    ) -> Result<Option<ApprovalRow>, Error> {
        let Some(asked) = asked else { return Ok(None) };
        let approval = self.store.approval(&row.run_id, asked).await?;
        let now = self.clock.now_ms();
        let is_open = |approval: &ApprovalRow| {
            approval.decision.is_none() && approval.settled_at.is_none() && now < approval.expires_at
        };
        Ok(approval.filter(is_open))
    }

    async fn answer(
        &self,
        aid: &Aid,
        approval: &ApprovalRow,
        message: &TaskMessage,
        row: &mut RunTaskRow,
    ) -> Result<(), Error> {
        let question: OwnersQuestion = serde_json::from_str(approval.question.get()).unwrap_or_default();
        let Some(answer) = question.answer_in(&message.body) else {
            let again = format!("This is no answer to the question. {}", question.how_to_answer());
            let key = format!("{} {}", key_of(&approval.id), message.seq);
            let task_id = task_id(row)?;
            return self.ask_owner(aid, &task_id, &again, &key).await.map(|_| ());
        };
        let approve = RunOperation::Approve {
            approval_id: approval.id.clone(),
            command_id: Some(row.command_id.clone()),
            decision: answer.decision,
            answer: answer.payload.map(|payload| crate::shown::redacted(&payload)).transpose()?,
            by: message.from.clone(),
        };
        row.asked = None;
        match self.submit(&row.run_id, CallAccess::System, approve).await {
            // Somebody else was faster, or it is too late: the run says how it goes on.
            Ok(_) | Err(Error::Illegal(_) | Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Asks the owner what the back end asks, one question after the other.
    pub(super) async fn ask_questions(&self, aid: &Aid, row: &mut RunTaskRow) -> Result<Acted, Error> {
        if self.open_question(row, row.asked.as_ref()).await?.is_some() {
            return Ok(Acted::Done);
        }
        let now = self.clock.now_ms();
        let open = self.store.open_approvals(&row.run_id).await?;
        let next = open.iter().find(|one| one.command_id == row.command_id && now < one.expires_at);
        let Some(approval) = next else { return Ok(Acted::Done) };
        let question: OwnersQuestion = serde_json::from_str(approval.question.get()).unwrap_or_default();
        let asked = self.ask_owner(aid, &task_id(row)?, &question.text(), &key_of(&approval.id)).await?;
        if asked == Acted::Done {
            row.asked = Some(approval.id.clone());
        }
        Ok(asked)
    }
}

pub(super) fn task_id(row: &RunTaskRow) -> Result<TaskId, Error> {
    row.task_id.parse().map_err(|error: String| Error::Other(RpcError::internal(anyhow::anyhow!(error))))
}

/// The id of a question is as long as its back end likes.
fn key_of(approval: &str) -> String {
    sha256_hex(approval).chars().take(32).collect()
}

impl OwnersQuestion {
    fn text(&self) -> String {
        let said = [self.message.as_deref(), self.reason.as_deref()];
        let said = said.into_iter().flatten().find(|text| !text.trim().is_empty());
        format!("{}\n\n{}", said.unwrap_or("The agent asks for a decision."), self.how_to_answer())
    }

    fn how_to_answer(&self) -> String {
        let options = self.options.as_deref().unwrap_or_default();
        let words = match options.is_empty() {
            true => "accept, decline or cancel".to_owned(),
            false => options.join(", "),
        };
        let data = match self.response_schema {
            Some(_) => ", or with JSON: {\"decision\": \"accept\", \"payload\": …}",
            None => "",
        };
        format!("Answer with one of: {words}{data}.")
    }

    /// None where it is no answer to this question.
    fn answer_in(&self, body: &RawValue) -> Option<OwnersAnswer> {
        let text = text_of(body).ok()?;
        if let Ok(written) = serde_json::from_str::<JsonAnswer>(&text) {
            let decision = self.decision(&written.decision)?;
            return Some(OwnersAnswer { decision, payload: written.payload });
        }
        if let Some(decision) = self.decision(&text) {
            return Some(OwnersAnswer { decision, payload: None });
        }
        // What the back end has asked to be filled in.
        let is_data = self.response_schema.is_some()
            && serde_json::from_str::<Value>(&text).is_ok_and(|value| value.is_object());
        let payload = is_data.then(|| RawValue::from_string(text).ok()).flatten()?;
        Some(OwnersAnswer { decision: "accept".to_owned(), payload: Some(payload) })
    }

    fn decision(&self, text: &str) -> Option<String> {
        let said = text.trim().trim_end_matches(['.', '!']).to_lowercase();
        let options = self.options.as_deref().unwrap_or_default();
        if let Some(option) = options.iter().find(|option| option.to_lowercase() == said) {
            return Some(option.clone());
        }
        let known = WORDS.iter().find(|(_, words)| words.contains(&&*said));
        known.map(|(decision, _)| (*decision).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(question: &Value, body: &Value) -> Option<(String, Option<String>)> {
        let question: OwnersQuestion = serde_json::from_value(question.clone()).unwrap();
        let body = to_raw_value(body).unwrap();
        let answer = question.answer_in(&body)?;
        Some((answer.decision, answer.payload.map(|payload| payload.get().to_owned())))
    }

    fn said(text: &str) -> Value {
        json!({ "type": "text", "content": text })
    }

    #[test]
    fn an_owner_answers_in_words_or_in_json() {
        let question =
            json!({ "reason": "command", "message": null, "options": null, "responseSchema": null });
        for (text, decision) in [
            ("accept", "accept"),
            (" Yes. ", "accept"),
            ("OK!", "accept"),
            ("no", "decline"),
            ("STOP", "cancel"),
        ] {
            assert_eq!(answer(&question, &said(text)), Some((decision.to_owned(), None)), "{text}");
        }
        for text in ["", "maybe", "yes, but only today", "{}", "{\"decision\":\"maybe\"}"] {
            assert_eq!(answer(&question, &said(text)), None, "{text}");
        }
        let written = json!({ "type": "json", "content": { "decision": "decline", "payload": { "a": 1 } } });
        assert_eq!(answer(&question, &written), Some(("decline".to_owned(), Some("{\"a\":1}".to_owned()))));
        assert_eq!(answer(&question, &json!({ "type": "e2ee" })), None);
    }

    #[test]
    fn a_question_may_have_options_or_want_data() {
        let options = json!({ "reason": "choice", "options": ["Blue", "Red"] });
        assert_eq!(answer(&options, &said("blue")), Some(("Blue".to_owned(), None)));
        assert_eq!(answer(&options, &said("cancel")), Some(("cancel".to_owned(), None)));
        assert_eq!(answer(&options, &said("green")), None);
        let data = json!({ "reason": "input", "responseSchema": { "type": "object" } });
        let filled = json!({ "type": "json", "content": { "name": "x" } });
        let expected = Some(("accept".to_owned(), Some("{\"name\":\"x\"}".to_owned())));
        assert_eq!(answer(&data, &filled), expected);
        assert_eq!(answer(&data, &said("whatever")), None);
    }

    #[test]
    fn a_question_tells_how_to_answer_it() {
        let question = OwnersQuestion { reason: Some("run rm -r".to_owned()), ..OwnersQuestion::default() };
        assert_eq!(question.text(), "run rm -r\n\nAnswer with one of: accept, decline or cancel.");
        let options = Some(vec!["a".to_owned(), "b".to_owned()]);
        let question =
            OwnersQuestion { message: Some("which?".to_owned()), options, ..OwnersQuestion::default() };
        assert_eq!(question.text(), "which?\n\nAnswer with one of: a, b.");
    }
}
