//! `aund agents`, also written `aund agent`: find other agents, publish what an agent says about itself, the index behind it, the files
//! of capability manifests, and tokens for HTTP.

mod explained;
mod index;
mod manifests;
mod publish;
mod search;
mod show_agent;
mod token;
mod webhook;

use clap::{Args, Subcommand};
pub(crate) use manifests::BreakingChange;

#[derive(Args)]
pub(crate) struct AgentsCommand {
    #[command(subcommand)]
    command: AgentsSubcommand,
}

#[derive(Subcommand)]
enum AgentsSubcommand {
    /// Find agents by words and tags, best match first
    Search(Box<search::SearchCommand>),
    /// Print an agent's agent.md
    Show(show_agent::ShowAgentCommand),
    /// Sign and publish the agent.md of one of your agents
    Publish(publish::PublishCommand),
    /// Remove the agent.md of one of your agents
    Unpublish(publish::UnpublishCommand),
    /// Show or rebuild the search index of a server on this machine
    Index(index::IndexCommand),
    /// Check a capability manifest, or compare two
    Manifest(manifests::ManifestCommand),
    /// Deliver the messages of an agent of yours to a URL
    Webhook(webhook::WebhookCommand),
    /// Print a new access token of an agent of yours, for requests over HTTP
    ///
    /// It is valid for one hour, unless the agent or its tokens are revoked before. It lets its holder act as the agent: keep it secret.
    /// Send it in the header "Authorization: Bearer TOKEN". Earlier tokens of the agent stay valid.
    Token(token::AgentTokenCommand),
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
            AgentsSubcommand::Webhook(command) => command.run().await,
            AgentsSubcommand::Token(command) => command.run().await,
        }
    }
}
