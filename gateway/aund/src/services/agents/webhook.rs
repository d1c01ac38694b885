//! `aund agents webhook`: have the messages of an agent sent to a URL, and try the URL.

use crate::agent_args::{AgentArgs, AskingArgs, chosen};
use crate::show::{Show, printable_line};
use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use client::{Error, GatewayDialer, Home, LocalAgent, call_over_http};
use kernel::{Clock, Ids, codes};
use proto_schemas::requests::agent::{
    AgentKeyProof, AgentRecord, ConnectionMode, Create, Get, TestWebhook, TestedWebhook, Update,
};
use serde_json::json;

#[derive(Args)]
pub(super) struct WebhookCommand {
    #[command(subcommand)]
    command: WebhookSubcommand,
}

#[derive(Subcommand)]
enum WebhookSubcommand {
    /// Deliver the agent's messages and events to a URL; its key signs that it agrees
    Set(SetCommand),
    /// Send a signed ping to the agent's webhook and print what came back
    Test(TestCommand),
    /// Deliver the agent's messages to its connections again
    Remove(RemoveCommand),
}

#[derive(Args)]
struct SetCommand {
    /// Where messages are posted: https://HOST/PATH
    url: String,
    #[command(flatten)]
    asking: AskingArgs,
}

#[derive(Args)]
struct TestCommand {
    /// Whose webhook: an agent of this machine [default: the only one in the folder]
    name: Option<String>,
    #[command(flatten)]
    args: AgentArgs,
}

#[derive(Args)]
struct RemoveCommand {
    #[command(flatten)]
    asking: AskingArgs,
}

/// An agent of this machine and its gateway. Everything is asked over HTTP: a session would give the agent a device beside its webhook.
struct AskingAgent<'a> {
    args: &'a AgentArgs,
    home: Home,
    agent: LocalAgent,
    dialer: GatewayDialer,
}

impl WebhookCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        match self.command {
            WebhookSubcommand::Set(command) => command.run().await,
            WebhookSubcommand::Test(command) => command.run().await,
            WebhookSubcommand::Remove(command) => command.run().await,
        }
    }
}

impl SetCommand {
    async fn run(self) -> anyhow::Result<()> {
        let args = &self.asking.args;
        let (show, home) = (args.show(), args.home()?);
        let agent = self.asking.agent(&home)?;
        let caller = AskingAgent::new(args, home, agent).await?;
        let known = caller.registered().await?;
        let proof = Some(webhook_proof(&caller.agent, &self.url));
        let mode = Some(ConnectionMode::Webhook);
        let (record, secret) = match known {
            Some(known) => {
                let webhook_url = Some(Some(self.url));
                let update = Update {
                    id: known.id,
                    connection_mode: mode,
                    webhook_url,
                    webhook_proof: proof,
                    ..Update::default()
                };
                let updated = caller.ask(&update).await?;
                (updated.agent, updated.webhook_secret)
            }
            None => {
                let name = caller.agent.aid.as_str().split('.').next().unwrap_or_default().to_owned();
                let create = Create {
                    name,
                    connection_mode: mode,
                    webhook_url: Some(self.url),
                    webhook_proof: proof,
                    ..Create::default()
                };
                let created = caller.ask(&create).await?;
                (created.agent, created.webhook_secret)
            }
        };
        shown(show, &record, secret.as_deref())
    }
}

impl TestCommand {
    async fn run(self) -> anyhow::Result<()> {
        let (show, home) = (self.args.show(), self.args.home()?);
        let agent = chosen(&self.args, &home, self.name.as_deref(), "")?;
        let caller = AskingAgent::new(&self.args, home, agent).await?;
        let tested = caller.ask(&TestWebhook { id: caller.agent.aid.to_string() }).await?;
        if show.json {
            show.line(&serde_json::to_string(&tested)?)?;
        } else if tested.accepted {
            show.line(&format!("{} {}", show.green("accepted"), came_back(&tested)))?;
        }
        match tested.accepted {
            true => Ok(()),
            false => bail!("the webhook did not accept the ping: {}", came_back(&tested)),
        }
    }
}

