//! What Codex knows of a turn that an earlier runner began.

use crate::back_end::PastTurn;
use serde_json::Value;

/// The turn of a command among those of a thread. Only one that Codex calls completed is.
pub(super) fn past_turn(turns: &Value, command_id: &str) -> PastTurn {
    let not_proven = |why: String| PastTurn::NotProven { why };
    let mut known = turns["data"].as_array().into_iter().flatten();
    let Some(turn) = known.find(|turn| is_of(turn, command_id)) else {
        return not_proven("the runner died, and codex does not know the turn".to_owned());
    };
    match turn["status"].as_str() {
        Some("completed") => PastTurn::Completed { reply: reply(turn) },
        Some(status) => not_proven(format!("the runner died, and codex says that the turn is {status}")),
        None => not_proven("the runner died, and codex does not say what became of the turn".to_owned()),
    }
}

fn is_of(turn: &Value, command_id: &str) -> bool {
    items(turn).any(|item| item["type"] == "userMessage" && item["clientId"] == command_id)
}

/// What the agent said last.
fn reply(turn: &Value) -> Option<String> {
    let messages = items(turn).filter(|item| item["type"] == "agentMessage");
    let text = messages.filter_map(|item| item["text"].as_str()).last();
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}

fn items(turn: &Value) -> impl Iterator<Item = &Value> {
    turn["items"].as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_codex_calls_completed_is() {
        let turn = |command: &str, status: &str| {
            json!({ "id": command, "status": status, "items": [
                { "type": "userMessage", "clientId": command },
                { "type": "agentMessage", "text": "first" },
                { "type": "agentMessage", "text": format!("of {command}") },
            ] })
        };
        let turns = json!({ "data": [
            turn("cmd_4", "inProgress"), turn("cmd_3", "interrupted"), turn("cmd_2", "failed"), turn("cmd_1", "completed"),
            { "status": "completed", "items": [{ "type": "userMessage", "clientId": "cmd_0" }] },
        ] });
        let completed = |reply: Option<&str>| PastTurn::Completed { reply: reply.map(str::to_owned) };
        assert_eq!(past_turn(&turns, "cmd_1"), completed(Some("of cmd_1")));
        assert_eq!(past_turn(&turns, "cmd_0"), completed(None));
        for (command, why) in [
            ("cmd_2", "says that the turn is failed"),
            ("cmd_3", "says that the turn is interrupted"),
            ("cmd_4", "says that the turn is inProgress"),
            ("cmd_5", "does not know the turn"),
        ] {
            let PastTurn::NotProven { why: said } = past_turn(&turns, command) else { panic!("{command}") };
            assert!(said.contains(why), "{said}");
        }
        for odd in [json!(null), json!({ "data": 7 }), json!({ "data": [7, {}] })] {
            assert!(matches!(past_turn(&odd, "cmd_1"), PastTurn::NotProven { .. }), "{odd}");
        }
    }
}
