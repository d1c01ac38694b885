//! Tool calls: which messages are some, and how those are counted that no commit of this domain stores.

use super::json_members::JsonMembers;
use crate::store::error::StoreError;
use crate::store::stored_message::MessageKey;
use crate::store::write::{CountChange, CountOutcome, ToolCallCount};
use crate::{Error, MessageService};
use kernel::Aid;
use proto_schemas::requests::message::Send;
use serde_json::value::RawValue;

/// The `msg_subtype` of a tool call, beside the payload or among the headers of an encrypted one.
const SUBTYPE: &str = "artifact_tool_call";
/// The `artifact.subtype` of one that is not encrypted.
const ARTIFACT_SUBTYPE: &str = "tool_call";

/// Whether a message counts as a tool call, by what its sender wrote in the clear. An SDK that encrypts a message leaves out what
/// it does not know beside the payload; the headers in `payload.protected_headers` stay readable.
pub(crate) fn is_tool_call(send: &Send) -> bool {
    send.msg_subtype.as_deref() == Some(SUBTYPE) || says_so(&send.payload, send.encrypted == Some(true))
}

/// Reads the few members of a payload that may say so, and only where one of them can.
fn says_so(payload: &RawValue, encrypted: bool) -> bool {
    let text = payload.get();
    // Each of the two words has the second one in it, and either may be written with escapes.
    if !text.contains(ARTIFACT_SUBTYPE) && !text.contains("\\u") {
        return false;
    }
    let Some(members) = JsonMembers::of(payload) else { return false };
    let by_headers = is(&members, "protected_headers", "msg_subtype", SUBTYPE);
    by_headers || (!encrypted && is(&members, "artifact", "subtype", ARTIFACT_SUBTYPE))
}

/// Whether a member has a member that is this word. A name may occur twice, and readers differ in which one they take.
fn is(members: &JsonMembers<'_>, outer: &str, inner: &str, word: &str) -> bool {
    let outer = members.0.iter().filter(|(name, _)| name == outer);
    let inside = outer.filter_map(|(_, value)| JsonMembers::of(value)).flat_map(|inside| inside.0);
    inside.filter(|(name, _)| name == inner).any(|(_, value)| is_word(value, word))
}

fn is_word(value: &RawValue, word: &str) -> bool {
    serde_json::from_str::<String>(value.get()).is_ok_and(|text| text == word)
}

impl MessageService {
    /// Counts a tool call that is not stored by a commit. One that is counted already is not counted twice.
    pub(crate) async fn count_tool_call(
        &self,
        from: &Aid,
        key: MessageKey,
        at: i64,
    ) -> Result<CountOutcome, Error> {
        match self.change_count(from, key, CountChange::Add { at }).await? {
            CountOutcome::TooMany { retry_after_ms } => Err(Error::TooManyToolCalls { retry_after_ms }),
            outcome => Ok(outcome),
        }
    }

    /// Takes back the count of one that was not sent after all.
    pub(crate) async fn uncount_tool_call(&self, from: &Aid, key: MessageKey) {
        if let Err(error) = self.change_count(from, key, CountChange::Remove).await {
            tracing::debug!("a tool call that was not sent stays counted for a minute: {error}");
        }
    }

    async fn change_count(
        &self,
        from: &Aid,
        key: MessageKey,
        change: CountChange,
    ) -> Result<CountOutcome, StoreError> {
        let count = ToolCallCount { from: from.clone(), key, change };
        self.ledger.count(count).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn counts(payload: Value, more: Value) -> bool {
        let mut params = json!({ "to": "bobb.aid.pub", "payload": payload });
        params.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        is_tool_call(&serde_json::from_str(&params.to_string()).unwrap())
    }

    #[test]
    fn a_tool_call_is_known_by_each_of_three_members() {
        let artifact = json!({ "type": "artifact", "artifact": { "subtype": "tool_call", "call_id": "c" } });
        let headers = json!({ "type": "e2ee.p2p_encrypted", "protected_headers": { "msg_subtype": "artifact_tool_call" } });
        assert!(counts(json!({}), json!({ "msg_subtype": "artifact_tool_call" })));
        assert!(counts(headers, Value::Null));
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
        ] {
            let params = format!(r#"{{"to":"bobb.aid.pub","payload":{payload}}}"#);
            assert!(is_tool_call(&serde_json::from_str(&params).unwrap()), "{payload}");
        }
    }

    #[test]
    fn responses_and_other_messages_are_none() {
        let response =
            json!({ "type": "artifact", "artifact": { "subtype": "tool_response", "call_id": "c" } });
        assert!(!counts(response, json!({ "msg_subtype": "artifact_response", "content_type": "artifact" })));
        let headers =
            json!({ "protected_headers": { "msg_subtype": "artifact_response", "about": "tool_call" } });
        assert!(!counts(headers, Value::Null));
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
