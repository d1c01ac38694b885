//! What Codex asks, and how it is answered.

use crate::back_end::{ApprovalAnswer, BackEndQuestion};
use serde_json::{Map, Value, json};

/// For the rest of the process a command like this one, or a change of these files, needs no further question.
const FOR_SESSION: &str = "acceptForSession";

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CodexQuestion {
    /// The id of the request, as it came.
    pub id: Value,
    kind: QuestionKind,
}

#[derive(Clone, Debug, PartialEq)]
enum QuestionKind {
    /// Whether a command is run or a file is changed, with the decisions that there are.
    Decision(Vec<String>),
    /// Whether a turn gets these permissions.
    Permissions(Value),
    /// Questions of a tool, by their ids.
    Input(Vec<String>),
    /// A question of an MCP server.
    Elicitation,
}

/// The question of a request. A request that is none is refused.
pub(super) fn question_of(
    id: &Value,
    method: &str,
    params: &Value,
    files: Option<&str>,
) -> Option<(CodexQuestion, BackEndQuestion)> {
    let text = |name: &str| params[name].as_str().filter(|text| !text.is_empty());
    let because = |what: String| match text("reason") {
        Some(reason) => format!("{what} ({reason})"),
        None => what,
    };
    let (kind, reason, message, schema) = match method {
        "item/commandExecution/requestApproval" => {
            let message = because(format!("run {}", text("command").unwrap_or("a command")));
            (QuestionKind::Decision(decisions(params)), "commandExecution", message, None)
        }
        "item/fileChange/requestApproval" => {
            let message = because(format!("change {}", files.unwrap_or("files")));
            (QuestionKind::Decision(decisions(params)), "fileChange", message, None)
        }
        "item/permissions/requestApproval" => {
            let message = because(format!("have the permissions {}", params["permissions"]));
            (QuestionKind::Permissions(params["permissions"].clone()), "permissions", message, None)
        }
        "item/tool/requestUserInput" => {
            let questions = params["questions"].as_array().map(Vec::as_slice).unwrap_or_default();
            let ids = questions.iter().filter_map(|one| one["id"].as_str()).map(str::to_owned).collect();
            let asked: Vec<&str> = questions.iter().filter_map(|one| one["question"].as_str()).collect();
            (QuestionKind::Input(ids), "userInput", asked.join("\n"), Some(input_schema(questions)))
        }
        "mcpServer/elicitation/request" => {
            let url = text("url").map(|url| format!(" {url}")).unwrap_or_default();
            let message = format!("{}{url}", text("message").unwrap_or_default());
            let schema = Some(params["requestedSchema"].clone()).filter(|schema| !schema.is_null());
            (QuestionKind::Elicitation, "elicitation", message, schema)
        }
        _ => return None,
    };
    let options = match &kind {
        QuestionKind::Decision(decisions) => decisions.clone(),
        _ => ["accept", "decline", "cancel"].map(str::to_owned).to_vec(),
    };
    // The ids of Codex begin again with each process.
    let turn = text("turnId").or(text("threadId")).unwrap_or_default();
    let question = BackEndQuestion {
        approval_id: format!("{turn}-{}", id.as_str().map_or_else(|| id.to_string(), str::to_owned)),
        reason: reason.to_owned(),
        message: Some(message).filter(|message| !message.is_empty()),
        call_id: text("itemId").map(str::to_owned),
        response_schema: schema,
        options: Some(options),
    };
    Some((CodexQuestion { id: id.clone(), kind }, question))
}

/// Codex takes `decline` also where it does not list it. What would change its rules for later is not offered.
fn decisions(params: &Value) -> Vec<String> {
    let mut decisions = ["accept", "decline", "cancel"].map(str::to_owned).to_vec();
    let listed = params["availableDecisions"].as_array().into_iter().flatten();
    if listed.into_iter().any(|decision| decision == FOR_SESSION) {
        decisions.push(FOR_SESSION.to_owned());
    }
    decisions
}

fn input_schema(questions: &[Value]) -> Value {
    let mut properties = Map::new();
    for question in questions {
        let Some(id) = question["id"].as_str() else { continue };
        let mut property =
            json!({ "type": "string", "title": question["header"], "description": question["question"] });
        let labels = question["options"].as_array().into_iter().flatten();
        let labels: Vec<&Value> = labels.map(|option| &option["label"]).collect();
        if !labels.is_empty() && question["isOther"] != true {
            property["enum"] = json!(labels);
        }
        properties.insert(id.to_owned(), property);
    }
    json!({ "type": "object", "properties": properties })
}

