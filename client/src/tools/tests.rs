//! The contract, check by check, in its order.

use super::*;
use manifest::Manifest;
use serde_json::{Map, Value, json};
use std::cell::Cell;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const HOUR_MS: i64 = 60 * 60 * 1000;
const START_MS: i64 = 1_794_700_000_000;

/// A device with a clock that the test moves.
struct TestDevice {
    folder: TempDir,
    now: Arc<AtomicI64>,
    manifest: Manifest,
    granted: Vec<String>,
}

impl TestDevice {
    fn new() -> TestDevice {
        let tool = |name: &str, scope: &str| {
            json!({
                "name": name, "description_i18n_key": "k", "permission_scope": scope, "timeout_ms": 5000,
                "input_schema": {
                    "type": "object", "properties": { "path": { "type": "string" } },
                    "required": ["path"], "additionalProperties": false
                }
            })
        };
        let scope = |id: &str, sensitivity: &str| json!({ "id": id, "label_i18n_key": "k", "sensitivity": sensitivity });
        let manifest = json!({
            "schema_version": "1.0", "agent_version": "1.0.0", "capability_flags": {},
            "tools": [tool("notify", "notification:send"), tool("read_file", "filesystem:read"), tool("paste", "clipboard:read"), tool("locate", "location:read")],
            "permission_scopes": [scope("notification:send", "low"), scope("filesystem:read", "medium"), scope("clipboard:read", "medium"), scope("location:read", "high")]
        });
        TestDevice {
            folder: tempfile::tempdir().unwrap(),
            now: Arc::new(AtomicI64::new(START_MS)),
            manifest: Manifest::parse(&manifest.to_string()).unwrap(),
            granted: ["notification:send", "filesystem:read", "clipboard:read", "location:read"]
                .map(str::to_owned)
                .into(),
        }
    }

    /// A policy as another process would have it: nothing but the files is shared.
    fn policy(&self) -> ToolPolicy {
        let now = self.now.clone();
        ToolPolicy::new(self.folder.path().join("tools"), move || now.load(Ordering::SeqCst))
    }

    fn pass(&self, ms: i64) {
        self.now.fetch_add(ms, Ordering::SeqCst);
    }

