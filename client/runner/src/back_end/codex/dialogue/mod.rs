//! What is said to Codex, and what its answers and notices mean. It reads and writes nothing itself.

#[cfg(test)]
mod tests;

use super::failure::failure_of;
use super::protocol::{self, CodexMessage};
use super::question::question_of;
use super::turn::CodexTurn;
use crate::back_end::{ApprovalAnswer, BackEndError, BackEndEvent, TurnEnd, TurnRequest, TurnStatus};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// How long Codex may take to answer a request.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// How long a turn goes on whose provider cannot be reached. Codex itself waits without an end.
const UNREACHABLE_FOR: Duration = Duration::from_secs(20);

/// The dialogue with one process of Codex after the other.
pub(super) struct CodexDialogue {
    /// How a thread is started and resumed.
    thread: Value,
    thread_id: Option<String>,
    /// Codex has this thread in memory.
    is_loaded: bool,
    is_initialized: bool,
    last_request: u64,
    waiting: BTreeMap<u64, WaitingRequest>,
    turn: Option<CodexTurn>,
    /// The number of the request that waits until Codex is initialized.
    past: Option<u64>,
    /// Answers for those who wait for them.
    answers: BTreeMap<u64, Result<Value, String>>,
    lines: Vec<Value>,
    events: VecDeque<BackEndEvent>,
    /// How long the lines are whose events nobody has taken.
    unread: usize,
}

/// A request without its answer.
struct WaitingRequest {
    about: RequestSubject,
    until: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestSubject {
    Initialize,
    StartThread,
    ResumeThread,
    StartTurn,
    Interrupt,
    /// Somebody waits for the answer.
    Awaited,
}

impl CodexDialogue {
    pub fn new(thread: Value, thread_id: Option<String>) -> CodexDialogue {
        CodexDialogue {
            thread,
            thread_id,
            is_loaded: false,
            is_initialized: false,
            last_request: 0,
            waiting: BTreeMap::new(),
            turn: None,
            past: None,
            answers: BTreeMap::new(),
            lines: Vec::new(),
            events: VecDeque::new(),
            unread: 0,
        }
    }

    pub fn thread_id(&self) -> Option<&str> {
        self.thread_id.as_deref()
    }

    /// The lines that Codex is to be told.
    pub fn take_lines(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.lines)
    }

    pub fn next_event(&mut self) -> Option<BackEndEvent> {
        if self.events.is_empty() {
            self.unread = 0;
        }
        self.events.pop_front()
    }

    /// About how many bytes the events have that nobody has taken.
    pub fn unread(&self) -> usize {
        self.unread
    }