impl CodexQuestion {
    /// What Codex is answered.
    pub fn result(&self, answer: &ApprovalAnswer) -> Value {
        let decision = answer.decision.as_str();
        let is_accepted = decision == "accept";
        match &self.kind {
            QuestionKind::Decision(decisions) => {
                let is_known = decisions.iter().any(|known| known == decision);
                json!({ "decision": if is_known { decision } else { "decline" } })
            }
            QuestionKind::Permissions(asked) if is_accepted => {
                json!({ "permissions": asked, "scope": "turn" })
            }
            QuestionKind::Permissions(_) => json!({ "permissions": {} }),
            QuestionKind::Input(ids) => {
                let given = answer.payload.as_ref().filter(|_| is_accepted);
                let answers = ids.iter().filter_map(|id| {
                    let texts = texts(given?.get(id)?);
                    Some((id.clone(), json!({ "answers": texts })))
                });
                json!({ "answers": answers.collect::<Map<_, _>>() })
            }
            QuestionKind::Elicitation => {
                let action = if matches!(decision, "accept" | "cancel") { decision } else { "decline" };
                json!({ "action": action, "content": answer.payload.as_ref().filter(|_| is_accepted) })
            }
        }
    }
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        other => vec![other.to_string()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, params: Value) -> (CodexQuestion, BackEndQuestion) {
        question_of(&json!(0), method, &params, Some("/w/a")).expect("it is a question")
    }

    fn answered(question: &CodexQuestion, decision: &str, payload: Option<Value>) -> Value {
        let answer = ApprovalAnswer { approval_id: "q".to_owned(), decision: decision.to_owned(), payload };
        question.result(&answer)
    }

    #[test]
    fn a_command_is_decided_on() {
        let (question, shown) = asked(
            "item/commandExecution/requestApproval",
            json!({
                "threadId": "t", "turnId": "u", "itemId": "c", "command": "rm x", "reason": "to tidy up",
                "availableDecisions": ["accept", { "acceptWithExecpolicyAmendment": {} }, "acceptForSession", "cancel"],
            }),
        );
        assert_eq!(shown.approval_id, "u-0");
        assert_eq!((shown.reason.as_str(), shown.call_id.as_deref()), ("commandExecution", Some("c")));
        assert_eq!(shown.message.as_deref(), Some("run rm x (to tidy up)"));
        assert_eq!(shown.options.as_deref().unwrap(), ["accept", "decline", "cancel", "acceptForSession"]);
        for (decision, told) in [
            ("accept", "accept"),
            ("decline", "decline"),
            ("cancel", "cancel"),
            ("acceptForSession", "acceptForSession"),
            ("sing", "decline"),
        ] {
            assert_eq!(answered(&question, decision, None), json!({ "decision": told }));
        }
    }

    #[test]
    fn a_change_is_shown_with_its_files() {
        let (question, shown) =
            asked("item/fileChange/requestApproval", json!({ "turnId": "u", "itemId": "c", "reason": null }));
        assert_eq!(shown.message.as_deref(), Some("change /w/a"));
        assert_eq!(answered(&question, "acceptForSession", None), json!({ "decision": "decline" }));
    }

    #[test]
    fn permissions_are_given_for_the_turn_or_not_at_all() {
        let wanted = json!({ "network": { "enabled": true } });
        let params = json!({ "turnId": "u", "permissions": wanted });
        let (question, _) = asked("item/permissions/requestApproval", params);
        assert_eq!(answered(&question, "accept", None), json!({ "permissions": wanted, "scope": "turn" }));
        for decision in ["decline", "cancel"] {
            assert_eq!(answered(&question, decision, None), json!({ "permissions": {} }));
        }
    }

    #[test]
    fn questions_of_a_tool_have_a_schema_and_get_texts() {
        let questions = json!([
            { "id": "a", "header": "A", "question": "which?", "options": [{ "label": "x" }, { "label": "y" }] },
            { "id": "b", "header": "B", "question": "why?" },
        ]);
        let (question, shown) =
            asked("item/tool/requestUserInput", json!({ "turnId": "u", "questions": questions }));
        assert_eq!(shown.message.as_deref(), Some("which?\nwhy?"));
        let schema = shown.response_schema.unwrap();
        assert_eq!(schema["properties"]["a"]["enum"], json!(["x", "y"]));
        assert!(schema["properties"]["b"].get("enum").is_none());
        assert_eq!(
            answered(&question, "accept", Some(json!({ "a": "x", "b": ["p", 7], "c": "no" }))),
            json!({ "answers": { "a": { "answers": ["x"] }, "b": { "answers": ["p", "7"] } } })
        );
        for (decision, payload) in [("accept", None), ("decline", Some(json!({ "a": "x" })))] {
            assert_eq!(answered(&question, decision, payload), json!({ "answers": {} }));
        }
    }

    #[test]
    fn a_question_of_a_server_gets_its_content() {
        let params = json!({ "threadId": "t", "message": "who?", "requestedSchema": { "type": "object" } });
        let (question, shown) = asked("mcpServer/elicitation/request", params);
        assert_eq!((shown.approval_id.as_str(), shown.message.as_deref()), ("t-0", Some("who?")));
        assert_eq!(shown.response_schema, Some(json!({ "type": "object" })));
        let content = Some(json!({ "name": "x" }));
        assert_eq!(
            answered(&question, "accept", content.clone()),
            json!({ "action": "accept", "content": { "name": "x" } })
        );
        for action in ["decline", "cancel"] {
            assert_eq!(
                answered(&question, action, content.clone()),
                json!({ "action": action, "content": null })
            );
        }
    }

    #[test]
    fn what_is_no_question_is_none() {
        for method in ["item/tool/call", "execCommandApproval", "attestation/generate", "of/tomorrow"] {
            assert_eq!(question_of(&json!(0), method, &json!({}), None), None);
        }
    }
}