impl RemoveCommand {
    async fn run(self) -> anyhow::Result<()> {
        let args = &self.asking.args;
        let (show, home) = (args.show(), args.home()?);
        let agent = self.asking.agent(&home)?;
        let caller = AskingAgent::new(args, home, agent).await?;
        let update = Update {
            id: caller.agent.aid.to_string(),
            connection_mode: Some(ConnectionMode::Websocket),
            webhook_url: Some(None),
            ..Update::default()
        };
        caller.ask(&update).await?;
        match show.json {
            true => show.line(&json!({ "aid": caller.agent.aid, "removed": true }).to_string())?,
            false => show.line(&format!("{} the webhook of {}", show.green("removed"), caller.agent.aid))?,
        }
        Ok(())
    }
}

impl<'a> AskingAgent<'a> {
    async fn new(args: &'a AgentArgs, home: Home, agent: LocalAgent) -> anyhow::Result<AskingAgent<'a>> {
        let dialer = args.dialer_of(&home, &agent).await?;
        Ok(AskingAgent { args, home, agent, dialer })
    }

    async fn ask<R: proto_schemas::Request>(&self, request: &R) -> anyhow::Result<R::Result> {
        let answer = call_over_http(&self.dialer, &self.agent, request).await;
        answer.map_err(|error| self.args.no_session(&self.home, &self.agent, error))
    }

    /// The agent as its owner has registered it, which must be itself.
    async fn registered(&self) -> anyhow::Result<Option<AgentRecord>> {
        let get = Get { id: self.agent.aid.to_string() };
        let found = match call_over_http(&self.dialer, &self.agent, &get).await {
            Ok(found) => found.agent,
            Err(Error::Refused { code, .. }) if code == i64::from(codes::agent::AGENT_NOT_FOUND.code) => {
                return Ok(None);
            }
            Err(error) => return Err(self.args.no_session(&self.home, &self.agent, error)),
        };
        // The owner is left out only of what is shown without a token.
        let owner = found.owner_id.as_deref().unwrap_or_default();
        if owner != self.agent.aid.as_str() {
            let owner = printable_line(owner);
            bail!("{} is registered by {owner}, who alone can set its webhook", self.agent.aid);
        }
        Ok(Some(found))
    }
}

/// That the agent's key agrees to the URL, where the agent is its own owner.
fn webhook_proof(agent: &LocalAgent, url: &str) -> AgentKeyProof {
    let (aid, timestamp) = (&agent.aid, Clock::default().now_seconds());
    let nonce = Ids::default().tagged("webhook");
    let text = format!("aun-agent-webhook-v1\n{aid}\n{aid}\n{url}\n{timestamp}\n{nonce}");
    let signature = STANDARD.encode(agent.key.sign(text.as_bytes()));
    AgentKeyProof { aid: aid.clone(), cert_fingerprint: None, timestamp, nonce, signature }
}

fn shown(show: Show, record: &AgentRecord, secret: Option<&str>) -> anyhow::Result<()> {
    if show.json {
        let mut answer = json!({
            "agent_id": record.id, "aid": record.aid, "webhook_url": record.webhook_url,
            "webhook_messages": record.webhook_messages,
        });
        if let Some(secret) = secret {
            answer["webhook_secret"] = json!(secret);
        }
        return Ok(show.line(&answer.to_string())?);
    }
    let url = printable_line(record.webhook_url.as_deref().context("the server shows no URL")?);
    show.line(&format!("{} messages of {} go to {}", show.green("set"), record.aid, show.bold(&url)))?;
    match secret {
        Some(secret) => show.line(&format!("secret: {secret} (shown once; requests are signed with it)"))?,
        None => show.line("the secret is the one that was shown before")?,
    }
    Ok(())
}

fn came_back(tested: &TestedWebhook) -> String {
    let error = tested.error.as_deref().map(printable_line);
    let said = match (tested.status, error) {
        (Some(status), _) => format!("it answered with {status}"),
        (None, error) => error.unwrap_or_else(|| "it did not answer".to_owned()),
    };
    format!("{said} after {} ms (delivery {})", tested.duration_ms, printable_line(&tested.delivery_id))
}
