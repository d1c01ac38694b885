//! What a tool call is. The server counts by it and a device acts by it, so that nothing is executed that was not counted.

mod json_members;

pub use json_members::JsonMembers;

use serde_json::value::RawValue;

/// The `msg_subtype` of a tool call.
pub const CALL_SUBTYPE: &str = "artifact_tool_call";
/// The `msg_subtype` of the answer to one.
pub const RESPONSE_SUBTYPE: &str = "artifact_response";
/// The `artifact.subtype` of one that is not encrypted.
const ARTIFACT_SUBTYPE: &str = "tool_call";
/// Members of a message, and of its payload, that may have a `msg_subtype`.
const HEADERS: [&str; 2] = ["headers", "protected_headers"];

/// What a message says of itself in the clear.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessageMarks<'a> {
    pub msg_subtype: Option<&'a str>,
    pub headers: Option<&'a RawValue>,
    pub protected_headers: Option<&'a RawValue>,
    /// SDKs that encrypt a message drop what they do not know beside the payload; headers in it stay readable.
    pub payload: Option<&'a RawValue>,
    /// Whether the payload is encrypted; then nothing but its headers is looked at.
    pub encrypted: bool,
}

impl MessageMarks<'_> {
    pub fn is_tool_call(&self) -> bool {
        let mut headers = [self.headers, self.protected_headers].into_iter().flatten();
        self.msg_subtype == Some(CALL_SUBTYPE)
            || headers.any(|headers| has_word(headers, "msg_subtype", CALL_SUBTYPE))
            || self.payload.is_some_and(|payload| says_so(payload, self.encrypted))
    }

    /// Whether it is called an answer to a tool call, wherever a tool call would be called one.
    pub fn is_tool_response(&self) -> bool {
        let is_response = |headers: &RawValue| has_word(headers, "msg_subtype", RESPONSE_SUBTYPE);
        let mut headers = [self.headers, self.protected_headers].into_iter().flatten();
        let in_payload = |payload: &RawValue| {
            let members =
                may_have_word(payload, RESPONSE_SUBTYPE).then(|| JsonMembers::of(payload)).flatten();
            let mut members = members.into_iter().flat_map(|JsonMembers(members)| members);
            members.any(|(name, value)| HEADERS.contains(&name.as_str()) && is_response(value))
        };
        self.msg_subtype == Some(RESPONSE_SUBTYPE)
            || headers.any(is_response)
            || self.payload.is_some_and(in_payload)
    }
}

/// Reads the few members of a payload that may say so, and only where one of them can.
fn says_so(payload: &RawValue, encrypted: bool) -> bool {
    // Each of the two words has the second one in it.
    if !may_have_word(payload, ARTIFACT_SUBTYPE) {
        return false;
    }
    let Some(JsonMembers(members)) = JsonMembers::of(payload) else { return false };
    members.into_iter().any(|(name, value)| match name.as_str() {
        "artifact" => !encrypted && has_word(value, "subtype", ARTIFACT_SUBTYPE),
        name => HEADERS.contains(&name) && has_word(value, "msg_subtype", CALL_SUBTYPE),
    })
}

/// Whether an object has a member that is this word. A name may occur twice, and readers differ in which one they take.
fn has_word(object: &RawValue, name: &str, word: &str) -> bool {
    if !may_have_word(object, word) {
        return false;
    }
    let Some(JsonMembers(members)) = JsonMembers::of(object) else { return false };
    let mut named = members.into_iter().filter(|(member, _)| member == name);
    named.any(|(_, value)| serde_json::from_str::<String>(value.get()).is_ok_and(|text| text == word))
}

