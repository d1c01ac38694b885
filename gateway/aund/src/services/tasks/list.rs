//! `aund tasks list`: the tasks in which an agent has a role.

use super::caller::{TaskCaller, read};
use super::text::{label, short, status};
use crate::agent_args::AskingArgs;
use crate::show::{Show, printable_line, time};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use proto_schemas::requests::task::{List, StatusFilter, TaskPage, TaskRole, TaskSummary};

/// What one answer may hold.
const PAGE: i64 = 100;

#[derive(Args)]
pub(super) struct ListTasksCommand {
    /// Only tasks in which the agent has this role
    #[arg(long, value_name = "ROLE", value_parser = roles())]
    role: Option<TaskRole>,
    /// Only tasks with this status; repeatable
    #[arg(long, value_name = "STATUS")]
    status: Vec<TaskStatusArg>,
    /// Only tasks whose owner or assignee is this agent
    #[arg(long, value_name = "AID")]
    peer: Option<String>,
    /// The maximum number of results
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=PAGE))]
    limit: i64,
    /// Print all results
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    #[command(flatten)]
    asking: AskingArgs,
}

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum TaskStatusArg {
    Submitted,
    Working,
    InputRequired,
    Completed,
    Failed,
    Canceled,
    Rejected,
}

impl ListTasksCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let caller = TaskCaller::new(self.asking)?;
        let statuses: Vec<String> = self.status.iter().map(|status| word(*status)).collect();
        let mut list = List {
            status: (!statuses.is_empty()).then_some(StatusFilter::Several(statuses)),
            limit: Some(if self.all { PAGE } else { self.limit }),
            role: self.role,
            peer: self.peer.map(|peer| caller.aid(&peer)).transpose()?,
            ..List::default()
        };
        let (show, issuer) = (caller.show, caller.agent.aid.issuer().to_owned());
        let mut shown = 0;
        loop {
            let answer = caller.call(&list).await?;
            if show.json {
                show.line(&answer.to_string())?;
            }
            let page: TaskPage = read(answer)?;
            shown += page.items.len();
            if !show.json {
                for item in &page.items {
                    show.line(&line(&show, item, &issuer))?;
                }
            }
            list.cursor = page.next_cursor.filter(|_| page.has_more);
            if !self.all || list.cursor.is_none() {
                break;
            }
        }
        if show.json {
            return Ok(());
        }
        if shown == 0 {
            show.note("no tasks");
        } else if list.cursor.is_some() {
            show.note("there are more tasks: use --limit N or --all");
        }
        Ok(())
    }
}

fn roles() -> impl TypedValueParser<Value = TaskRole> {
    let words = PossibleValuesParser::new(TaskRole::ALL.map(TaskRole::as_str));
    words.try_map(|word| TaskRole::parse(&word).ok_or("it is none of them"))
}

/// As the protocol writes it.
fn word(status: TaskStatusArg) -> String {
    status.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn line(show: &Show, task: &TaskSummary, issuer: &str) -> String {
    let (id, status) = (show.dim(&printable_line(&task.task_id)), status(show, &task.status));
    let (owner, assignee) = (short(&task.owner, issuer), short(&task.assignee, issuer));
    let who = format!("{} → {}", show.cyan(&owner), show.cyan(&assignee));
    let label = label(&task.title, task.required);
    format!("{id}  {status}  {}  {who}{label}", show.dim(&time(&task.updated_at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_a_line() {
        let task = TaskSummary {
            task_id: "task_1".to_owned(),
            status: "working".to_owned(),
            owner: "alice.a.example".to_owned(),
            assignee: "bobb.b.example".to_owned(),
            title: "Review\n\x1b[2Jit".to_owned(),
            required: true,
            updated_at: "2026-03-21T13:00:00.5Z".to_owned(),
            ..TaskSummary::default()
        };
        let line = line(&Show::new(false, true), &task, "a.example");
        let expected =
            "task_1  working         2026-03-21T13:00:00Z  alice → bobb.b.example  Review \\u001b[2Jit";
        assert_eq!(line, expected);
    }

    #[test]
    fn statuses_are_the_protocols() {
        let all: Vec<String> = TaskStatusArg::value_variants().iter().map(|status| word(*status)).collect();
        let expected =
            ["submitted", "working", "input_required", "completed", "failed", "canceled", "rejected"];
        assert_eq!(all, expected);
    }
}
