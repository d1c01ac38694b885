//! `aund listen`: the messages and events of an agent as they arrive, after those that are in its inbox.

use super::agent_args::{AgentArgs, pause};
use super::messages::acknowledged;
use super::show::Show;
use crate::client::{ClientConnection, ClientConnectionKind, Error, Home, LocalAgent, ReceivedEvent};
use crate::signals::Signals;
use clap::Args;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::mem;

/// Rows of one pull.
const PAGE: u32 = 200;

/// The events that have a seq of the inbox.
const RECEIVED: &str = "event/message.received";
const RECALLED: &str = "event/message.recalled";
const ENCRYPTED: &str = "event/peer.v2.message_received";

#[derive(Args)]
pub(super) struct ListenCommand {
    /// Who listens: an agent of this machine
    name: String,
    /// End after so many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    args: AgentArgs,
}

/// What has been shown, over all connections.
struct ListenLoop {
    args: AgentArgs,
    show: Show,
    home: Home,
    agent: LocalAgent,
    /// The seq up to which everything has been shown; unknown before the first connection.
    seen: Option<u64>,
    /// The seq of the last encrypted message that was shown.
    encrypted_seen: Option<u64>,
    /// Cursors of the messages without a seq that were shown; a pull and an event may both bring one.
    volatile_seen: HashSet<String>,
    /// Those of them that are not acknowledged yet.
    volatile_unacked: Vec<String>,
    /// How many messages are still to be shown.
    left: Option<u64>,
    /// Attempts since the last connection.
    tries: u32,
}

impl ListenCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let (show, home) = (self.args.show(), self.args.home()?);
        let agent = self.args.agent(&home, &self.name)?;
        let mut listener = ListenLoop {
            args: self.args,
            show,
            home,
            agent,
            seen: None,
            encrypted_seen: None,
            volatile_seen: HashSet::new(),
            volatile_unacked: Vec::new(),
            left: self.count,
            tries: 0,
        };
        let mut signals = Signals::new()?;
        tokio::select! {
            outcome = listener.listen() => outcome,
            () = signals.wait() => Ok(()),
        }
    }
}

impl ListenLoop {
    /// Until enough messages have been shown. A first connection that fails is not tried again.
    async fn listen(&mut self) -> anyhow::Result<()> {
        loop {
            let error = match self.connection().await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let transient = error.downcast_ref::<Error>().is_some_and(Error::is_transient);
            if self.seen.is_none() || !transient {
                return Err(error);
            }
            let wait = pause(self.tries);
            self.tries += 1;
            self.show.note(&format!("{error:#}; trying again in {:.1} s", wait.as_secs_f64()));
            tokio::time::sleep(wait).await;
        }
    }

    /// One connection, from login to its end.
    async fn connection(&mut self) -> anyhow::Result<()> {
        let mut connection = self.args.connect(&self.home, &self.agent, ClientConnectionKind::Long).await?;
        self.tries = 0;
        if self.seen.is_none() {
            self.seen = Some(acknowledged(&mut connection).await?);
            self.encrypted_seen = self.seen;
        }
        self.catch_up(&mut connection).await?;
        if !self.is_done() {
            self.show.note(&format!("{} is listening; Ctrl-C ends", self.agent.aid));
        }
        while !self.is_done() {
            let event = connection.next_event().await?;
            self.handle(&mut connection, &event).await?;
        }
        connection.close().await;
        Ok(())
    }

    /// Shows the messages after the last seq, page by page.
    async fn catch_up(&mut self, connection: &mut ClientConnection) -> anyhow::Result<()> {
        while !self.is_done() {
            let after = self.seen();
            let page = connection.call("message.pull", &json!({ "after_seq": after, "limit": PAGE })).await?;
            for row in page["messages"].as_array().into_iter().flatten() {
                if self.is_done() {
                    break;
                }
                let text = json!({ "jsonrpc": "2.0", "method": RECEIVED, "params": row });
                self.show_message(row, &text.to_string())?;
            }
            // A page leaves out encrypted messages: this client has no keys.
            if !self.is_done() {
                self.seen = self.seen.max(page["latest_seq"].as_u64());
            }
            if self.seen() == after && self.volatile_unacked.is_empty() {
                return Ok(());
            }
            self.acknowledge(connection).await?;
            if page["has_more"] != true {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn handle(
        &mut self,
        connection: &mut ClientConnection,
        event: &ReceivedEvent,
    ) -> anyhow::Result<()> {
        let ReceivedEvent { method, params, text } = event;
        let seq = match method.as_str() {
            RECEIVED | RECALLED | ENCRYPTED => params["seq"].as_u64(),
            _ => None,
        };
        // A seq was skipped: what is missing is shown first.
        if seq.is_some_and(|seq| seq > self.seen() + 1) {
            self.catch_up(connection).await?;
        }
        let is_new = match method.as_str() {
            // A pull leaves these out, so it cannot have shown them.
            ENCRYPTED => seq > self.encrypted_seen,
            _ => seq.is_none_or(|seq| seq > self.seen()),
        };
        if is_new && !self.is_done() {
            match method.as_str() {
                RECEIVED => self.show_message(params, text)?,
                _ => self.print(text, || self.show.event(method, params))?,
            }
            self.encrypted_seen = if method == ENCRYPTED { seq } else { self.encrypted_seen };
            self.seen = self.seen.max(seq);
        }
        // One acknowledgement for all events that came together.
        let anything = seq.is_some() || !self.volatile_unacked.is_empty();
        if anything && (self.is_done() || !connection.has_event()) {
            self.acknowledge(connection).await?;
        }
        Ok(())
    }

    /// Acknowledges what was shown. A message without a seq is acknowledged by its cursor, and then the server deletes it.
    async fn acknowledge(&mut self, connection: &mut ClientConnection) -> anyhow::Result<()> {
        let mut params = json!({ "seq": self.seen() });
        if !self.volatile_unacked.is_empty() {
            params["volatile_cursors"] = json!(mem::take(&mut self.volatile_unacked));
        }
        connection.call("message.ack", &params).await?;
        Ok(())
    }

    fn show_message(&mut self, row: &Value, text: &str) -> anyhow::Result<()> {
        if let Some(cursor) = row["volatile_cursor"].as_str() {
            if !self.volatile_seen.insert(cursor.to_owned()) {
                return Ok(());
            }
            self.volatile_unacked.push(cursor.to_owned());
        }
        self.print(text, || self.show.message(row))?;
        self.seen = self.seen.max(row["seq"].as_u64());
        if row["type"] != "message.recalled" {
            self.left = self.left.map(|left| left - 1);
        }
        Ok(())
    }

    /// The frame with --json, else a line.
    fn print(&self, text: &str, line: impl FnOnce() -> String) -> anyhow::Result<()> {
        let printed = if self.show.json { self.show.line(text) } else { self.show.line(&line()) };
        Ok(printed?)
    }

    fn seen(&self) -> u64 {
        self.seen.unwrap_or_default()
    }

    fn is_done(&self) -> bool {
        self.left == Some(0)
    }
}