/// Whether a word can be somewhere in it; it may be written with escapes.
fn may_have_word(value: &RawValue, word: &str) -> bool {
    value.get().contains(word) || value.get().contains("\\u")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::to_raw_value;
    use serde_json::{Value, json};

    fn counts(payload: Value, beside: Value) -> bool {
        let raw = |name: &str| beside.get(name).map(|value| to_raw_value(value).unwrap());
        let (headers, protected_headers) = (raw("headers"), raw("protected_headers"));
        let marks = MessageMarks {
            msg_subtype: beside["msg_subtype"].as_str(),
            headers: headers.as_deref(),
            protected_headers: protected_headers.as_deref(),
            payload: Some(&to_raw_value(&payload).unwrap()),
            encrypted: beside["encrypted"] == true,
        };
        marks.is_tool_call()
    }

    #[test]
    fn a_tool_call_is_known_by_each_of_its_marks() {
        let mark = || json!({ "msg_subtype": "artifact_tool_call" });
        let artifact = json!({ "type": "artifact", "artifact": { "subtype": "tool_call", "call_id": "c" } });
        assert!(counts(json!({}), mark()));
        for headers in HEADERS {
            assert!(counts(json!({}), json!({ headers: mark() })), "{headers} beside the payload");
            let encrypted = json!({ "type": "e2ee.p2p_encrypted", headers: mark() });
            assert!(counts(encrypted, json!({ "encrypted": true })), "{headers} in the payload");
        }
        assert!(counts(artifact.clone(), Value::Null));
        assert!(
            counts(artifact.clone(), json!({ "msg_subtype": "artifact_response" })),
            "whatever it is called"
        );
        assert!(!counts(artifact, json!({ "encrypted": true })), "what is encrypted is not looked into");
    }

    #[test]
    fn escapes_hide_nothing() {
        for payload in [
            r#"{"artifact":{"subtype":"tool\u005fcall"}}"#,
            r#"{"\u0061rtifact":{"s\u0075btype":"\u0074ool_call"}}"#,
            r#"{"protected_headers":{"msg_subtype":"artifact\u005ftool\u005fcall"}}"#,
            r#"{"headers":{"msg_subtype":"other","msg_subtype":"artifact_tool_call"}}"#,
        ] {
            let payload = RawValue::from_string(payload.to_owned()).unwrap();
            let marks = MessageMarks { payload: Some(&payload), ..MessageMarks::default() };
            assert!(marks.is_tool_call(), "{payload}");
        }
    }

    #[test]
    fn a_response_is_known_by_its_subtype_wherever_that_of_a_call_is() {
        let responds = |payload: &str, beside: Option<&RawValue>, subtype: Option<&str>| {
            let payload = RawValue::from_string(payload.to_owned()).unwrap();
            let marks = MessageMarks {
                msg_subtype: subtype,
                headers: beside,
                payload: Some(&payload),
                encrypted: true,
                ..MessageMarks::default()
            };
            marks.is_tool_response()
        };
        let mark = to_raw_value(&json!({ "msg_subtype": "artifact_response" })).unwrap();
        assert!(responds("{}", None, Some("artifact_response")));
        assert!(responds("{}", Some(&mark), None));
        assert!(responds(r#"{"protected_headers":{"msg_subtype":"artifact\u005fresponse"}}"#, None, None));
        assert!(!responds(r#"{"text":"artifact_response","msg_subtype":"artifact_response"}"#, None, None));
        assert!(!responds(r#"{"headers":{"msg_subtype":"artifact_tool_call"}}"#, None, Some("text")));
    }

    #[test]
    fn responses_and_other_messages_are_none() {
        let response =
            json!({ "type": "artifact", "artifact": { "subtype": "tool_response", "call_id": "c" } });
        assert!(!counts(response, json!({ "msg_subtype": "artifact_response", "content_type": "artifact" })));
        let headers = json!({ "msg_subtype": "artifact_response", "about": "tool_call" });
        assert!(!counts(json!({ "protected_headers": headers }), json!({ "headers": headers })));
        for payload in [
            json!({ "text": "artifact_tool_call and tool_call" }),
            json!({ "subtype": "tool_call", "msg_subtype": "artifact_tool_call" }),
            json!({ "artifact": "tool_call" }),
            json!({ "artifact": ["subtype", "tool_call"] }),
            json!({ "artifact": { "subtype": ["tool_call"] } }),
            json!({ "artifact": { "inner": { "subtype": "tool_call" } } }),
            json!({ "protected_headers": { "msg_subtype": "tool_call" } }),
        ] {
            assert!(!counts(payload.clone(), Value::Null), "{payload}");
        }
    }
}
