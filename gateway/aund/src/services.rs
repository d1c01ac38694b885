//! The services of this build, and their commands: the gateway and the command line learn of them here, and nowhere else.

mod agents;
mod messages;
mod runs;
mod tasks;
mod tool;

pub(crate) use agents::BreakingChange;
pub(crate) use runs::NotCompleted;

use clap::Subcommand;
use kernel::ServiceRow;

/// The services, in the order in which they open: a service may call those before it while it opens.
pub(crate) fn rows() -> Vec<ServiceRow> {
    vec![
        service_ca::row(),
        service_auth::row(),
        service_agent::row(),
        service_message::row(),
        service_search::row(),
        service_task::row(),
        service_run::row(),
    ]
}

/// The names of all services, the gateway among them: each can run in a process of its own.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    rows().into_iter().map(|row| row.name).chain(["gateway"])
}

/// The commands of the services.
#[derive(Subcommand)]
pub(crate) enum ServiceCommand {
    /// Find agents, publish an agent's description, and show the search index
    #[command(visible_alias = "agent")]
    Agents(agents::AgentsCommand),
    /// Give tasks to agents, follow their progress and results, and work on them
    Tasks(Box<tasks::TasksCommand>),
    /// Operate the run manager: tokens, runs, their events and results, open questions, provider profiles
    #[command(visible_alias = "run")]
    Runs(runs::RunsCommand),
    /// Evaluate a tool call against a manifest and grants
    Tool(tool::ToolCommand),
    /// Send a message from one of your agents
    Send(messages::SendCommand),
    /// Print an agent's messages and events as they arrive
    Listen(messages::listen::ListenCommand),
    /// Print the messages in an agent's inbox
    Pull(messages::PullCommand),
}

impl ServiceCommand {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self {
            ServiceCommand::Agents(command) => command.run().await,
            ServiceCommand::Tasks(command) => command.run().await,
            ServiceCommand::Runs(command) => command.run().await,
            ServiceCommand::Tool(command) => command.run(),
            ServiceCommand::Send(command) => command.run().await,
            ServiceCommand::Listen(command) => command.run().await,
            ServiceCommand::Pull(command) => command.run().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway::config::Config;
    use std::collections::BTreeSet;

    #[test]
    fn the_services_are_those_of_the_contract() {
        let rows: BTreeSet<&str> = names().collect();
        assert_eq!(rows, proto_schemas::services().collect());
    }

    #[test]
    fn each_service_checks_its_own_settings() {
        for (text, named) in [
            ("message.recall_seconds = 99999999999", "message.recall_seconds"),
            ("ca.certificates_per_day = 0", "ca.certificates_per_day"),
        ] {
            let refused = Config::parse(text, &rows()).and_then(|config| config.check()).unwrap_err();
            assert!(refused.to_string().contains(named), "{refused}");
        }
        let refused = Config::parse("search.pers = []", &rows()).unwrap_err().to_string();
        assert!(refused.contains("did you mean peers?"), "{refused}");
    }
}
