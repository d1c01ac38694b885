//! A task that nobody works on yet becomes a run with one turn.

use super::calls::Acted;
use crate::RunService;
use crate::error::Error;
use crate::launching::{MOST_RUNNERS, TurnRunner};
use crate::settings::RunAgentSettings;
use crate::store::RunTaskRow;
use kernel::{Aid, Caller, RpcError};
use proto_schemas::requests::run::{CommandCreate, CommandType, Create, PolicyDraft};
use proto_schemas::requests::task::{AssignedTask, Get, Reject, TaskId, TaskObject, TaskReason};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use std::sync::Arc;

const PROVIDER: &str = "local";
/// How long the runner of a turn waits for another one, which does not come.
const IDLE_MS: i64 = 1000;
const MOST_REASON: usize = 1000;

/// A content block, as far as a back end is told of it.
#[derive(Deserialize)]
struct ContentText {
    #[serde(rename = "type")]
    kind: String,
    content: Option<Box<RawValue>>,
}

impl RunService {
    /// One that is not submitted any more was accepted by the agent itself, which then works on it.
    pub(super) async fn begin_task(self: Arc<Self>, task: AssignedTask) -> Result<(), Error> {
        let Some(agent) = self.task_work.agents.get(&task.assignee).filter(|_| task.status == "submitted")
        else {
            return Ok(());
        };
        let get = Get { task_id: task.task_id.clone(), messages_after_seq: None };
        let whole = self.as_agent(&task.assignee, &get).await?;
        let begun = match prompt_of(&whole) {
            Ok(prompt) => self.run_of_task(agent, &task, &whole, prompt).await,
            Err(sentence) => Err(Error::Invalid(sentence)),
        };
        match begun {
            Ok(row) => self.go_on_with_task(&task.status, task.version, row).await,
            Err(error) => match lasting(&error) {
                true => self.reject_task(&task.assignee, &task.task_id, &error.to_string()).await.map(|_| ()),
                false => Err(error),
            },
        }
    }

    /// Each step is done once, however often it is tried: the run, its turn, and the row that says whose they are.
    async fn run_of_task(
        self: &Arc<Self>,
        agent: &RunAgentSettings,
        task: &AssignedTask,
        whole: &TaskObject,
        prompt: String,
    ) -> Result<RunTaskRow, Error> {
        let key = format!("task {}", task.task_id);
        let run_id = match self.store.run_of_key(&agent.tenant, &key).await? {
            Some((run_id, _)) => run_id,
            None => self.clone().create(Caller::Operator, run_for(agent, key)?).await?.run.run_id,
        };
        let about = json!({ "taskId": task.task_id, "title": whole.title, "owner": whole.owner });
        let turn = CommandCreate {
            run_id: run_id.clone(),
            kind: CommandType::Turn,
            payload: to_raw_value(&json!({ "prompt": prompt, "task": about })).map_err(RpcError::internal)?,
            idempotency_key: Some(task.task_id.to_string()),
        };
        let command_id = match self.clone().command_create(Caller::Operator, turn).await {
            Ok(created) => created.command.command_id,
            // What was said since the first try is not part of it.
            Err(Error::Idempotency { existing, .. }) => existing,
            Err(error) => return Err(error),
        };
        let row = RunTaskRow {
            task_id: task.task_id.to_string(),
            aid: task.assignee.to_string(),
            run_id,
            command_id,
            version: 0,
            messages: whole.messages.last().map_or(1, |last| last.seq),
            asked: None,
            created_at: self.clock.now_ms(),
            ended_at: None,
        };
        self.store.insert_run_task(&row).await?;
        self.task_work.runs.lock().all.insert(row.run_id.clone());
        self.metrics.tasks.inc();
        Ok(row)
    }

    /// Has a runner started, unless there is one, or one may still come. Without runners of this server somebody else starts it.
    pub(super) async fn runner_for_task(self: &Arc<Self>, row: &RunTaskRow) -> Result<(), Error> {
        match self.runner_for(&row.run_id, &row.command_id, &row.task_id, IDLE_MS).await? {
            TurnRunner::There => Ok(()),
            // The task waits for one of them to end, and is looked at next time.
            TurnRunner::ServerFull => {
                self.task_work.runs.lock().changed.insert(row.run_id.clone());
                Ok(())
            }
            TurnRunner::GivenUp => {
                let sentence = format!("infra-failed: {MOST_RUNNERS} runners ended before the turn did");
                Err(Error::Illegal(sentence))
            }
        }
    }

    pub(super) async fn reject_task(
        &self,
        aid: &Aid,
        task_id: &TaskId,
        sentence: &str,
    ) -> Result<Acted, Error> {
        let reason = Some(reason(sentence));
        let reject = Reject { task_id: task_id.clone(), reason, request_id: None, expected_version: None };
        self.change_task(aid, &reject).await
    }
}

/// Whether the same would be answered later, too.
pub(super) fn lasting(error: &Error) -> bool {
    match error {
        Error::Invalid(_)
        | Error::Denied(_)
        | Error::NotFound(_)
        | Error::Forbidden(_)
        | Error::SecretUnavailable(_)
        | Error::Illegal(_)
        | Error::RunEnded { .. }
        | Error::CommandEnded { .. }
        | Error::Idempotency { .. }
        | Error::StoreEvicted(_)
        | Error::RunInput(_)
        | Error::RunInputForm(_)
        | Error::RunIdUsed
        | Error::NotOwner
        | Error::TooLarge(_) => true,
        Error::Lease(_)
        | Error::SessionBusy { .. }
        | Error::JobActive { .. }
        | Error::StorageFull
        | Error::Limit { .. }
        | Error::Other(_)
        | Error::Store(_) => false,
    }
}