    fn decide(
        &self,
        message: &Value,
        mut prompt: impl FnMut(&ConsentQuestion<'_>) -> ConsentReply,
    ) -> ToolDecision {
        let call = ReceivedToolCall::read(message).unwrap().expect("a tool call");
        let grant = ToolGrant { manifest: &self.manifest, granted: &self.granted };
        self.policy().decide(&call, &grant, &mut prompt).unwrap()
    }

    /// What the agent is told, for a call that needs nobody to be asked.
    fn answered(&self, message: &Value) -> Value {
        match self.decide(message, |_| panic!("nobody is asked")) {
            ToolDecision::Answered(answer) => answer.payload()["artifact"].clone(),
            other => panic!("{other:?}"),
        }
    }
}

fn call(id: &str, tool: &str, scope: &str) -> Value {
    json!({
        "from": "agent.a.example", "to": "alice.a.example", "msg_subtype": "artifact_tool_call", "content_type": "artifact",
        "payload": { "type": "artifact", "artifact": {
            "subtype": "tool_call", "call_id": id, "tool_name": tool, "permission_scope": scope, "timeout_ms": 5000,
            "arguments": { "path": "/Users/alice/notes.md" }
        } }
    })
}

fn is_permitted(decision: &ToolDecision) -> bool {
    matches!(decision, ToolDecision::Permitted(_))
}

#[test]
fn a_call_is_read_in_both_forms_and_what_is_none_is_not() {
    let flat = call("c1", "read_file", "filesystem:read");
    let read = ReceivedToolCall::read(&flat).unwrap().unwrap();
    assert_eq!((read.agent.as_str(), read.conversation.as_str()), ("agent.a.example", "agent.a.example"));
    assert!(read.is_marked && !read.in_group);
    assert_eq!(read.timeout_ms, Some(5000));

    let mut nested = flat.clone();
    let mut inner = flat["payload"]["artifact"].clone();
    inner.as_object_mut().unwrap().remove("subtype");
    nested["payload"]["artifact"] = json!({ "artifact_id": "a1", "subtype": "tool_call", "payload": inner });
    assert_eq!(ReceivedToolCall::read(&nested).unwrap().unwrap(), read);

    for other in [
        json!({}),
        json!({ "from": "agent.a.example", "payload": { "type": "text", "text": "hello" } }),
        json!({ "from": "agent.a.example", "payload": { "type": "artifact", "artifact": { "subtype": "tool_response", "call_id": "c" } } }),
    ] {
        assert_eq!(ReceivedToolCall::read(&other).unwrap(), None, "{other}");
    }
    for (pointer, value) in [
        ("/payload/artifact/call_id", json!("")),
        ("/payload/artifact/call_id", json!("x".repeat(129))),
        ("/payload/artifact/call_id", json!(7)),
        ("/from", json!(null)),
        ("/from", json!("../../etc")),
    ] {
        let mut broken = flat.clone();
        *broken.pointer_mut(pointer).unwrap() = value;
        assert!(ReceivedToolCall::read(&broken).is_err(), "{pointer}");
    }
}

#[test]
fn a_call_whose_envelope_hides_it_is_not_executed_and_not_answered() {
    let device = TestDevice::new();
    let mut hidden = call("c1", "notify", "notification:send");
    hidden.as_object_mut().unwrap().remove("msg_subtype");
    let ignored = ToolDecision::Ignored(IgnoredCall::Disguised);
    assert_eq!(device.decide(&hidden, |_| panic!("nobody is asked")), ignored);
    hidden["msg_subtype"] = json!("artifact_response");
    assert_eq!(device.decide(&hidden, |_| panic!("nobody is asked")), ignored);

    // What an SDK that encrypts sends in clear.
    hidden["envelope"] = json!({ "protected_headers": { "msg_subtype": "artifact_tool_call" } });
    assert!(is_permitted(&device.decide(&hidden, |_| panic!("nobody is asked"))));
}

#[test]
fn the_checks_have_their_order() {
    let device = TestDevice::new();
    // Wrong in every way; then one thing after the other is put right.
    let mut wrong = call("c1", "shell", "shell:exec");
    wrong["group_id"] = json!("g-1");
    wrong["payload"]["artifact"]["arguments"] = json!({ "path": 1 });
    let expect = |message: &mut Value, id: &str, expected: Value| {
        message["payload"]["artifact"]["call_id"] = json!(id);
        let answer = device.answered(message);
        assert_eq!(
            (answer["call_id"].as_str(), answer["subtype"].as_str()),
            (Some(id), Some("tool_response"))
        );
        let word = answer.get("reason").or(answer.get("error_code"));
        assert_eq!(json!([answer["status"], word]), expected);
    };
    expect(&mut wrong, "c1", json!(["denied", "tool_not_supported_in_group"]));
    wrong["group_id"] = json!(null);
    expect(&mut wrong, "c2", json!(["denied", "tool_not_declared"]));
    wrong["payload"]["artifact"]["tool_name"] = json!("locate");
    expect(&mut wrong, "c3", json!(["denied", "scope_not_granted"]));
    wrong["payload"]["artifact"]["permission_scope"] = json!("filesystem:read");
    expect(&mut wrong, "c4", json!(["denied", "scope_not_granted"]));
    wrong["payload"]["artifact"]["permission_scope"] = json!("location:read");
    expect(&mut wrong, "c5", json!(["error", "TOOL_INVALID_ARGUMENTS"]));
    for (n, arguments) in
        [json!(null), json!([]), json!({}), json!({ "path": "/", "more": 1 })].into_iter().enumerate()
    {
        wrong["payload"]["artifact"]["arguments"] = arguments;
        expect(&mut wrong, &format!("d{n}"), json!(["error", "TOOL_INVALID_ARGUMENTS"]));
    }
    wrong["payload"]["artifact"]["arguments"] = json!({ "path": "/" });
    wrong["payload"]["artifact"]["call_id"] = json!("c6");
    assert!(is_permitted(&device.decide(&wrong, |_| ConsentReply::Confirmed)));
}

#[test]
fn a_scope_that_is_not_granted_is_denied() {
    let mut device = TestDevice::new();
    device.granted.clear();
    let answer = device.answered(&call("c1", "read_file", "filesystem:read"));
    assert_eq!(answer["reason"], "scope_not_granted");
}

#[test]
fn high_is_asked_each_time_and_for_thirty_seconds() {
    let device = TestDevice::new();
    let reason = |decision: ToolDecision| match decision {
        ToolDecision::Answered(answer) => answer.payload()["artifact"]["reason"].as_str().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    let asked = Cell::new(0);
    for id in ["a", "b", "c"] {
        let decision = device.decide(&call(id, "locate", "location:read"), |question| {
            asked.set(asked.get() + 1);
            assert_eq!(question.within, Some(Duration::from_secs(30)));
            assert_eq!((question.agent, question.tool.name.as_str()), ("agent.a.example", "locate"));
            ConsentReply::Confirmed
        });
        assert!(is_permitted(&decision));
    }
    assert_eq!(asked.get(), 3);
    assert_eq!(
        reason(device.decide(&call("d", "locate", "location:read"), |_| ConsentReply::Refused)),
        "user_refused"
    );
    assert_eq!(
        reason(device.decide(&call("e", "locate", "location:read"), |_| ConsentReply::Silent)),
        "user_timeout"
    );
    let after = |id: &str, ms: i64| {
        device.decide(&call(id, "locate", "location:read"), |_| {
            device.pass(ms);
            ConsentReply::Confirmed
        })
    };
    assert!(is_permitted(&after("f", 30_000)));
    assert_eq!(reason(after("g", 30_001)), "user_timeout", "a reply that comes too late is none");
}

#[test]
fn medium_is_asked_once_and_again_after_a_day_without_calls() {
    let device = TestDevice::new();
    let calls = Cell::new(0);
    let asks = |tool: &str, scope: &str, agent: &str, reply: ConsentReply| {
        calls.set(calls.get() + 1);
        let mut message = call(&format!("c{}", calls.get()), tool, scope);
        message["from"] = json!(agent);
        let asked = Cell::new(false);
        let decision = device.decide(&message, |question| {
            assert_eq!(question.within, None);
            asked.set(true);
            reply
        });
        assert_eq!(is_permitted(&decision), !asked.get() || reply == ConsentReply::Confirmed);
        asked.get()
    };
    let read = |reply| asks("read_file", "filesystem:read", "agent.a.example", reply);
    assert!(read(ConsentReply::Refused));
    assert!(read(ConsentReply::Silent));
    assert!(read(ConsentReply::Confirmed), "a refusal is not remembered");
    for _ in 0..3 {
        device.pass(24 * HOUR_MS - 1);
        assert!(!read(ConsentReply::Refused), "each call begins the 24 hours anew");
    }
    device.pass(24 * HOUR_MS);
    assert!(read(ConsentReply::Confirmed));
    assert!(asks("paste", "clipboard:read", "agent.a.example", ConsentReply::Confirmed), "another scope");
    assert!(
        asks("read_file", "filesystem:read", "other.a.example", ConsentReply::Confirmed),
        "another conversation"
    );
    assert!(!read(ConsentReply::Refused));
    device.pass(-HOUR_MS);
    assert!(read(ConsentReply::Confirmed), "a use in the future is none");
    fs::write(device.folder.path().join("tools/consents.json"), "not JSON").unwrap();
    assert!(read(ConsentReply::Confirmed), "what cannot be read is as good as none");
}

#[test]
fn a_call_is_taken_up_once() {
    let device = TestDevice::new();
    let message = call("c1", "notify", "notification:send");
    assert!(is_permitted(&device.decide(&message, |_| panic!("nobody is asked"))));
    let again = device.decide(&message, |_| panic!("nobody is asked"));
    assert_eq!(again, ToolDecision::Ignored(IgnoredCall::Duplicate));
    let mut of_another = message;
    of_another["from"] = json!("other.a.example");
    assert!(is_permitted(&device.decide(&of_another, |_| panic!("nobody is asked"))));
}

#[test]
fn the_trail_has_digests_and_ends_after_thirty_days() {
    let device = TestDevice::new();
    let policy = device.policy();
    let decision = device.decide(&call("c1", "notify", "notification:send"), |_| panic!("nobody is asked"));
    let ToolDecision::Permitted(permitted) = decision else { panic!("{decision:?}") };
    assert_eq!(permitted.timeout_ms, 5000);
    assert!(policy.audit().unwrap().is_empty(), "it has not ended yet");
    let result: Map<String, Value> = json!({ "shown": true }).as_object().unwrap().clone();
    let answer = policy.finish(permitted, ToolOutcome::Ok(result)).unwrap();
    assert_eq!(
        answer.payload(),
        json!({ "type": "artifact", "artifact": { "subtype": "tool_response", "call_id": "c1", "status": "ok", "result": { "shown": true } } })
    );
    device.pass(29 * 24 * HOUR_MS);
    device.answered(&call("c2", "shell", "shell:exec"));
    let expected = AuditEntry {
        call_id: "c1".to_owned(),
        agent_id: "agent.a.example".to_owned(),
        tool_name: "notify".to_owned(),
        scope: "notification:send".to_owned(),
        arguments_digest: "dac63a2ffc11af893afd48ac48226f00c31aa52c213f190118d30d6b9024d13f".to_owned(),
        status: "ok".to_owned(),
        timestamp: START_MS,
    };
    let entries = policy.audit().unwrap();
    assert_eq!((&entries[0], entries[1].status.as_str()), (&expected, "denied"));

    device.pass(2 * 24 * HOUR_MS);
    device.answered(&call("c3", "shell", "shell:exec"));
    let trail = fs::read_to_string(device.folder.path().join("tools/audit.jsonl")).unwrap();
    assert_eq!(trail.lines().count(), 2, "the oldest one is gone: {trail}");
    for file in fs::read_dir(device.folder.path().join("tools")).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(!text.contains("notes.md"), "the arguments are nowhere: {text}");
    }
}

#[test]
fn answers_have_the_words_of_the_protocol() {
    let payload = |outcome| ToolAnswer { call_id: "c".to_owned(), outcome }.payload()["artifact"].clone();
    for (reason, word) in [
        (DenialReason::UserRefused, "user_refused"),
        (DenialReason::ScopeNotGranted, "scope_not_granted"),
        (DenialReason::ToolNotDeclared, "tool_not_declared"),
        (DenialReason::UserTimeout, "user_timeout"),
        (DenialReason::ToolNotSupportedInGroup, "tool_not_supported_in_group"),
    ] {
        let denied =
            json!({ "subtype": "tool_response", "call_id": "c", "status": "denied", "reason": word });
        assert_eq!(payload(ToolOutcome::Denied(reason)), denied);
    }
    for (code, word) in [
        (ToolErrorCode::ToolPlatformError, "TOOL_PLATFORM_ERROR"),
        (ToolErrorCode::ToolInvalidArguments, "TOOL_INVALID_ARGUMENTS"),
        (ToolErrorCode::ToolUnavailable, "TOOL_UNAVAILABLE"),
    ] {
        let failed = payload(ToolOutcome::Error { code, message: Some("why".to_owned()) });
        assert_eq!((failed["error_code"].as_str(), failed["message"].as_str()), (Some(word), Some("why")));
    }
    assert_eq!(payload(ToolOutcome::unavailable()).get("message"), None);
    assert_eq!(
        (CALL_SUBTYPE, ANSWER_SUBTYPE, CONTENT_TYPE),
        ("artifact_tool_call", "artifact_response", "artifact")
    );
}
