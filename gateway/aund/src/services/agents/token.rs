//! `aund agents token`: an access token for programs that speak HTTP to the server as an agent of this machine.

use crate::agent_args::{AgentArgs, chosen};
use clap::Args;
use serde_json::json;

#[derive(Args)]
pub(super) struct AgentTokenCommand {
    /// The agent: one of this machine [default: the only one in the folder]
    name: Option<String>,
    #[command(flatten)]
    args: AgentArgs,
}

impl AgentTokenCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let (show, home) = (self.args.show(), self.args.home()?);
        let agent = chosen(&self.args, &home, self.name.as_deref(), "aund agents token ")?;
        let dialer = self.args.dialer_of(&home, &agent).await?;
        let renewed = client::renew_tokens(&dialer, &agent).await;
        let tokens = renewed.map_err(|error| self.args.no_session(&home, &agent, error))?;
        let line = match show.json {
            true => json!({
                "aid": agent.aid, "access_token": tokens.access_token, "expires_at": tokens.expires_at,
            })
            .to_string(),
            false => tokens.access_token,
        };
        show.line(&line)?;
        Ok(())
    }
}
