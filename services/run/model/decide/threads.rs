//! Conversations of front ends: their turns are commands like all others, and what is said in them is kept in the same commit as the log.

use super::RunDecision;
use super::approvals::is_offered;
use crate::error::Error;
use crate::model::call::{NewCommand, NewThreadRun, RunAnswer};
use crate::model::run::Failure;
use crate::model::thread::{
    EndedTurn, GivenAnswer, LONGEST_CONTENT, NewPart, NewTurn, PartRow, TURN_KEY, ThreadMessage, ThreadRow,
};
use kernel::Kept;
use proto_schemas::requests::run::{RunEventType, TerminalStatus};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeSet;

/// Turns of a conversation that may wait behind the one that is worked on.
const MOST_WAITING: usize = 20;

/// What is read of a message of a back end.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageSaid {
    #[serde(default)]
    partial: bool,
    item_id: Option<String>,
    #[serde(default)]
    text: String,
}

#[derive(Deserialize)]
struct StatusSaid {
    phase: Option<String>,
    ui_hints: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolSaid {
    call_id: Option<String>,
    #[serde(default)]
    status: String,
}

#[derive(Deserialize)]
struct EndSaid {
    status: TerminalStatus,
}

impl RunDecision<'_> {
    /// The first turn of a run that was created for a conversation.
    pub fn begin_thread(&mut self, new: NewThreadRun) -> Result<RunAnswer, Error> {
        let NewThreadRun { mut thread, session, command } = new;
        thread.run_id = self.run.row.id.clone();
        self.run.row.agent = Some(thread.aid.clone());
        if thread.generation == 1 {
            self.runs.threads.new_threads.push(thread.id.clone());
        }
        self.runs.threads.new_sessions.extend(session);
        self.run.thread = Some(thread);
        self.run.thread_changed = true;
        self.add_command(command)
    }

    /// Whether a turn may come behind those that wait.
    pub(super) fn has_space_for_turn(&self) -> Result<(), Error> {
        let is_turn = |key: &Option<String>| key.as_deref().is_some_and(|key| key.starts_with(TURN_KEY));
        let waiting = self.run.open_commands().filter(|command| is_turn(&command.key)).count();
        match waiting <= MOST_WAITING {
            true => Ok(()),
            false => Err(Error::Limit {
                sentence: format!("at most {MOST_WAITING} runs of a thread can wait"),
                scope: "agui.waiting",
                limit: i64::try_from(MOST_WAITING).unwrap_or(i64::MAX),
                held: i64::try_from(waiting).unwrap_or(i64::MAX),
            }),
        }
    }

    /// What a turn of a conversation stores besides its command. A turn that answers no open question comes after it, and so cancels it.
    pub(super) fn add_turn(&mut self, command_id: &str, turn: NewTurn) -> Result<(), Error> {
        let NewTurn { part, message_id, text, attachments, pictures } = turn;
        let bytes = part.bytes() + text.len() + attachments.as_ref().map_or(0, String::len);
        self.runs.kept.charge(&part.payer, Kept::rows(2, bytes)).map_err(kernel::ChargeError::Full)?;
        for question in self.open_questions() {
            // One that has just expired needs no answer.
            let _ = self.approve(&question, None, "cancel".to_owned(), None, part.aid.clone());
        }
        self.add_part(command_id, part, &[]);
        let used = pictures.into_iter().map(|path| (path, command_id.to_owned()));
        self.runs.threads.used.extend(used);
        self.add_message(command_id, "user", (message_id, text), attachments, true);
        Ok(())
    }

    /// Answers every open question, each once, and no other.
    pub fn resume(&mut self, answers: Vec<GivenAnswer>, part: NewPart) -> Result<RunAnswer, Error> {
        let open = self.open_questions();
        let named: BTreeSet<&String> = answers.iter().map(|answer| &answer.approval_id).collect();
        if named.iter().any(|id| !open.contains(*id)) {
            return Err(Error::RunInput("unknown interruptId".to_owned()));
        }
        if named.len() != answers.len() || named.len() != open.len() {
            return Err(Error::RunInput("resume must answer every open interrupt".to_owned()));
        }
        let ids: Vec<String> = answers.iter().map(|answer| answer.approval_id.clone()).collect();
        let asked_by = ids.first().and_then(|id| self.run.approvals.get(id));
        let Some(command_id) = asked_by.map(|approval| approval.command_id.clone()) else {
            return Err(Error::RunInput("resume must answer every open interrupt".to_owned()));
        };
        // Of answers of which one is refused none counts.
        for answer in &answers {
            if let Some(asked) = self.run.approvals.get(&answer.approval_id) {
                is_offered(asked, &answer.decision)?;
            }
        }
        self.runs.kept.charge(&part.payer, Kept::rows(1, part.bytes())).map_err(kernel::ChargeError::Full)?;
        for answer in answers {
            let GivenAnswer { approval_id, decision, payload } = answer;
            self.approve(&approval_id, None, decision, payload, part.aid.clone())?;
        }
        self.add_part(&command_id, part, &ids);
        Ok(RunAnswer::Command { command_id, created: true })
    }

    /// Ends a turn that no runner works on.
    pub fn fail_command(&mut self, command_id: &str, failure: Failure) -> Result<RunAnswer, Error> {
        let answer = RunAnswer::Command { command_id: command_id.to_owned(), created: false };
        if self.command(command_id)?.terminal().is_some() || self.lease_is_live() {
            return Ok(answer);
        }
        self.end_command(command_id, TerminalStatus::Failed, failure)?;
        Ok(answer)
    }

    /// The questions that wait for an answer.
    fn open_questions(&self) -> Vec<String> {
        let open = self.run.approvals.values().filter(|approval| {
            approval.settled_at.is_none() && approval.decision.is_none() && self.now < approval.expires_at
        });
        open.map(|approval| approval.id.clone()).collect()
    }

