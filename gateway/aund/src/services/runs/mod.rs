//! `aund runs`: what back ends and runners do on this server, as its operator or one of the agents of a tenant sees it.

mod approve;
mod caller;
mod cancel;
mod event_text;
mod list;
mod live_run;
mod profiles;
mod result;
mod show_run;
mod start;
mod steer;
mod text;
mod token;
mod watch;

pub(crate) use result::NotCompleted;

use clap::{Args, Subcommand};

#[derive(Args)]
pub(crate) struct RunsCommand {
    #[command(subcommand)]
    command: RunsSubcommand,
}

#[derive(Subcommand)]
enum RunsSubcommand {
    /// Create an API token for a tenant or an administrator and print it; list or revoke tokens
    Token(token::TokenCommand),
    /// Start a run with one turn, print what happens and answer its questions; exits with code 3 unless the turn is completed
    Start(start::StartRunCommand),
    /// Give guidance to the turn that a run is working on
    Steer(steer::SteerRunCommand),
    /// List open runs, newest first
    List(list::ListRunsCommand),
    /// Show a run: its commands, its lease, what it waits for, open questions and runner jobs
    Show(show_run::ShowRunCommand),
    /// Print the events of a run until it ends
    Watch(watch::WatchRunCommand),
    /// Cancel a run with all its commands, or a single command
    Cancel(cancel::CancelRunCommand),
    /// Print the reply to a command; exits with code 3 unless the command is completed
    Result(result::RunResultCommand),
    /// List the open questions of a run, or answer one
    Approve(approve::ApproveCommand),
    /// Show provider profiles, set or delete their credentials, or try whether they work
    Profiles(profiles::ProfilesCommand),
}

impl RunsCommand {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        match self.command {
            RunsSubcommand::Token(command) => command.run().await,
            RunsSubcommand::Start(command) => command.run().await,
            RunsSubcommand::Steer(command) => command.run().await,
            RunsSubcommand::List(command) => command.run().await,
            RunsSubcommand::Show(command) => command.run().await,
            RunsSubcommand::Watch(command) => command.run().await,
            RunsSubcommand::Cancel(command) => command.run().await,
            RunsSubcommand::Result(command) => command.run().await,
            RunsSubcommand::Approve(command) => command.run().await,
            RunsSubcommand::Profiles(command) => command.run().await,
        }
    }
}
