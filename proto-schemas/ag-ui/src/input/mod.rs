//! `RunAgentInput`: what a front end sends to have something done, and every check of it that needs no store.
//!
//! The checks are done in a fixed order, and the first one that fails answers, with the sentence that the protocol has for it.

mod form;
mod forwarded;
mod json;
mod members;
mod refusal;
mod resume;
mod spelling;
mod turn;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use forwarded::ClientTime;
use forwarded::ForwardedProps;
use refusal::sentence;
pub use refusal::{InputRefused, InputViolation};
pub use resume::{ResumeAnswer, ResumeStatus};
pub use turn::{InputAttachment, UserTurn};

/// So many bytes an input may have.
pub const MOST_INPUT_BYTES: usize = 262_144;

/// So many characters the id of a run may have.
const MOST_RUN_ID_CHARS: usize = 128;

/// Who is served, and so how much an input may say besides its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputRules {
    /// The protocol as it is: one user message, the first one, and nothing unknown in `forwardedProps`.
    Strict,
    /// Published AG-UI clients as they are: they send the whole conversation, of which the last user message is the turn, and
    /// `forwardedProps` of their own.
    Lenient,
}

/// What happens where `forwardedProps.client_time` is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientTimeRule {
    /// The input is refused.
    Strict,
    /// It counts as absent, so that the time zone of the profile is used.
    Lenient,
}

/// In what way the turn is done: which tools and contexts are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuntimeMode {
    /// A conversation.
    Chat,
    /// A task that nobody waits for.
    Automation,
}

/// An input that has passed every check that needs no store.
#[derive(Clone, Debug, PartialEq)]
pub struct RunInput {
    /// A UUID in lower case, with dashes.
    pub thread_id: String,
    /// 1 to 128 characters.
    pub run_id: String,
    /// The run that caused this one.
    pub parent_run_id: Option<String>,
    /// The version of AG-UI that the client speaks; those before 1.0 do not say it.
    pub protocol_version: Option<String>,
    /// Absent only where `resume` answers and there is no user message.
    pub turn: Option<UserTurn>,
    /// Chat where [`InputRules::Lenient`] lets it be absent.
    pub mode: RuntimeMode,
    /// When and where the person is, according to the device.
    pub client_time: Option<ClientTime>,
    /// Whether a wrong `client_time` was dropped, which [`ClientTimeRule::Lenient`] does.
    pub client_time_ignored: bool,
    /// Whether the two times of `client_time` are more than a day apart. That is no reason to refuse: the protocol's own
    /// example has two that are hours apart.
    pub clocks_disagree: bool,
    /// The tools of the front end: kept and shown, never given to the agent.
    pub tools: Vec<Value>,
    /// What the front end says about its surroundings: kept and shown.
    pub context: Vec<Value>,
    /// Anything; null where it is absent.
    pub state: Value,
    /// Answers to what an earlier run asked. Whether they are the right ones, the thread knows.
    pub resume: Vec<ResumeAnswer>,
    /// The whole input in camelCase, without members that are unknown at the top, and without those that are null: what is kept,
    /// and hashed to see whether a run is sent again.
    pub normalized: Value,
}

/// The members of an input whose form is right.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InputMembers {
    thread_id: String,
    run_id: String,
    parent_run_id: Option<String>,
    protocol_version: Option<String>,
    messages: Vec<turn::MessageMembers>,
    #[serde(default)]
    tools: Vec<Value>,
    #[serde(default)]
    context: Vec<Value>,
    #[serde(default)]
    state: Value,
    forwarded_props: Option<Value>,
    #[serde(default)]
    resume: Vec<ResumeAnswer>,
}

impl RunInput {
    /// Reads an input. `is_signed` says whether the URL of an attachment is one that the server has signed for the caller, and
    /// is asked only where everything before it was right.
    pub fn parse(
        json: &[u8],
        rules: InputRules,
        client_time: ClientTimeRule,
        is_signed: &mut dyn FnMut(&InputAttachment) -> bool,
    ) -> Result<RunInput, InputRefused> {
        if json.len() > MOST_INPUT_BYTES {
            return Err(sentence::TOO_LARGE.into());
        }
        let mut normalized = form::read(json, rules)?;
        // The form is right, so the types fit.
        let input = InputMembers::deserialize(&normalized).map_err(|_| sentence::INVALID)?;
        let thread_id = uuid(&input.thread_id).ok_or(sentence::THREAD_ID)?;
        if !(1..=MOST_RUN_ID_CHARS).contains(&input.run_id.chars().count()) {
            return Err(sentence::RUN_ID.into());
        }
        let turn = turn::read(&input.messages, rules, !input.resume.is_empty())?;
        if !turn.iter().flat_map(|turn| &turn.attachments).all(is_signed) {
            return Err(sentence::SIGNED_URL.into());
        }
        let forwarded = ForwardedProps::read(input.forwarded_props.as_ref(), rules, client_time)?;

        normalized["threadId"] = thread_id.as_str().into();
        Ok(RunInput {
            thread_id,
            run_id: input.run_id,
            parent_run_id: input.parent_run_id,
            protocol_version: input.protocol_version,
            turn,
            mode: forwarded.mode,
            clocks_disagree: forwarded.client_time.as_ref().is_some_and(ClientTime::clocks_disagree),
            client_time: forwarded.client_time,
            client_time_ignored: forwarded.client_time_ignored,
            tools: input.tools,
            context: input.context,
            state: input.state,
            resume: input.resume,
            normalized,
        })
    }
}

impl RuntimeMode {
    /// As `runtime_mode` has it.
    pub fn parse(text: &str) -> Option<RuntimeMode> {
        [RuntimeMode::Chat, RuntimeMode::Automation].into_iter().find(|mode| mode.as_str() == text)
    }

    /// As `runtime_mode` has it.
    pub fn as_str(self) -> &'static str {
        match self {
            RuntimeMode::Chat => "chat",
            RuntimeMode::Automation => "automation",
        }
    }
}

/// A UUID of any version, in the one form that RFC 9562 has for texts.
pub fn uuid(text: &str) -> Option<String> {
    let is_right = |(n, byte): (usize, u8)| match n {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    (text.len() == 36 && text.bytes().enumerate().all(is_right)).then(|| text.to_ascii_lowercase())
}