/// What a task may have as the reason of its end.
pub(super) fn reason(sentence: &str) -> TaskReason {
    let is_shown = |next: &char| !next.is_control() || *next == '\n';
    let text: String = sentence.chars().filter(is_shown).take(MOST_REASON).collect();
    text.parse().unwrap_or_else(|_| unreachable!("it is short, and has no control characters"))
}

fn run_for(agent: &RunAgentSettings, key: String) -> Result<Create, Error> {
    let raw = |value| to_raw_value(&value).map_err(RpcError::internal);
    let workspace = match &agent.workspace {
        Some(workspace) => json!({ "root": workspace.root, "path": workspace.path }),
        None => json!({}),
    };
    let policy = &agent.policy;
    Ok(Create {
        tenant_id: agent.tenant.clone(),
        project_id: agent.project.clone(),
        workspace_ref: raw(workspace)?,
        provider_id: PROVIDER.to_owned(),
        backend_profile: agent.profile.clone(),
        execution_policy: Some(PolicyDraft {
            sandbox: policy.sandbox,
            approval: policy.approval,
            timeout_ms: policy.timeout_ms,
            network: policy.network,
            secret_scope: None,
        }),
        trace_sink: raw(json!(null))?,
        session_ref: None,
        resource_bundle_ref: None,
        idempotency_key: Some(key),
    })
}

/// What the back end is asked: the title, the input, and what was added to it before work began.
fn prompt_of(task: &TaskObject) -> Result<String, String> {
    let mut parts = vec![text_of(&task.input)?];
    if !task.title.is_empty() && !parts[0].starts_with(&task.title) {
        parts.insert(0, task.title.clone());
    }
    let added = task.messages.iter().filter(|message| message.seq > 1 && message.kind == "input");
    for message in added {
        parts.push(text_of(&message.body)?);
    }
    let prompt = parts.join("\n\n");
    match prompt.trim().is_empty() {
        true => Err("the input has no text".to_owned()),
        false => Ok(prompt),
    }
}

/// The text of a content block. What is encrypted or stored elsewhere cannot be read here.
pub(super) fn text_of(block: &RawValue) -> Result<String, String> {
    let block: ContentText =
        serde_json::from_str(block.get()).map_err(|_| "the input is not a content block".to_owned())?;
    let content = block.content.as_deref().map_or("", RawValue::get);
    match &*block.kind {
        "text" => serde_json::from_str(content).map_err(|_| "the input has no text".to_owned()),
        "json" => Ok(content.to_owned()),
        kind => Err(format!("an input of type {kind} cannot be read by this agent: send text or json")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn task(title: &str, input: Value, added: &[&str]) -> TaskObject {
        let said = |(n, body): (usize, Value)| {
            json!({ "seq": n + 1, "id": "i", "from": "alice.aid.net",
            "kind": if n == 2 { "note" } else { "input" }, "body": body, "created_at": "2026-03-21T13:00:00Z" })
        };
        let more = added.iter().map(|text| json!({ "type": "text", "content": text }));
        let messages: Vec<Value> = [input.clone()].into_iter().chain(more).enumerate().map(said).collect();
        serde_json::from_value(json!({
            "task_id": "task_1", "root_task_id": "task_1", "parent_task_id": null, "depth": 0, "status": "submitted",
            "version": 1, "owner": "alice.aid.net", "assignee": "bobb.aid.net", "participants": [],
            "visibility": "private", "required": true, "title": title, "input": input, "artifacts": [],
            "messages": messages, "messages_truncated": false, "children": [], "reason": null, "metadata": null,
            "created_at": "", "updated_at": "", "accepted_at": null, "ended_at": null, "home_issuer": "aid.net",
        }))
        .unwrap()
    }

    #[test]
    fn a_back_end_is_asked_what_the_owner_wrote() {
        let text = |content: &str| json!({ "type": "text", "content": content });
        assert_eq!(prompt_of(&task("", text("sort it"), &[])).unwrap(), "sort it");
        assert_eq!(prompt_of(&task("Sorting", text("by name"), &[])).unwrap(), "Sorting\n\nby name");
        assert_eq!(prompt_of(&task("sort it", text("sort it, please"), &[])).unwrap(), "sort it, please");
        let added = task("", text("sort it"), &["by name", "a note of the agent itself"]);
        assert_eq!(prompt_of(&added).unwrap(), "sort it\n\nby name");
        let data = json!({ "type": "json", "content": { "rows": [1, 2] } });
        assert_eq!(prompt_of(&task("", data, &[])).unwrap(), r#"{"rows":[1,2]}"#);
        for unreadable in [
            text("  "),
            json!({ "type": "e2ee", "ciphertext": "x" }),
            json!({ "type": "storage_ref", "owner_aid": "a", "bucket": "b", "object_key": "c" }),
        ] {
            assert!(prompt_of(&task("", unreadable.clone(), &[])).is_err(), "{unreadable}");
        }
    }

    #[test]
    fn a_reason_fits_whatever_it_was_made_of() {
        assert_eq!(reason("one\u{0}\u{1b}[2J\ntwo").as_str(), "one[2J\ntwo");
        assert_eq!(reason(&"ä".repeat(5000)).as_str().chars().count(), MOST_REASON);
        assert_eq!(reason("").as_str(), "");
    }
}
