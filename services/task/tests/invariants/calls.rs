//! Steps as calls of the service.

use super::simple::{ACTIONS, SimpleTasks, VISIBILITIES};
use super::*;

impl SimpleTasks {
    /// The same as a call: who, which method, which parameters.
    pub fn call(
        &self,
        step: &TaskStep,
        agents: &[TestAgent],
        ids: &[String],
    ) -> (usize, &'static str, Value) {
        match step {
            TaskStep::Create { owner, to, visibility, participant, key } => {
                let mut params = json!({ "to": agents[*to].aid, "input": text("x"), "visibility": VISIBILITIES[*visibility] });
                if let Some(participant) = participant {
                    params["participants"] = json!([agents[*participant].aid]);
                }
                if let Some(key) = key {
                    params["idempotency_key"] = json!(key.to_string());
                }
                (*owner, "create", params)
            }
            TaskStep::Act { who, task, action, expects, request } => {
                let task = task % ids.len();
                let mut params = json!({ "task_id": ids[task] });
                let method = ACTIONS[*action];
                match method {
                    "send_input" => params["input"] = text("y"),
                    "request_input" => params["message"] = text("z"),
                    "add_artifact" => {
                        params["artifact"] = json!({ "id": "a", "type": "text", "content": "r" })
                    }
                    _ => {}
                }
                if let Some(expects) = expects {
                    params["expected_version"] = json!(if *expects { self.rows[task].version } else { 0 });
                }
                if let Some(request) = request {
                    params["request_id"] = json!(request.to_string());
                }
                (*who, method, params)
            }
            TaskStep::Delegate { who, task, to, required, key } => {
                let mut params = json!({
                    "task_id": ids[task % ids.len()], "to": agents[*to].aid, "input": text("w"), "required": required,
                });
                if let Some(key) = key {
                    params["idempotency_key"] = json!(key.to_string());
                }
                (*who, "delegate", params)
            }
            TaskStep::Hours(_) | TaskStep::Timers => unreachable!("they are no calls"),
        }
    }
}
