//! `aund send` and `aund pull`: the messages of an agent.

pub(super) mod listen;

use crate::agent_args::{AgentArgs, result};
use crate::show::printable_line;
use anyhow::Context as _;
use clap::Args;
use client::{Aid, ClientConnection, Error};
use kernel::{Clock, Ids};
use serde_json::json;
use std::io::Read as _;

#[derive(Args)]
pub(crate) struct SendCommand {
    /// The sender: an agent of this machine
    from: String,
    /// The recipient: a name in the same domain, or a full AID
    to: String,
    /// The text; - reads standard input
    text: String,
    #[command(flatten)]
    args: AgentArgs,
}

#[derive(Args)]
pub(crate) struct PullCommand {
    /// The agent: one of this machine
    name: String,
    /// Print messages after this seq [default: unacknowledged messages]
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// The maximum number of results
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: u32,
    /// Acknowledge the printed messages
    #[arg(long)]
    ack: bool,
    #[command(flatten)]
    args: AgentArgs,
}

impl SendCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let (show, home) = (self.args.show(), self.args.home()?);
        let agent = self.args.agent(&home, &self.from)?;
        let to = recipient(&self.to, &agent.aid)?;
        let text = if self.text == "-" { standard_input()? } else { self.text };

        // With an id of its own the message may be sent again, and is one message however often it was.
        let message_id = Ids::default().time_ordered(Clock::System.now_ms());
        let params =
            json!({ "to": to, "message_id": message_id, "payload": { "type": "text", "text": text } });
        let sent = self.args.call_again_while_full(&home, &agent, "message.send", &params).await?;
        let sent = result(sent, show)?;
        if show.json {
            show.line(&sent.to_string())?;
            return Ok(());
        }
        let (id, status) = (&sent["message_id"], &sent["status"]);
        let id = printable_line(id.as_str().unwrap_or("?"));
        let status = printable_line(status.as_str().unwrap_or("sent"));
        let seq = sent["seq"].as_i64().map_or_else(String::new, |seq| format!(" as #{seq}"));
        show.line(&format!("{} to {to}{seq}  {}", show.green(&status), show.dim(&id)))?;
        Ok(())
    }
}

impl PullCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let (show, home) = (self.args.show(), self.args.home()?);
        let agent = self.args.agent(&home, &self.name)?;
        let read = async |connection: &ClientConnection| {
            let after = match self.after {
                Some(after) => after,
                None => acknowledged(connection).await?,
            };
            connection.call("message.pull", &json!({ "after_seq": after, "limit": self.limit })).await
        };
        let page = result(self.args.again_while_full(&home, &agent, read).await?, show)?;
        let rows = page["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        if show.json {
            show.line(&page.to_string())?;
        } else {
            for row in rows {
                show.line(&show.message(row))?;
            }
            if rows.is_empty() {
                show.note("no messages");
            } else if page["has_more"] == true {
                show.note("there are more messages: use --limit N or --after SEQ");
            }
        }
        let last = rows.iter().filter_map(|row| row["seq"].as_u64()).max();
        if let (true, Some(seq)) = (self.ack, last) {
            let params = json!({ "seq": seq });
            self.args.call_again_while_full(&home, &agent, "message.ack", &params).await??;
        }
        Ok(())
    }
}

/// The seq up to which this agent has acknowledged on this device.
async fn acknowledged(connection: &ClientConnection) -> Result<u64, Error> {
    let page = connection.call("message.pull", &json!({ "after_seq": 0, "limit": 1 })).await?;
    Ok(page["server_ack_seq"].as_u64().unwrap_or_default())
}

/// A name without a domain is one of the sender's domain.
fn recipient(name: &str, of: &Aid) -> anyhow::Result<Aid> {
    let whole = if name.contains('.') { name.to_owned() } else { format!("{name}.{}", of.issuer()) };
    Aid::parse(&whole).with_context(|| format!("{name} is not an agent name"))
}

fn standard_input() -> anyhow::Result<String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("standard input is not text")?;
    Ok(text.trim_end_matches('\n').to_owned())
}
