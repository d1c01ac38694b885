//! Events of a back end as the log has them: redacted, joined, and in the members that the manager reads.

use super::partial::{PartialMessage, SaidPart};
use crate::back_end::{BackEndEvent, BackEndQuestion, ToolProgress, WrittenStream};
use crate::secrets::{RedactedStream, Redactor};
use proto_schemas::requests::run::RunEventType;
use proto_schemas::requests::runner::NewRunEvent;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tokio::time::Instant;

/// What arguments and output of a tool may have; the rest is cut off.
const LONGEST_VALUE: usize = 64 << 10;
/// A larger payload has its long texts cut. The manager keeps less of a text, and takes no call of over 4 MiB.
const LARGEST_PAYLOAD: usize = 2 << 20;
const LONGEST_TEXT: usize = 128 << 10;

/// Makes payloads, one event after the other.
pub(crate) struct EventPayloads {
    redactor: Redactor,
    /// What the ids of events begin with; no other runner has it.
    runner_id: String,
    events: u64,
    command: Option<String>,
    message: PartialMessage,
    stdout: RedactedStream,
    stderr: RedactedStream,
    /// The last whole message of the turn, which is its reply if it completes.
    last_message: Option<(String, String)>,
}

impl EventPayloads {
    pub fn new(redactor: Redactor, runner_id: &str) -> EventPayloads {
        EventPayloads {
            redactor,
            runner_id: runner_id.to_owned(),
            events: 0,
            command: None,
            message: PartialMessage::default(),
            stdout: RedactedStream::default(),
            stderr: RedactedStream::default(),
            last_message: None,
        }
    }

    /// What follows belongs to this command.
    pub fn begin(&mut self, command_id: &str) {
        self.command = Some(command_id.to_owned());
        self.last_message = None;
    }

    /// The events of the log for an event of the back end.
    pub fn of(&mut self, event: BackEndEvent, now: Instant) -> Vec<NewRunEvent> {
        let (kind, payload) = match event {
            BackEndEvent::Partial { item_id, text } => {
                let parts = self.message.push(&self.redactor, now, &item_id, &text);
                return parts.into_iter().map(|part| self.partial(&part)).collect();
            }
            BackEndEvent::Written { stream, text } => {
                let (held, redactor) = self.stream(stream);
                let text = held.push(redactor, &text);
                let mut events = self.due(now, true);
                events.extend(self.written(stream, text));
                return events;
            }
            BackEndEvent::Message { item_id, text } => {
                let mut events = self.rest_of_message();
                let (item_id, text) = (self.said(&item_id), self.said(&text));
                let payload = json!({ "itemId": item_id, "text": text, "final": false });
                self.last_message = Some((item_id, text));
                events.push(self.event(RunEventType::AssistantMessage, &payload));
                return events;
            }
            BackEndEvent::Ended(_) => return Vec::new(),
            BackEndEvent::Tool(tool) => (RunEventType::ToolCall, tool_call(tool)),
            BackEndEvent::Stage { name, is_finished } => {
                let phase = if is_finished { "stage-finished" } else { "stage-started" };
                (RunEventType::BackendStatus, json!({ "phase": phase, "stage": name }))
            }
            BackEndEvent::Thread { thread_id } => {
                (RunEventType::BackendStatus, json!({ "phase": "thread-started", "threadId": thread_id }))
            }
            BackEndEvent::Status { phase } => (RunEventType::BackendStatus, json!({ "phase": phase })),
            BackEndEvent::TurnBegun { thread_id, turn_id } => (
                RunEventType::BackendStatus,
                json!({ "phase": "turn-started", "threadId": thread_id, "turnId": turn_id }),
            ),
            BackEndEvent::Refused { method } => {
                (RunEventType::BackendStatus, json!({ "phase": "request-refused", "method": method }))
            }
            BackEndEvent::Reasoning { item_id, text } => {
                (RunEventType::Reasoning, json!({ "itemId": item_id, "text": text }))
            }
            BackEndEvent::Plan(plan) => (RunEventType::Plan, json!({ "plan": limited(plan) })),
            BackEndEvent::Diff { text } => (RunEventType::Diff, json!({ "text": text })),
            BackEndEvent::Asked(question) => (RunEventType::ApprovalRequest, approval_request(question)),
            BackEndEvent::Error { failure_kind, message } => {
                (RunEventType::Error, json!({ "failureKind": failure_kind, "message": message }))
            }
        };
        self.say_of(self.command.clone(), kind, payload, now)
    }