    /// A turn that Codex has not begun yet can neither be steered nor interrupted.
    pub fn is_beginning(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.id.is_none())
    }

    pub fn begin(&mut self, turn: TurnRequest, now: Instant) {
        self.turn = Some(CodexTurn::new(turn));
        self.go_on(now);
    }

    /// The number of a request, whose answer is taken with [`CodexDialogue::take_answer`].
    pub fn steer(&mut self, text: &str, now: Instant) -> Result<u64, BackEndError> {
        let turn_id = self.turn.as_ref().and_then(|turn| turn.id.clone());
        let (Some(thread_id), Some(turn_id)) = (&self.thread_id, turn_id) else {
            return Err(BackEndError::failed("no turn is under way"));
        };
        let params = protocol::steer(thread_id, &turn_id, text);
        Ok(self.ask(RequestSubject::Awaited, "turn/steer", &params, now))
    }

    /// A turn that Codex does not know yet ends at once; one that it is about to begin is interrupted when it has an id.
    pub fn interrupt(&mut self, now: Instant) {
        let Some(turn) = &mut self.turn else { return };
        if turn.request.is_some() {
            return self.end_turn(TurnEnd { status: TurnStatus::Interrupted, ..TurnEnd::completed() });
        }
        let (Some(thread_id), Some(turn_id)) = (&self.thread_id, &turn.id) else {
            turn.wants_interrupt = true;
            return;
        };
        let params = protocol::interrupt(thread_id, turn_id);
        self.ask(RequestSubject::Interrupt, "turn/interrupt", &params, now);
    }

    /// A question that Codex waits for no more needs no answer.
    pub fn answer(&mut self, answer: &ApprovalAnswer) {
        let Some(turn) = &mut self.turn else { return };
        let Some(question) = turn.questions.remove(&answer.approval_id) else { return };
        self.lines.push(protocol::answer(&question.id, &question.result(answer)));
    }

    /// Asks for the newest turns of the thread: the number of the request.
    pub fn ask_past(&mut self, now: Instant) -> u64 {
        self.last_request += 1;
        self.past = Some(self.last_request);
        let request = self.last_request;
        self.go_on(now);
        request
    }

    pub fn take_answer(&mut self, request: u64) -> Option<Result<Value, String>> {
        self.answers.remove(&request)
    }

    /// Nobody waits for this answer any longer.
    pub fn forget(&mut self, request: u64) {
        self.waiting.remove(&request);
        self.past.take_if(|past| *past == request);
    }

    /// The process has ended, or was ended: the turn has failed, and the next process begins from the start.
    pub fn ended(&mut self, failure_kind: &str, message: &str) {
        (self.is_initialized, self.is_loaded, self.past) = (false, false, None);
        self.last_request = 0;
        self.waiting.clear();
        self.lines.clear();
        self.end_turn(TurnEnd::failed(failure_kind, message));
    }

    /// Forgets the turn and what it has said.
    pub fn stop(&mut self) {
        self.turn = None;
        self.ended("", "");
        self.answers.clear();
        self.events.clear();
    }

    /// When the time of something is over.
    pub fn due_at(&self) -> Option<Instant> {
        let unreachable = self.turn.as_ref().and_then(|turn| turn.unreachable_since);
        let unreachable = unreachable.map(|since| since + UNREACHABLE_FOR);
        self.waiting.values().map(|request| request.until).chain(unreachable).min()
    }

    /// Time has passed. An error is why Codex cannot be used any longer.
    pub fn tick(&mut self, now: Instant) -> Result<(), String> {
        if self.waiting.values().any(|request| request.until <= now) {
            return Err(format!("codex has not answered within {} s", ANSWER_WITHIN.as_secs()));
        }
        let Some(turn) = &mut self.turn else { return Ok(()) };
        if turn.unreachable_since.take_if(|since| *since + UNREACHABLE_FOR <= now).is_some() {
            let kind = "provider-unavailable";
            let why = turn.unreachable.take().unwrap_or_default();
            turn.given_up = Some(TurnEnd::failed(kind, &why));
            self.events.push_back(BackEndEvent::Error { failure_kind: kind.to_owned(), message: why });
            self.interrupt(now);
        }
        Ok(())
    }

    /// A line of Codex. An error is why it cannot be used any longer.
    pub fn hear(&mut self, line: &[u8], now: Instant) -> Result<(), String> {
        self.unread += line.len();
        match CodexMessage::read(line)? {
            CodexMessage::Answer { request, result } => self.answered(request, result, now),
            CodexMessage::Question { id, method, params } => self.asked(&id, method, &params),
            CodexMessage::Notice { method, params } => self.noticed(&method, &params, now),
        }
        Ok(())
    }

    /// The next step of what is to be done.
    fn go_on(&mut self, now: Instant) {
        if !self.is_initialized {
            return self.ask_once(RequestSubject::Initialize, "initialize", &protocol::initialize(), now);
        }
        if let (Some(request), Some(thread_id)) = (self.past, &self.thread_id) {
            self.past = None;
            let params = protocol::newest_turns(thread_id);
            self.ask_as(request, RequestSubject::Awaited, "thread/turns/list", &params, now);
        }
        if self.turn.as_ref().is_none_or(|turn| turn.request.is_none()) {
            return;
        }
        match (&self.thread_id, self.is_loaded) {
            (None, _) => {
                let params = self.thread.clone();
                self.ask_once(RequestSubject::StartThread, "thread/start", &params, now);
            }
            (Some(thread_id), false) => {
                let mut params = self.thread.clone();
                params["threadId"] = thread_id.as_str().into();
                params["excludeTurns"] = true.into();
                self.ask_once(RequestSubject::ResumeThread, "thread/resume", &params, now);
            }
            (Some(thread_id), true) => {
                let request = self.turn.as_mut().and_then(|turn| turn.request.take());
                let Some(request) = request else { return };
                let params = protocol::turn(thread_id, &request);
                self.ask(RequestSubject::StartTurn, "turn/start", &params, now);
            }
        }
    }

    fn ask_once(&mut self, about: RequestSubject, method: &str, params: &Value, now: Instant) {
        if !self.waiting.values().any(|request| request.about == about) {
            self.ask(about, method, params, now);
        }
    }

    fn ask(&mut self, about: RequestSubject, method: &str, params: &Value, now: Instant) -> u64 {
        self.last_request += 1;
        self.ask_as(self.last_request, about, method, params, now);
        self.last_request
    }

    fn ask_as(&mut self, id: u64, about: RequestSubject, method: &str, params: &Value, now: Instant) {
        self.lines.push(protocol::request(id, method, params));
        self.waiting.insert(id, WaitingRequest { about, until: now + ANSWER_WITHIN });
    }

    fn answered(&mut self, request: u64, result: Result<Value, String>, now: Instant) {
        let Some(WaitingRequest { about, .. }) = self.waiting.remove(&request) else { return };
        match (about, result) {
            (RequestSubject::Awaited, result) => {
                self.answers.insert(request, result);
            }
            (RequestSubject::Initialize, Ok(_)) => {
                self.is_initialized = true;
                self.lines.push(protocol::notice("initialized"));
                self.go_on(now);
            }
            (RequestSubject::StartThread | RequestSubject::ResumeThread, Ok(result)) => {
                let Some(thread_id) = result["thread"]["id"].as_str() else {
                    return self.end_turn(TurnEnd::failed("backend-failed", "codex has begun no thread"));
                };
                self.is_loaded = true;
                self.thread_id = Some(thread_id.to_owned());
                self.events.push_back(BackEndEvent::Thread { thread_id: thread_id.to_owned() });
                self.go_on(now);
            }
            (RequestSubject::StartTurn, Ok(result)) => {
                if let Some(turn_id) = result["turn"]["id"].as_str() {
                    self.turn_begun(turn_id, now);
                }
            }
            (RequestSubject::ResumeThread, Err(message)) => {
                let kind = protocol::resume_failure(&message);
                let message = format!("the thread of the session cannot be resumed: {message}");
                self.end_turn(TurnEnd::failed(kind, message));
            }
            (
                RequestSubject::Initialize | RequestSubject::StartThread | RequestSubject::StartTurn,
                Err(message),
            ) => {
                self.end_turn(TurnEnd::failed(
                    "backend-failed",
                    format!("codex refuses the turn: {message}"),
                ));
            }
            // The turn has ended meanwhile.
            (RequestSubject::Interrupt, _) => {}
        }
    }

    fn turn_begun(&mut self, turn_id: &str, now: Instant) {
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.id.is_none()) else { return };
        turn.id = Some(turn_id.to_owned());
        if std::mem::take(&mut turn.wants_interrupt) {
            self.interrupt(now);
        }
    }

    /// Agents that the agent has started may ask, too.
    fn asked(&mut self, id: &Value, method: String, params: &Value) {
        let turn = self.turn.as_mut().filter(|turn| turn.may_be_asked());
        let asked = turn.and_then(|turn| {
            let (question, shown) = question_of(id, &method, params, turn.files(&params["itemId"]))?;
            turn.questions.insert(shown.approval_id.clone(), question);
            Some(shown)
        });
        match asked {
            Some(shown) => self.events.push_back(BackEndEvent::Asked(shown)),
            None => {
                self.lines.push(protocol::refusal(id));
                if self.turn.is_some() {
                    self.events.push_back(BackEndEvent::Refused { method });
                }
            }
        }
    }

    fn noticed(&mut self, method: &str, params: &Value, now: Instant) {
        if params["threadId"].as_str() != self.thread_id.as_deref() || self.thread_id.is_none() {
            return;
        }
        if method == "turn/started" {
            return self.turn_started(&params["turn"], now);
        }
        let Some(turn) = &mut self.turn else { return };
        let of_turn = params["turnId"].as_str().or(params["turn"]["id"].as_str());
        if of_turn.is_none() || of_turn != turn.id.as_deref() {
            if method == "serverRequest/resolved" {
                turn.resolved(&params["requestId"]);
            }
            return;
        }
        match method {
            "turn/completed" => self.turn_completed(&params["turn"]),
            "error" => self.failed(params, now),
            "turn/diff/updated" => {
                let text = params["diff"].as_str().unwrap_or_default();
                if turn.is_new_diff(text) {
                    self.events.push_back(BackEndEvent::Diff { text: text.to_owned() });
                }
            }
            "turn/plan/updated" => {
                let plan = json!({ "explanation": params["explanation"], "steps": params["plan"] });
                self.events.push_back(BackEndEvent::Plan(plan));
            }
            _ => self.events.extend(turn.noticed(method, params)),
        }
    }

    fn turn_started(&mut self, begun: &Value, now: Instant) {
        let Some(turn_id) = begun["id"].as_str() else { return };
        if self.turn.as_ref().is_some_and(|turn| turn.request.is_none()) {
            self.turn_begun(turn_id, now);
        }
        let is_ours = self.turn.as_ref().is_some_and(|turn| turn.id.as_deref() == Some(turn_id));
        if let (true, Some(thread_id)) = (is_ours, self.thread_id.clone()) {
            self.events.push_back(BackEndEvent::TurnBegun { thread_id, turn_id: turn_id.to_owned() });
        }
    }

    /// Codex tries again by itself where it says so, which is no event.
    fn failed(&mut self, params: &Value, now: Instant) {
        let Some(turn) = &mut self.turn else { return };
        let failure = failure_of(&params["error"]);
        if params["willRetry"] != true {
            let failure_kind = failure.kind.to_owned();
            return self.events.push_back(BackEndEvent::Error { failure_kind, message: failure.message });
        }
        if failure.is_unreachable {
            turn.unreachable_since.get_or_insert(now);
            let details = params["error"]["additionalDetails"].as_str().unwrap_or(&failure.message);
            turn.unreachable = Some(format!("the provider cannot be reached: {details}"));
        }
    }

    fn turn_completed(&mut self, completed: &Value) {
        let given_up = self.turn.as_mut().and_then(|turn| turn.given_up.take());
        let end = match completed["status"].as_str() {
            Some("completed") => TurnEnd::completed(),
            Some("interrupted") => {
                given_up.unwrap_or(TurnEnd { status: TurnStatus::Interrupted, ..TurnEnd::completed() })
            }
            _ => {
                let failure = failure_of(&completed["error"]);
                TurnEnd::failed(failure.kind, failure.message)
            }
        };
        self.end_turn(end);
    }

    fn end_turn(&mut self, end: TurnEnd) {
        if self.turn.take().is_some() {
            self.events.push_back(BackEndEvent::Ended(end));
        }
    }
}