    fn add_part(&mut self, command_id: &str, part: NewPart, answers: &[String]) {
        let Some(thread) = &mut self.run.thread else { return };
        thread.last_position += 1;
        thread.updated_at = thread.updated_at.max(self.now);
        self.run.thread_changed = true;
        self.runs.threads.parts.push(PartRow {
            thread_id: part.thread_id,
            id: part.id,
            aid: part.aid,
            position: thread.last_position,
            task_id: command_id.to_owned(),
            run_id: self.run.row.id.clone(),
            base: thread.base,
            input: part.input,
            input_hash: part.input_hash,
            parent_id: part.parent_id,
            has_protocol: i64::from(part.has_protocol),
            answers: serde_json::to_string(answers).unwrap_or_default(),
            created_at: self.now,
        });
        self.touch();
    }

    fn add_message(
        &mut self,
        command_id: &str,
        role: &'static str,
        (id, mut content): (String, String),
        attachments: Option<String>,
        shown: bool,
    ) {
        let Some(thread) = &mut self.run.thread else { return };
        thread.last_message += 1;
        thread.updated_at = thread.updated_at.max(self.now);
        self.run.thread_changed = true;
        content.truncate(content.floor_char_boundary(LONGEST_CONTENT));
        self.runs.threads.messages.push(ThreadMessage {
            thread_id: thread.id.clone(),
            seq: thread.last_message,
            aid: thread.aid.clone(),
            id,
            role,
            content,
            attachments,
            ui_schema: None,
            task_id: command_id.to_owned(),
            shown: i64::from(shown),
            created_at: self.now,
        });
    }

    /// A runner has begun with a turn; its next event is the first one.
    pub(super) fn turn_begins(&mut self, command_id: &str) {
        if self.is_turn(command_id) {
            self.runs.threads.begun.push((command_id.to_owned(), self.run.row.last_seq + 1));
        }
    }

    /// Keeps what an event says in a conversation.
    pub(super) fn keep_said(&mut self, kind: RunEventType, command_id: &str, payload: &RawValue, seq: i64) {
        if !self.is_turn(command_id) {
            return;
        }
        match kind {
            RunEventType::AssistantMessage => self.keep_message(command_id, payload),
            RunEventType::ToolCall => {
                let said = serde_json::from_str::<ToolSaid>(payload.get()).ok();
                if let Some(ToolSaid { call_id: Some(id), status }) = said
                    && status != "started"
                {
                    self.add_message(command_id, "tool", (id, payload.get().to_owned()), None, false);
                }
            }
            RunEventType::BackendStatus if payload.get().contains("ui_hints") => {
                let said = serde_json::from_str::<StatusSaid>(payload.get()).ok();
                if let Some(StatusSaid { phase: Some(phase), ui_hints: Some(hints) }) = said
                    && phase == "ui-hints"
                    && let Some(schema) = ag_ui::compile_ui(&hints)
                {
                    self.runs.threads.ui.push((command_id.to_owned(), schema.to_string()));
                }
            }
            RunEventType::TerminalStatus => self.turn_ends(command_id, payload, seq),
            _ => {}
        }
    }

    /// A whole message. The last one is said once more as the reply.
    fn keep_message(&mut self, command_id: &str, payload: &RawValue) {
        let Ok(said) = serde_json::from_str::<MessageSaid>(payload.get()) else { return };
        if said.partial {
            return;
        }
        let id = said.item_id.unwrap_or_else(|| format!("{command_id}-message"));
        let item = format!("{command_id} {id}");
        let Some(thread) = &mut self.run.thread else { return };
        if thread.last_item != item {
            thread.last_item = item;
            let id = ag_ui::message_id(command_id, &id);
            self.add_message(command_id, "assistant", (id, said.text), None, false);
        }
    }

    fn turn_ends(&mut self, command_id: &str, payload: &RawValue, seq: i64) {
        let Ok(EndSaid { status }) = serde_json::from_str(payload.get()) else { return };
        let (bytes, rows) = (self.run.row.event_bytes, self.run.row.event_rows);
        let is_completed = status == TerminalStatus::Completed;
        let mut of_pieces = None;
        let has_message = |thread: &ThreadRow| {
            thread.last_item.strip_prefix(command_id).is_some_and(|item| item.starts_with(' '))
        };
        if is_completed && self.run.thread.as_ref().is_some_and(|thread| !has_message(thread)) {
            let id = ag_ui::message_id(command_id, &format!("{command_id}-message"));
            self.add_message(command_id, "assistant", (id, String::new()), None, true);
            of_pieces = self.runs.threads.messages.pop();
        }
        if let Some(thread) = &mut self.run.thread {
            thread.event_bytes = bytes;
            thread.event_rows = rows;
            thread.updated_at = thread.updated_at.max(self.now);
            self.run.thread_changed = true;
        }
        self.runs.threads.ended.push(EndedTurn {
            task_id: command_id.to_owned(),
            seq,
            is_completed,
            at: self.now,
            run_id: self.run.row.id.clone(),
            of_pieces,
        });
    }

    /// Whether a command is a turn of the conversation.
    fn is_turn(&self, command_id: &str) -> bool {
        let key = || self.run.commands.get(command_id).and_then(|command| command.key.as_deref());
        self.run.thread.is_some() && key().is_some_and(|key| key.starts_with(TURN_KEY))
    }
}

/// The key of the command of a turn.
pub(crate) fn turn_key(run_id: &str) -> String {
    format!("{TURN_KEY}{run_id}")
}

impl NewCommand {
    /// Whether it belongs to a conversation.
    pub fn is_turn(&self) -> bool {
        self.turn.is_some()
    }
}