    /// An event about a command, behind what the back end has said.
    pub fn say_of(
        &mut self,
        command_id: Option<String>,
        kind: RunEventType,
        mut payload: Value,
        now: Instant,
    ) -> Vec<NewRunEvent> {
        self.redactor.json(&mut payload);
        let mut events = self.due(now, true);
        events.push(NewRunEvent { command_id, ..self.event(kind, &payload) });
        events
    }

    /// When something is to be said that waits for more.
    pub fn due_at(&self) -> Option<Instant> {
        self.message.due_at()
    }

    /// What is due now; or what is ready, because something comes behind it.
    pub fn due(&mut self, now: Instant, at_once: bool) -> Vec<NewRunEvent> {
        let is_due = at_once || self.due_at().is_some_and(|due| due <= now);
        let part = if is_due { self.message.take(now) } else { None };
        part.map(|part| self.partial(&part)).into_iter().collect()
    }

    /// The end of a turn: everything that was held back, how the reply may be shown, and, if the turn has completed, its last message once
    /// more as the reply.
    pub fn finish(&mut self, ui_hints: Option<Value>, has_reply: bool) -> Vec<NewRunEvent> {
        let mut events = self.rest_of_message();
        for stream in [WrittenStream::Stdout, WrittenStream::Stderr] {
            let (held, redactor) = self.stream(stream);
            let text = held.finish(redactor);
            events.extend(self.written(stream, text));
        }
        if let Some(mut hints) = ui_hints {
            self.redactor.json(&mut hints);
            let payload = json!({ "phase": "ui-hints", "ui_hints": hints });
            events.push(self.event(RunEventType::BackendStatus, &payload));
        }
        if let Some((item_id, text)) = self.last_message.take().filter(|_| has_reply) {
            let payload = json!({ "itemId": item_id, "text": text, "final": true, "replyAuthority": true });
            events.push(self.event(RunEventType::AssistantMessage, &payload));
        }
        self.command = None;
        events
    }

    /// A text without secrets.
    pub fn said(&self, text: &str) -> String {
        self.redactor.text(text).into_owned()
    }

    pub fn said_json(&self, mut value: Value) -> Value {
        self.redactor.json(&mut value);
        value
    }

    fn stream(&mut self, stream: WrittenStream) -> (&mut RedactedStream, &Redactor) {
        let held = match stream {
            WrittenStream::Stdout => &mut self.stdout,
            WrittenStream::Stderr => &mut self.stderr,
        };
        (held, &self.redactor)
    }

    fn written(&mut self, stream: WrittenStream, text: String) -> Option<NewRunEvent> {
        let payload = json!({
            "stream": stream.word(), "text": text, "outputBytes": text.len(), "outputTruncated": false,
        });
        (!text.is_empty()).then(|| self.event(RunEventType::CommandOutput, &payload))
    }

    fn rest_of_message(&mut self) -> Vec<NewRunEvent> {
        let rest = self.message.finish(&self.redactor);
        rest.map(|part| self.partial(&part)).into_iter().collect()
    }

    fn partial(&mut self, part: &SaidPart) -> NewRunEvent {
        let payload = json!({ "itemId": self.said(&part.item_id), "partial": true, "text": part.text });
        self.event(RunEventType::AssistantMessage, &payload)
    }

