//! `aund tasks`: work that one agent gives another. A person sees how it stands and what came out, and can take part on either side.

mod artifacts;
mod caller;
mod changes;
mod create;
mod list;
mod show_task;
mod text;
mod tree;
mod watch;
mod watched_event;

use clap::{Args, Subcommand};

#[derive(Args)]
pub(crate) struct TasksCommand {
    #[command(subcommand)]
    command: TasksSubcommand,
}

#[derive(Subcommand)]
enum TasksSubcommand {
    /// List the tasks of one of your agents, most recently changed first
    List(list::ListTasksCommand),
    /// Show everything about a task
    Show(show_task::ShowTaskCommand),
    /// Show the whole tree of a task, with assignees and status
    Tree(tree::TaskTreeCommand),
    /// Show the progress of tasks until they end
    Watch(watch::WatchTasksCommand),
    /// Give an agent a task
    Create(create::CreateTaskCommand),
    /// Delegate a part of a task to another agent
    Delegate(create::DelegateTaskCommand),
    /// Accept a task
    Accept(changes::AcceptTaskCommand),
    /// Reject a task
    Reject(changes::EndTaskCommand),
    /// Add input to a task, such as an answer; with --ask, ask its owner a question
    Input(changes::TaskInputCommand),
    /// Complete a task with its results
    Complete(changes::CompleteTaskCommand),
    /// Mark a task as failed
    Fail(changes::EndTaskCommand),
    /// Cancel a task and everything below it
    Cancel(changes::EndTaskCommand),
}

impl TasksCommand {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        match self.command {
            TasksSubcommand::List(command) => command.run().await,
            TasksSubcommand::Show(command) => command.run().await,
            TasksSubcommand::Tree(command) => command.run().await,
            TasksSubcommand::Watch(command) => command.run().await,
            TasksSubcommand::Create(command) => command.run().await,
            TasksSubcommand::Delegate(command) => command.run().await,
            TasksSubcommand::Accept(command) => command.run().await,
            TasksSubcommand::Reject(command) => command.reject().await,
            TasksSubcommand::Input(command) => command.run().await,
            TasksSubcommand::Complete(command) => command.run().await,
            TasksSubcommand::Fail(command) => command.fail().await,
            TasksSubcommand::Cancel(command) => command.cancel().await,
        }
    }
}
