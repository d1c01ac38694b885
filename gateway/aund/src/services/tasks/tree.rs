//! `aund tasks tree`: the tree that a task is part of, as far as the caller may see it.

use super::caller::{TaskCaller, read, task_id};
use super::text::{label, short, status};
use crate::agent_args::AskingArgs;
use crate::show::{Show, printable_line};
use clap::Args;
use client::Error;
use proto_schemas::codes;
use proto_schemas::requests::task::{Children, Get, TaskChildren, TaskId, TaskObject, TaskSummary};
use serde::Serialize;

#[derive(Args)]
pub(super) struct TaskTreeCommand {
    /// The id of any task in the tree
    task: TaskId,
    #[command(flatten)]
    asking: AskingArgs,
}

/// A task and everything below it, as --json prints it.
#[derive(Serialize)]
struct TaskBranch {
    #[serde(flatten)]
    task: TaskSummary,
    children: Vec<TaskBranch>,
}

impl TaskTreeCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let caller = TaskCaller::new(self.asking)?;
        let asked: TaskObject = caller.ask(&get(self.task.clone())).await.map_err(explained)?;
        let (top, below) = top_of(&caller, asked).await?;
        let mut below: Vec<_> = below.children.into_iter().map(Some).collect();
        let tree = branch(top, &mut below);
        if caller.show.json {
            caller.show.line(&serde_json::to_string(&tree)?)?;
            return Ok(());
        }
        for line in lines(&caller.show, &tree, self.task.as_str(), caller.agent.aid.issuer()) {
            caller.show.line(&line)?;
        }
        Ok(())
    }
}

/// The root, if the caller may see the way from it down to the task; otherwise as far up as it may read.
async fn top_of(caller: &TaskCaller, asked: TaskObject) -> anyhow::Result<(TaskSummary, TaskChildren)> {
    let asked_id = asked.task_id.clone();
    if let Some(root) = readable(caller, &asked.root_task_id).await? {
        let below = caller.ask(&children(&root.task_id)?).await?;
        if root.task_id == asked_id || below.children.iter().any(|child| child.task_id == asked_id) {
            return Ok((summary(&root)?, below));
        }
    }
    let mut top = asked;
    while let Some(parent) = &top.parent_task_id {
        let Some(above) = readable(caller, parent).await? else { break };
        top = above;
    }
    let below = caller.ask(&children(&top.task_id)?).await?;
    Ok((summary(&top)?, below))
}

/// A task, unless the caller may not read it.
async fn readable(caller: &TaskCaller, id: &str) -> anyhow::Result<Option<TaskObject>> {
    let hidden = |error: &Error| {
        let hidden = [codes::task::TASK_NOT_FOUND.code, codes::task::TASK_ACCESS_DENIED.code];
        error.code().is_some_and(|code| hidden.into_iter().any(|hidden| i64::from(hidden) == code))
    };
    match caller.answer(&get(task_id(id)?)).await? {
        Ok(answer) => Ok(Some(read(answer)?)),
        Err(error) if hidden(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Only the owner of the root knows of a task that it may not read, and the root is where it finds it.
fn explained(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<Error>().and_then(Error::code) {
        Some(code) if code == i64::from(codes::task::TASK_ACCESS_DENIED.code) => {
            error.context("you own the root of its tree: use the id of the root")
        }
        _ => error,
    }
}

fn get(task_id: TaskId) -> Get {
    Get { task_id, messages_after_seq: None }
}

fn children(id: &str) -> anyhow::Result<Children> {
    Ok(Children { task_id: task_id(id)?, recursive: Some(true) })
}

/// Everything about a task has what is in a list, too.
fn summary(task: &TaskObject) -> anyhow::Result<TaskSummary> {
    read(serde_json::to_value(task)?)
}

/// Takes the tasks below `task` out of the list. Each is taken once, so no answer can lead in a circle.
fn branch(task: TaskSummary, rest: &mut [Option<TaskSummary>]) -> TaskBranch {
    let is_below = |other: &TaskSummary| other.parent_task_id.as_deref() == Some(task.task_id.as_str());
    let below: Vec<TaskSummary> =
        rest.iter_mut().filter_map(|slot| slot.take_if(|other| is_below(other))).collect();
    let children = below.into_iter().map(|child| branch(child, rest)).collect();
    TaskBranch { task, children }
}

fn lines(show: &Show, tree: &TaskBranch, asked: &str, issuer: &str) -> Vec<String> {
    let mut lines = vec![line(show, &tree.task, asked, issuer)];
    for (n, child) in tree.children.iter().enumerate() {
        let is_last = n + 1 == tree.children.len();
        let (first, others) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        for (m, line) in self::lines(show, child, asked, issuer).into_iter().enumerate() {
            lines.push(format!("{}{line}", if m == 0 { first } else { others }));
        }
    }
    lines
}

fn line(show: &Show, task: &TaskSummary, asked: &str, issuer: &str) -> String {
    let (id, assignee) = (printable_line(&task.task_id), show.cyan(&short(&task.assignee, issuer)));
    let id = if task.task_id == asked { show.bold(&id) } else { show.dim(&id) };
    format!("{}  {assignee}{}  {id}", status(show, &task.status), label(&task.title, task.required))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: &str, parent: Option<&str>, title: &str) -> TaskSummary {
        TaskSummary {
            task_id: id.to_owned(),
            parent_task_id: parent.map(str::to_owned),
            status: "working".to_owned(),
            assignee: format!("{id}.a.example"),
            required: id != "c",
            title: title.to_owned(),
            ..TaskSummary::default()
        }
    }

    fn drawn(below: Vec<TaskSummary>) -> Vec<String> {
        let mut below: Vec<_> = below.into_iter().map(Some).collect();
        let tree = branch(task("a", None, "All\nof it"), &mut below);
        lines(&Show::new(false, true), &tree, "b", "a.example")
    }

    #[test]
    fn a_tree_is_drawn_with_everything_below_its_root() {
        let below = vec![
            task("b", Some("a"), ""),
            task("c", Some("a"), "Look\x1b[2J"),
            task("d", Some("b"), ""),
            task("e", Some("d"), ""),
        ];
        assert_eq!(
            drawn(below),
            [
                "working         a  All of it  a",
                "├─ working         b  b",
                "│  └─ working         d  d",
                "│     └─ working         e  e",
                "└─ working         c  Look\\u001b[2J (optional)  c",
            ]
        );
        assert_eq!(drawn(Vec::new()).len(), 1);
    }

    #[test]
    fn an_answer_that_goes_in_a_circle_ends() {
        let below = vec![task("b", Some("a"), ""), task("a", Some("b"), ""), task("x", Some("y"), "")];
        assert_eq!(drawn(below).len(), 3);
    }
}