    fn event(&mut self, kind: RunEventType, payload: &Value) -> NewRunEvent {
        self.events += 1;
        let mut json = to_raw_value(payload).expect("a JSON value can be written");
        if json.get().len() > LARGEST_PAYLOAD {
            let mut shortened = payload.clone();
            shorten(&mut shortened);
            json = to_raw_value(&shortened).expect("a JSON value can be written");
        }
        NewRunEvent {
            client_event_id: format!("{}-{}", self.runner_id, self.events),
            kind,
            command_id: self.command.clone(),
            payload: json,
            occurred_at: None,
        }
    }
}

fn tool_call(tool: ToolProgress) -> Value {
    let ToolProgress { call_id, name, status, args, output, exit_code } = tool;
    let mut payload = json!({ "callId": call_id, "toolName": name, "status": status });
    if let Some(args) = args {
        // What results show of a tool that runs a command.
        if let Some(command) = args.get("command").filter(|command| command.is_string()) {
            payload["command"] = command.clone();
        }
        payload["args"] = limited(args);
    }
    if let Some(output) = output {
        payload["output"] = limited(output);
    }
    if let Some(exit_code) = exit_code {
        payload["exitCode"] = exit_code.into();
    }
    payload
}

/// Cuts the long texts of a payload that was redacted.
fn shorten(payload: &mut Value) {
    match payload {
        Value::String(text) => text.truncate(text.floor_char_boundary(LONGEST_TEXT)),
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(members) => members.values_mut().for_each(shorten),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The manager takes 256 KiB in one event: a large document becomes the beginning of its text.
fn limited(value: Value) -> Value {
    let text = match &value {
        Value::String(_) => return value,
        value => value.to_string(),
    };
    match text.len() <= LONGEST_VALUE {
        true => value,
        false => Value::from(text[..text.floor_char_boundary(LONGEST_VALUE)].to_owned() + "…"),
    }
}

fn approval_request(question: BackEndQuestion) -> Value {
    let BackEndQuestion { approval_id, reason, message, call_id, response_schema, options } = question;
    let mut payload = json!({ "approvalId": approval_id, "reason": reason });
    for (name, value) in [
        ("message", message.map(Value::from)),
        ("callId", call_id.map(Value::from)),
        ("responseSchema", response_schema),
        ("options", options.map(Value::from)),
    ] {
        if let Some(value) = value {
            payload[name] = value;
        }
    }
    payload
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::back_end::{ToolStatus, TurnEnd};
    use crate::secrets::RunnerSecrets;

    fn payloads(secret: &str) -> EventPayloads {
        let mut secrets = RunnerSecrets::default();
        secrets.add(secret);
        let mut payloads = EventPayloads::new(Redactor::new(&secrets, []).unwrap(), "runner_1");
        payloads.begin("cmd_1");
        payloads
    }

    fn shown(events: &[NewRunEvent]) -> Vec<Value> {
        events.iter().map(|event| serde_json::from_str(event.payload.get()).unwrap()).collect()
    }

    fn partial(text: &str) -> BackEndEvent {
        BackEndEvent::Partial { item_id: "m".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_turn_is_told_in_its_order() {
        let mut payloads = payloads("");
        let now = Instant::now();
        let tool = ToolProgress {
            call_id: "c".to_owned(),
            name: "clock".to_owned(),
            status: ToolStatus::Failed,
            args: None,
            output: Some("no clock".into()),
            exit_code: Some(1),
        };
        let mut events = Vec::new();
        for event in [
            BackEndEvent::Stage { name: "router".to_owned(), is_finished: false },
            partial("a "),
            partial("b "),
            BackEndEvent::Tool(tool),
            partial("c"),
            BackEndEvent::Message { item_id: "m".to_owned(), text: "a b c".to_owned() },
            BackEndEvent::Ended(TurnEnd::completed()),
        ] {
            events.extend(payloads.of(event, now));
        }
        events.extend(payloads.finish(Some(json!({ "status": "info" })), true));
        assert_eq!(
            shown(&events),
            [
                json!({ "phase": "stage-started", "stage": "router" }),
                json!({ "itemId": "m", "partial": true, "text": "a " }),
                json!({ "itemId": "m", "partial": true, "text": "b " }),
                json!({ "callId": "c", "toolName": "clock", "status": "failed", "output": "no clock", "exitCode": 1 }),
                json!({ "itemId": "m", "partial": true, "text": "c" }),
                json!({ "itemId": "m", "text": "a b c", "final": false }),
                json!({ "phase": "ui-hints", "ui_hints": { "status": "info" } }),
                json!({ "itemId": "m", "text": "a b c", "final": true, "replyAuthority": true }),
            ]
        );
        let ids: std::collections::BTreeSet<_> = events.iter().map(|event| &event.client_event_id).collect();
        assert_eq!(ids.len(), events.len());
        assert!(events.iter().all(|event| event.command_id.as_deref() == Some("cmd_1")));
    }

    #[test]
    fn a_turn_that_has_not_completed_has_no_reply() {
        let mut payloads = payloads("");
        payloads
            .of(BackEndEvent::Message { item_id: "m".to_owned(), text: "half".to_owned() }, Instant::now());
        assert!(payloads.finish(None, false).is_empty());
        payloads.begin("cmd_2");
        assert!(payloads.finish(None, true).is_empty(), "the message of another turn is none of this one");
    }

    #[test]
    fn no_secret_is_told_whatever_it_stands_in() {
        let secret = "a-secret-word";
        let mut payloads = payloads(secret);
        let text = || secret.to_owned();
        let written =
            |text: &str| BackEndEvent::Written { stream: WrittenStream::Stderr, text: text.to_owned() };
        let question = BackEndQuestion {
            approval_id: "q".to_owned(),
            reason: text(),
            message: Some(text()),
            response_schema: Some(json!({ secret: [secret] })),
            options: Some(vec![text()]),
            call_id: Some(text()),
        };
        let tool = ToolProgress {
            call_id: text(),
            name: text(),
            status: ToolStatus::Started,
            args: Some(json!({ "key": secret })),
            output: Some(json!([secret])),
            exit_code: None,
        };
        let mut events = Vec::new();
        for event in [
            BackEndEvent::Stage { name: text(), is_finished: true },
            BackEndEvent::Thread { thread_id: text() },
            BackEndEvent::Status { phase: text() },
            BackEndEvent::Partial { item_id: text(), text: "a-secret".to_owned() },
            BackEndEvent::Partial { item_id: text(), text: "-word".to_owned() },
            written("YS1zZWNy"),
            written("ZXQtd29yZA=="),
            BackEndEvent::Asked(question),
            BackEndEvent::Tool(tool),
            BackEndEvent::Message { item_id: text(), text: text() },
            BackEndEvent::Error { failure_kind: "backend-failed".to_owned(), message: text() },
        ] {
            events.extend(payloads.of(event, Instant::now()));
        }
        events.extend(payloads.finish(Some(json!({ "title": secret })), true));
        let told = shown(&events).iter().map(Value::to_string).collect::<String>();
        assert!(!told.contains(secret) && !told.contains("YS1zZWNyZXQtd29yZA"), "{told}");
        assert!(told.matches("[redacted]").count() >= 14, "{told}");
    }

    #[test]
    fn a_text_that_no_call_takes_is_cut_after_it_was_redacted() {
        let mut payloads = payloads("a-secret-word");
        let text = format!("{}a-secret-word{}", "x".repeat(LONGEST_TEXT - 8), "ä".repeat(LARGEST_PAYLOAD));
        for event in [
            BackEndEvent::Diff { text: text.clone() },
            BackEndEvent::Message { item_id: "m".to_owned(), text },
        ] {
            let events = shown(&payloads.of(event, Instant::now()));
            let said = events[0]["text"].as_str().unwrap();
            assert!(said.len() <= LONGEST_TEXT && said.ends_with("x[redacte"), "{}", said.len());
        }
    }

    #[test]
    fn large_values_of_tools_are_cut() {
        assert_eq!(limited(json!({ "a": 1 })), json!({ "a": 1 }));
        let large = limited(json!(vec!["ä"; 100_000]));
        assert!(large.as_str().is_some_and(|text| text.len() <= LONGEST_VALUE + 4 && text.ends_with('…')));
    }
}
