//! `aund agents`, also written `aund agent`: find other agents, publish what an agent says about itself, the index behind it, and the
//! files of capability manifests.

mod explained;
mod index;
mod manifests;
mod publish;
mod search;
mod show_agent;

use clap::{Args, Subcommand};
pub(crate) use manifests::BreakingChange;

#[derive(Args)]
pub(crate) struct AgentsCommand {
    #[command(subcommand)]
    command: AgentsSubcommand,
}

#[derive(Subcommand)]
enum AgentsSubcommand {
    /// Find agents by words and tags, the best match first
    Search(Box<search::SearchCommand>),
    /// Show what an agent says about itself
    Show(show_agent::ShowAgentCommand),
    /// Sign and publish the agent.md of an agent of yours
    Publish(publish::PublishCommand),
    /// Remove the agent.md of an agent of yours
    Unpublish(publish::UnpublishCommand),
    /// Show the index of the directory of a server on this machine, or have it built again
    Index(index::IndexCommand),
    /// Check the capability manifest of an agent, or compare two
    Manifest(manifests::ManifestCommand),
}

impl AgentsCommand {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        match self.command {
            AgentsSubcommand::Search(command) => command.run().await,
            AgentsSubcommand::Show(command) => command.run().await,
            AgentsSubcommand::Publish(command) => command.run().await,
            AgentsSubcommand::Unpublish(command) => command.run().await,
            AgentsSubcommand::Index(command) => command.run().await,
            AgentsSubcommand::Manifest(command) => command.run(),
        }
    }
}
