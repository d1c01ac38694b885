//! The payload of an event as it is stored: of the right types, without secrets, and of limited length.

use super::json::rewritten;
use kernel::strict_json::{ObjectMembers, members};
use proto_schemas::requests::run::RunEventType;
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;

/// What a text of a payload may have in bytes; the rest is cut off.
pub(crate) const LONGEST_TEXT: usize = 64 << 10;
/// What a payload may have in bytes.
const LARGEST: usize = 256 << 10;
/// The longest id that somebody else has given.
const LONGEST_ID: usize = 200;

/// Why an event is not stored.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PayloadRefused {
    #[error("{0}")]
    Invalid(String),
    #[error("payload must have at most {LARGEST} bytes, and has {0}")]
    TooLarge(usize),
}

/// What a member has to be. `null` is as good as absent.
enum MemberRule {
    /// A string, which has to be there.
    Text,
    /// A string that names something.
    Id,
    OptionalText,
    OptionalId,
    Flag,
    Count,
    Whole,
    Texts,
    /// One of these words.
    OneOf(&'static [&'static str]),
}

/// The members that are read again: by results, by streams and by approvals. Others are stored as they are.
fn rules(kind: RunEventType) -> &'static [(&'static str, MemberRule)] {
    use MemberRule::{Count, Flag, Id, OneOf, OptionalId, OptionalText, Text, Texts, Whole};
    match kind {
        RunEventType::AssistantMessage => &[
            ("text", Text),
            ("itemId", OptionalId),
            ("final", Flag),
            ("replyAuthority", Flag),
            ("partial", Flag),
            ("textTruncated", Flag),
            ("outputTruncated", Flag),
        ],
        RunEventType::CommandOutput => &[
            ("stream", OneOf(&["stdout", "stderr"])),
            ("text", Text),
            ("outputBytes", Count),
            ("outputTruncated", Flag),
        ],
        RunEventType::ToolCall => &[
            ("callId", OptionalId),
            ("method", OptionalText),
            ("toolName", OptionalText),
            ("type", OptionalText),
            ("status", OptionalText),
            ("exitCode", Whole),
            ("command", OptionalText),
        ],
        RunEventType::Reasoning | RunEventType::Plan | RunEventType::Diff => &[],
        RunEventType::BackendStatus => &[
            ("phase", Text),
            ("threadId", OptionalText),
            ("turnId", OptionalText),
            ("method", OptionalText),
            ("stage", OptionalText),
        ],
        RunEventType::RunnerStatus => {
            &[("phase", Text), ("runnerId", OptionalText), ("attemptId", OptionalText)]
        }
        RunEventType::SteerDelivery => {
            &[("targetCommandId", OptionalText), ("runnerAcked", Flag), ("backendAccepted", Flag)]
        }
        RunEventType::ApprovalRequest => &[
            ("approvalId", Id),
            ("reason", Text),
            ("message", OptionalText),
            ("callId", OptionalText),
            ("options", Texts),
            ("expiresAt", OptionalText),
        ],
        RunEventType::ApprovalResolved => &[("approvalId", Id), ("decision", Text), ("by", OptionalText)],
        RunEventType::Error => &[("failureKind", Text), ("message", Text), ("retryable", Flag)],
        RunEventType::TerminalStatus => &[
            ("status", OneOf(&["completed", "failed", "blocked", "cancelled"])),
            ("scope", OneOf(&["command", "run"])),
            ("failureKind", OptionalText),
            ("message", OptionalText),
        ],
    }
}

