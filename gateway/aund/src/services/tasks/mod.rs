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
    /// List the tasks in which an agent of yours has a role, the last changed first
    List(list::ListTasksCommand),
    /// Show everything about a task
    Show(show_task::ShowTaskCommand),
    /// Show the whole tree of a task: what was delegated to whom, and how it stands
    Tree(tree::TaskTreeCommand),
    /// Show what happens to tasks until they have ended
    Watch(watch::WatchTasksCommand),
    /// Give an agent a task
    Create(create::CreateTaskCommand),
    /// Pass a part of a task on to another agent
    Delegate(create::DelegateTaskCommand),
    /// Accept a task that was given to you
    Accept(changes::AcceptTaskCommand),
    /// Refuse a task that was given to you
    Reject(changes::EndTaskCommand),
    /// Say something about a task: the answer to a question, or with --ask a question to its owner
    Input(changes::TaskInputCommand),
    /// End a task well, with its results
    Complete(changes::CompleteTaskCommand),
    /// End a task that cannot be done
    Fail(changes::EndTaskCommand),
    /// End a task that is not wanted any more, and everything below it
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
