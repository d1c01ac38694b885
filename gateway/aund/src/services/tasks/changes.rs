//! `aund tasks accept`, `reject`, `input`, `complete`, `fail` and `cancel`: calls on a task that is there.

use super::artifacts::ArtifactArgs;
use super::caller::{TaskCaller, new_key};
use super::create::InputText;
use crate::agent_args::{AskingArgs, result};
use crate::show::printable_line;
use clap::Args;
use client::Error;
use proto_schemas::requests::task::{
    Accept, Cancel, Complete, Fail, Reject, RequestInput, SendInput, TaskId, TaskReason,
};
use proto_schemas::{Request, codes};
use serde_json::Value;

#[derive(Args)]
pub(super) struct AcceptTaskCommand {
    #[command(flatten)]
    target: TaskTargetArgs,
}

#[derive(Args)]
pub(super) struct EndTaskCommand {
    #[command(flatten)]
    target: TaskTargetArgs,
    /// The reason, visible to all participants
    #[arg(long, value_name = "TEXT")]
    reason: Option<TaskReason>,
}

#[derive(Args)]
pub(super) struct TaskInputCommand {
    /// The id of the task
    task: TaskId,
    /// The text, @FILE, or - for standard input
    #[arg(value_name = "TEXT|@FILE|-")]
    input: InputText,
    /// Ask the owner a question and wait for the answer (only the assignee)
    #[arg(long)]
    ask: bool,
    #[command(flatten)]
    versioned: VersionArgs,
}

#[derive(Args)]
pub(super) struct CompleteTaskCommand {
    #[command(flatten)]
    target: TaskTargetArgs,
    #[command(flatten)]
    artifacts: ArtifactArgs,
}

#[derive(Args)]
struct TaskTargetArgs {
    /// The id of the task
    task: TaskId,
    #[command(flatten)]
    versioned: VersionArgs,
}

#[derive(Args)]
struct VersionArgs {
    /// Fail if the task has another version
    #[arg(long, value_name = "N")]
    expected_version: Option<i64>,
    #[command(flatten)]
    asking: AskingArgs,
}

impl AcceptTaskCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let TaskTargetArgs { task: task_id, versioned } = self.target;
        let VersionArgs { expected_version, asking } = versioned;
        change(asking, &Accept { task_id, request_id: Some(new_key()?), expected_version }).await
    }
}

impl EndTaskCommand {
    pub async fn reject(self) -> anyhow::Result<()> {
        let (task_id, reason, expected_version, asking) = self.parts();
        let request_id = Some(new_key()?);
        change(asking, &Reject { task_id, reason, request_id, expected_version }).await
    }

    pub async fn fail(self) -> anyhow::Result<()> {
        let (task_id, reason, expected_version, asking) = self.parts();
        let request_id = Some(new_key()?);
        change(asking, &Fail { task_id, reason, request_id, expected_version }).await
    }

    pub async fn cancel(self) -> anyhow::Result<()> {
        let (task_id, reason, expected_version, asking) = self.parts();
        let request_id = Some(new_key()?);
        change(asking, &Cancel { task_id, reason, request_id, expected_version }).await
    }

    fn parts(self) -> (TaskId, Option<TaskReason>, Option<i64>, AskingArgs) {
        let TaskTargetArgs { task, versioned } = self.target;
        (task, self.reason, versioned.expected_version, versioned.asking)
    }
}

impl TaskInputCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let (task_id, request_id, input) = (self.task, Some(new_key()?), self.input.block()?);
        let VersionArgs { expected_version, asking } = self.versioned;
        match self.ask {
            true => {
                change(asking, &RequestInput { task_id, message: input, request_id, expected_version }).await
            }
            false => {
                let (input_id, require_input) = (None, None);
                let said =
                    SendInput { task_id, input, input_id, require_input, request_id, expected_version };
                change(asking, &said).await
            }
        }
    }
}

impl CompleteTaskCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let TaskTargetArgs { task: task_id, versioned } = self.target;
        let VersionArgs { expected_version, asking } = versioned;
        let artifacts = Some(self.artifacts.read()?);
        let complete = Complete { task_id, artifacts, request_id: Some(new_key()?), expected_version };
        change(asking, &complete).await
    }
}

/// Calls, and shows the status after it. The call has a `request_id`, so it may be sent again and takes effect once.
async fn change<R: Request>(asking: AskingArgs, request: &R) -> anyhow::Result<()> {
    let caller = TaskCaller::new(asking)?;
    let refused = caller.answer(request).await?;
    let explained = refused.as_ref().err().and_then(blocking);
    let answer = match (result(refused, caller.show), explained) {
        (Err(error), Some(explained)) => return Err(error.context(explained)),
        (answer, _) => answer?,
    };
    let word = |name: &str| printable_line(answer[name].as_str().unwrap_or("?"));
    let (status, id) = (caller.show.green(&word("status")), caller.show.dim(&word("task_id")));
    caller.tell(&answer, &format!("{status}  {id}"))?;
    if let (false, Some(children)) = (caller.show.json, named(&answer["unsuccessful_children"])) {
        caller.show.note(&format!("these delegated tasks were not completed: {children}"));
    }
    Ok(())
}

/// What keeps a task from being completed.
fn blocking(error: &Error) -> Option<String> {
    match error {
        Error::Refused { code, error, .. }
            if *code == i64::from(codes::task::TASK_COMPLETION_BLOCKED.code) =>
        {
            let children = named(&error["data"]["children"])?;
            Some(format!("{children} must end first"))
        }
        _ => None,
    }
}

/// `task_1 (working, carol.aid.pub)` for each task of a list.
fn named(children: &Value) -> Option<String> {
    let word = |child: &Value, name: &str| printable_line(child[name].as_str().unwrap_or("?"));
    let each = children.as_array()?.iter().map(|child| {
        format!("{} ({}, {})", word(child, "task_id"), word(child, "status"), word(child, "assignee"))
    });
    let all: Vec<String> = each.collect();
    (!all.is_empty()).then(|| all.join(", "))
}