/// The payload as it is stored. Its texts are redacted before they are cut, so that no half of a secret stays.
pub(crate) fn event_payload(kind: RunEventType, payload: &RawValue) -> Result<Box<RawValue>, PayloadRefused> {
    if !payload.get().starts_with('{') {
        return Err(PayloadRefused::Invalid("payload must be an object".to_owned()));
    }
    let sent = members(payload.get()).map_err(no_text)?;
    for (name, rule) in rules(kind) {
        check(name, rule, sent.get(*name).copied())?;
    }
    let rewritten = rewritten(payload, LONGEST_TEXT).map_err(no_text)?;
    let stored = rewritten.json.as_deref().unwrap_or(payload);
    let stored = match kind {
        RunEventType::CommandOutput => with_output_counts(stored, &sent, rewritten.cut)?,
        _ if rewritten.cut => with(stored, [("textTruncated", raw(&true)?)])?,
        _ => rewritten.json.unwrap_or_else(|| payload.to_owned()),
    };
    match stored.get().len() {
        bytes if bytes > LARGEST => Err(PayloadRefused::TooLarge(bytes)),
        _ => Ok(stored),
    }
}

/// How many bytes the output had before anything was cut off, and whether something was.
fn with_output_counts(
    stored: &RawValue,
    sent: &ObjectMembers<'_>,
    cut: bool,
) -> Result<Box<RawValue>, PayloadRefused> {
    let given = |name: &str| sent.get(name).copied().filter(|value| value.get() != "null");
    let bytes = match given("outputBytes") {
        Some(bytes) => bytes.to_owned(),
        None => raw(&text(given("text")).map_or(0, |text| text.len()))?,
    };
    let truncated = match given("outputTruncated") {
        Some(truncated) if !cut => truncated.to_owned(),
        _ => raw(&cut)?,
    };
    with(stored, [("outputBytes", bytes), ("outputTruncated", truncated)])
}

/// The object with these members.
fn with<const N: usize>(
    stored: &RawValue,
    set: [(&str, Box<RawValue>); N],
) -> Result<Box<RawValue>, PayloadRefused> {
    let mut all = members(stored.get()).map_err(no_text)?;
    for (name, value) in &set {
        all.insert(Cow::Borrowed(name), value);
    }
    raw(&all)
}

fn raw(value: &impl serde::Serialize) -> Result<Box<RawValue>, PayloadRefused> {
    to_raw_value(value).map_err(no_text)
}

fn no_text(_: serde_json::Error) -> PayloadRefused {
    PayloadRefused::Invalid("payload must have Unicode text only".to_owned())
}

fn check(name: &str, rule: &MemberRule, value: Option<&RawValue>) -> Result<(), PayloadRefused> {
    let value = value.filter(|value| value.get() != "null");
    let kept = match (rule, value) {
        (MemberRule::Text, value) => text(value).is_some(),
        (MemberRule::Id, value) => text(value).is_some_and(|text| is_id(&text)),
        (MemberRule::OneOf(words), value) => text(value).is_some_and(|text| words.contains(&&*text)),
        (_, None) => true,
        (MemberRule::OptionalText, value) => text(value).is_some(),
        (MemberRule::OptionalId, value) => text(value).is_some_and(|text| is_id(&text)),
        (MemberRule::Flag, Some(value)) => serde_json::from_str::<bool>(value.get()).is_ok(),
        (MemberRule::Count, Some(value)) => {
            serde_json::from_str::<i64>(value.get()).is_ok_and(|count| count >= 0)
        }
        (MemberRule::Whole, Some(value)) => serde_json::from_str::<i64>(value.get()).is_ok(),
        (MemberRule::Texts, Some(value)) => serde_json::from_str::<Vec<String>>(value.get()).is_ok(),
    };
    match kept {
        true => Ok(()),
        false => Err(PayloadRefused::Invalid(format!("payload.{name} must be {}", rule.words()))),
    }
}

fn text(value: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(value?.get()).ok()
}

fn is_id(text: &str) -> bool {
    (1..=LONGEST_ID).contains(&text.chars().take(LONGEST_ID + 1).count())
}

