//! `aund register`: make an agent, with a key that stays on this machine.

use crate::agent_args::AgentArgs;
use anyhow::bail;
use clap::Args;
use client::{GatewayDialer, LocalAgent};
use proto_schemas::codes;
use serde_json::json;

#[derive(Args)]
pub(super) struct RegisterCommand {
    /// The agent's name, with or without its domain
    name: String,
    #[command(flatten)]
    args: AgentArgs,
}

impl RegisterCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let (show, home) = (self.args.show(), self.args.home()?);
        // With --gateway, a short name is one of that gateway's domain.
        let known = match self.args.gateway {
            Some(_) => None,
            None => home.find(&self.name, self.args.issuer.as_deref())?,
        };
        let gateway = self.args.gateway.clone().or_else(|| known.as_ref()?.gateway());
        let dialer = self.args.dialer(&home, gateway).await?;
        let aid = match known {
            Some(agent) => agent.aid,
            None => self.args.aid(&self.name, &home, &dialer).await?,
        };
        let dialer = dialer.of_issuer(aid.issuer());
        let agent = match home.agent(&aid)? {
            Some(agent) => match client::register(&dialer, &agent).await {
                Ok(()) => Ok(agent),
                Err(error) => Err(error.into()),
            },
            None => register_new(&dialer, home.create(&aid)?).await,
        };
        let agent = agent.map_err(|error| self.args.explained(&home, error))?;
        let folder = agent.folder().display();
        if show.json {
            show.line(&json!({ "aid": agent.aid, "folder": folder.to_string() }).to_string())?;
            return Ok(());
        }
        show.line(&format!("{} is registered; its key is in {folder}", show.bold(agent.aid.as_str())))?;
        Ok(())
    }
}

/// Registers a new key. It is deleted if the server refused it, and stays if the server may have accepted it and only its
/// answer was lost.
async fn register_new(dialer: &GatewayDialer, agent: LocalAgent) -> anyhow::Result<LocalAgent> {
    let Err(error) = client::register(dialer, &agent).await else { return Ok(agent) };
    let Some(code) = error.code() else { return Err(error.into()) };
    let aid = agent.aid.clone();
    agent.delete()?;
    if code == i64::from(codes::AID_EXISTS.code) {
        bail!("{aid} is already registered with another key: choose another name ({code})");
    }
    Err(error.into())
}
