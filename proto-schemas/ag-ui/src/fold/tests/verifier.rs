//! The rules of the verifiers of `@ag-ui/client` 1.0.0 and 0.0.47, and of the schemas of `@ag-ui/core` where they are stricter.

use super::*;
use std::collections::HashSet;

#[derive(Default)]
struct FrameVerifier {
    has_begun: bool,
    is_finished: bool,
    has_failed: bool,
    texts: HashSet<String>,
    calls: HashSet<String>,
    spans: HashSet<String>,
    thoughts: HashSet<String>,
    steps: HashSet<String>,
}

/// Panics where a client would refuse a frame.
pub(super) fn check(frames: &[Frame]) {
    let mut verifier = FrameVerifier::default();
    // Stricter than both: an id stands for one message, call or result in all of a thread.
    let mut used = HashSet::new();
    for frame in frames {
        let data: Value = serde_json::from_str(&frame.data).unwrap();
        assert_eq!(data["type"], frame.kind);
        assert!(!has_null(&data), "{}", frame.data);
        verifier.take(frame.kind, &data);
        let id = match frame.kind {
            "TOOL_CALL_START" => &data["toolCallId"],
            "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START" | "TOOL_CALL_RESULT" => &data["messageId"],
            _ => continue,
        };
        assert!(used.insert(id.clone()), "{id} is used twice");
    }
}

impl FrameVerifier {
    fn take(&mut self, kind: &str, data: &Value) {
        if kind == "RUN_STARTED" {
            assert!(!self.has_begun || self.is_finished || self.has_failed, "a run is active");
            *self = FrameVerifier { has_begun: true, ..FrameVerifier::default() };
            return;
        }
        assert!(self.has_begun, "{kind} before RUN_STARTED");
        assert!(!self.has_failed, "{kind} after RUN_ERROR");
        assert!(!self.is_finished || kind == "RUN_ERROR", "{kind} after RUN_FINISHED");
        let text =
            |name: &str| data[name].as_str().unwrap_or_else(|| panic!("{kind} without {name}")).to_owned();
        let open = |set: &mut HashSet<String>, id: String| assert!(set.insert(id), "{kind}: open already");
        let close = |set: &mut HashSet<String>, id: String| assert!(set.remove(&id), "{kind}: not open");
        let inside = |set: &HashSet<String>, id: String| {
            assert!(set.contains(&id), "{kind}: not open");
            assert_ne!(data["delta"], "", "{kind} without text");
        };
        match kind {
            "TEXT_MESSAGE_START" => open(&mut self.texts, text("messageId")),
            "TEXT_MESSAGE_CONTENT" => inside(&self.texts, text("messageId")),
            "TEXT_MESSAGE_END" => close(&mut self.texts, text("messageId")),
            "TOOL_CALL_START" => open(&mut self.calls, text("toolCallId")),
            "TOOL_CALL_ARGS" => inside(&self.calls, text("toolCallId")),
            "TOOL_CALL_END" => close(&mut self.calls, text("toolCallId")),
            "TOOL_CALL_RESULT" => assert!(data["content"].is_string()),
            "REASONING_START" => open(&mut self.spans, text("messageId")),
            "REASONING_END" => close(&mut self.spans, text("messageId")),
            "REASONING_MESSAGE_START" => open(&mut self.thoughts, text("messageId")),
            "REASONING_MESSAGE_CONTENT" => inside(&self.thoughts, text("messageId")),
            "REASONING_MESSAGE_END" => close(&mut self.thoughts, text("messageId")),
            "STEP_STARTED" => open(&mut self.steps, text("stepName")),
            "STEP_FINISHED" => close(&mut self.steps, text("stepName")),
            "CUSTOM" => assert!(data.get("value").is_some()),
            "RUN_ERROR" => self.has_failed = true,
            "RUN_FINISHED" => {
                let open = [&self.texts, &self.calls, &self.spans, &self.thoughts, &self.steps];
                assert!(open.iter().all(|set| set.is_empty()), "something is open at the end");
                self.is_finished = true;
            }
            _ => panic!("{kind} is no event of AG-UI"),
        }
    }
}

/// Whether a member of the event itself is null. What a back end has written may contain anything.
fn has_null(data: &Value) -> bool {
    data.as_object().unwrap().iter().any(|(name, value)| name != "value" && value.is_null())
}