impl MemberRule {
    fn words(&self) -> String {
        match self {
            MemberRule::Text | MemberRule::OptionalText => "a string".to_owned(),
            MemberRule::Id | MemberRule::OptionalId => format!("a string of 1 to {LONGEST_ID} characters"),
            MemberRule::Flag => "true or false".to_owned(),
            MemberRule::Count => "an integer of at least 0".to_owned(),
            MemberRule::Whole => "an integer".to_owned(),
            MemberRule::Texts => "an array of strings".to_owned(),
            MemberRule::OneOf(words) => words.join(" or "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use testing::cases;

    fn stored(kind: RunEventType, payload: &Value) -> Result<Value, PayloadRefused> {
        let payload = to_raw_value(payload).unwrap();
        event_payload(kind, &payload).map(|stored| serde_json::from_str(stored.get()).unwrap())
    }

    #[test]
    fn a_payload_is_stored_as_it_came() {
        use RunEventType as Kind;
        let table = [
            (
                Kind::AssistantMessage,
                json!({"text": "", "final": null, "itemId": "a", "partial": true, "more": [1]}),
            ),
            (
                Kind::CommandOutput,
                json!({"stream": "stderr", "text": "x", "outputBytes": 9, "outputTruncated": true}),
            ),
            (Kind::ToolCall, json!({"callId": "c", "exitCode": -1, "status": "completed", "args": {"a": 1}})),
            (Kind::ToolCall, json!({})),
            (Kind::Reasoning, json!({"text": "t"})),
            (Kind::Plan, json!({"steps": [{"text": "t"}]})),
            (Kind::Diff, json!({"diff": "+a"})),
            (Kind::BackendStatus, json!({"phase": "stage-started", "stage": "router"})),
            (Kind::RunnerStatus, json!({"phase": "claim-waiting", "runnerId": "r"})),
            (
                Kind::SteerDelivery,
                json!({"targetCommandId": "cmd_1", "runnerAcked": true, "backendAccepted": false}),
            ),
            (
                Kind::ApprovalRequest,
                json!({"approvalId": "a", "reason": "r", "options": ["accept"], "responseSchema": {}}),
            ),
            (Kind::ApprovalResolved, json!({"approvalId": "a", "decision": "accept", "by": "x"})),
            (Kind::Error, json!({"failureKind": "backend-failed", "message": "m", "retryable": false})),
            (Kind::TerminalStatus, json!({"status": "completed", "scope": "run"})),
        ];
        for (kind, payload) in table {
            assert_eq!(stored(kind, &payload), Ok(payload.clone()), "{kind:?}");
        }
    }

    #[test]
    fn members_of_the_wrong_type_are_refused() {
        use RunEventType as Kind;
        let long = "a".repeat(201);
        let table = [
            (Kind::Plan, json!([]), "payload must be an object"),
            (Kind::Plan, json!("text"), "payload must be an object"),
            (Kind::AssistantMessage, json!({}), "payload.text must be a string"),
            (Kind::AssistantMessage, json!({"text": null}), "payload.text must be a string"),
            (Kind::AssistantMessage, json!({"text": 1}), "payload.text must be a string"),
            (Kind::AssistantMessage, json!({"text": "", "final": 1}), "payload.final must be true or false"),
            (
                Kind::AssistantMessage,
                json!({"text": "", "itemId": ""}),
                "payload.itemId must be a string of 1 to 200 characters",
            ),
            (
                Kind::CommandOutput,
                json!({"stream": "x", "text": ""}),
                "payload.stream must be stdout or stderr",
            ),
            (Kind::CommandOutput, json!({"text": ""}), "payload.stream must be stdout or stderr"),
            (
                Kind::CommandOutput,
                json!({"stream": "stdout", "text": "", "outputBytes": -1}),
                "payload.outputBytes must be an integer of at least 0",
            ),
            (Kind::ToolCall, json!({"exitCode": "0"}), "payload.exitCode must be an integer"),
            (Kind::BackendStatus, json!({}), "payload.phase must be a string"),
            (
                Kind::ApprovalRequest,
                json!({"reason": "r"}),
                "payload.approvalId must be a string of 1 to 200 characters",
            ),
            (
                Kind::ApprovalRequest,
                json!({"approvalId": long, "reason": "r"}),
                "payload.approvalId must be a string of 1 to 200 characters",
            ),
            (Kind::ApprovalRequest, json!({"approvalId": "a"}), "payload.reason must be a string"),
            (
                Kind::ApprovalRequest,
                json!({"approvalId": "a", "reason": "", "options": [1]}),
                "payload.options must be an array of strings",
            ),
            (Kind::Error, json!({"failureKind": "x"}), "payload.message must be a string"),
            (
                Kind::TerminalStatus,
                json!({"status": "done"}),
                "payload.status must be completed or failed or blocked or cancelled",
            ),
        ];
        for (kind, payload, sentence) in table {
            assert_eq!(
                stored(kind, &payload),
                Err(PayloadRefused::Invalid(sentence.to_owned())),
                "{payload}"
            );
        }
    }

    #[test]
    fn long_texts_are_cut_after_they_were_redacted() {
        let kind = RunEventType::AssistantMessage;
        let text = "é".repeat(LONGEST_TEXT / 2 - 2) + "a https://u:p@h";
        let all = stored(kind, &json!({"text": text, "textTruncated": false, "n": 1})).unwrap();
        let cut_text = all["text"].as_str().unwrap();
        assert!(cut_text.len() <= LONGEST_TEXT && cut_text.len() > LONGEST_TEXT - 4, "{}", cut_text.len());
        assert_eq!((&all["textTruncated"], &all["n"]), (&json!(true), &json!(1)));

        let nested = stored(RunEventType::Plan, &json!({"steps": ["x".repeat(LONGEST_TEXT + 1)]})).unwrap();
        assert_eq!(nested["steps"][0].as_str().unwrap().len(), LONGEST_TEXT);
        assert_eq!(nested["textTruncated"], true);
    }

    #[test]
    fn members_with_secret_names_stay_apart() {
        let text = "x".repeat(LONGEST_TEXT + 1);
        let payload = json!({"text": text, "sk-0123456789abcdef": 1, "sk-0123456789abcdee": 2});
        let stored = stored(RunEventType::AssistantMessage, &payload).unwrap();
        assert_eq!((&stored["[redacted]"], &stored["[redacted 2]"]), (&json!(2), &json!(1)));
    }

    #[test]
    fn an_output_says_how_long_it_was() {
        let output = |more: Value| {
            let mut payload = json!({"stream": "stdout", "text": "x".repeat(LONGEST_TEXT + 7)});
            payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let stored = stored(RunEventType::CommandOutput, &payload).unwrap();
            assert_eq!(stored["text"].as_str().unwrap().len(), LONGEST_TEXT);
            (stored["outputBytes"].as_i64().unwrap(), stored["outputTruncated"].as_bool().unwrap())
        };
        assert_eq!(output(json!({})), (LONGEST_TEXT as i64 + 7, true));
        assert_eq!(output(json!({"outputBytes": 1 << 30, "outputTruncated": false})), (1 << 30, true));

        let short = stored(RunEventType::CommandOutput, &json!({"stream": "stdout", "text": "é"})).unwrap();
        assert_eq!((&short["outputBytes"], &short["outputTruncated"]), (&json!(2), &json!(false)));
    }

    #[test]
    fn what_is_still_too_large_is_refused() {
        let payload = json!({"parts": vec!["x".repeat(LONGEST_TEXT); 4]});
        assert!(
            matches!(stored(RunEventType::Diff, &payload), Err(PayloadRefused::TooLarge(bytes)) if bytes > LARGEST)
        );
        let payload = json!({"parts": vec!["x".repeat(LONGEST_TEXT); 3]});
        assert_eq!(stored(RunEventType::Diff, &payload), Ok(payload.clone()));
    }

    proptest! {
        #![proptest_config(cases(64))]

        #[test]
        fn no_part_of_a_secret_is_left_by_a_cut(before in LONGEST_TEXT - 60..LONGEST_TEXT) {
            let secret = "sk-aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA";
            let text = "-".repeat(before) + secret;
            let stored = stored(RunEventType::AssistantMessage, &json!({"text": text})).unwrap();
            prop_assert!(!stored.to_string().contains("sk-aB"));
        }
    }
}
