//! `aund listen`: the messages and events of an agent as they arrive, after those that are in its inbox.

use crate::agent_args::AgentArgs;
use crate::show::Show;
use clap::Args;
use client::{Client, Incoming, IncomingMessage};
use gateway::signals::Signals;
use serde_json::json;

#[derive(Args)]
pub(crate) struct ListenCommand {
    /// The agent: one of this machine
    name: String,
    /// Exit after this many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    args: AgentArgs,
}

impl ListenCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let (show, home) = (self.args.show(), self.args.home()?);
        let agent = self.args.agent(&home, &self.name)?;
        let mut signals = Signals::new()?;
        let listen = async {
            let client = self.args.client(&home, &agent).await?;
            show_messages(&client, show, self.count).await?;
            client.close().await;
            Ok(())
        };
        tokio::select! {
            outcome = listen => outcome,
            () = signals.wait() => Ok(()),
        }
    }
}

/// Shows what arrives, until enough messages were shown or the session must not come back.
async fn show_messages(client: &Client, show: Show, count: Option<u64>) -> anyhow::Result<()> {
    let (mut messages, mut left) = (client.messages(), count);
    while left != Some(0) {
        match messages.next_incoming().await? {
            Incoming::Message(message) => {
                show_message(show, &message)?;
                if !message.is_recall() {
                    left = left.map(|left| left - 1);
                }
            }
            Incoming::Event(event) if show.json => show.frame(&event.text)?,
            Incoming::Event(event) => show.line(&show.event(&event.method, &event.params))?,
            Incoming::CaughtUp => show.note(&format!("{} is listening; Ctrl-C ends", client.aid())),
            Incoming::Disconnected { error, retry_in } => {
                let error = anyhow::Error::from(error);
                show.note(&format!("{error:#}; trying again in {:.1} s", retry_in.as_secs_f64()));
            }
        }
    }
    Ok(messages.acknowledge().await?)
}

/// The frame with --json, else a line.
fn show_message(show: Show, message: &IncomingMessage) -> anyhow::Result<()> {
    if show.json {
        let frame = json!({ "jsonrpc": "2.0", "method": "event/message.received", "params": message.row() });
        return Ok(show.line(&frame.to_string())?);
    }
    Ok(show.line(&show.message(message.row()))?)
}
