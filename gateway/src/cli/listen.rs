//! `aund listen`: what an agent receives, as it comes; and what waited, before it.

use super::agent::acknowledged;
use super::place::{Place, pause};
use super::show::Show;
use crate::client::{Error, Event, Home, Identity, Kind, Wire};
use crate::signals::Signals;
use clap::Args;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::mem;

/// Rows of one pull.
const PAGE: u32 = 200;

/// The events that have a number of the inbox.
const RECEIVED: &str = "event/message.received";
const RECALLED: &str = "event/message.recalled";
const ENCRYPTED: &str = "event/peer.v2.message_received";

#[derive(Args)]
pub(super) struct Listen {
    /// Who listens: an agent of this machine
    name: String,
    /// End after so many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    place: Place,
}

/// One ear, through all its connections.
struct Ear {
    place: Place,
    show: Show,
    home: Home,
    who: Identity,
    /// Up to where everything has been shown; nothing is known before the first connection.
    seen: Option<u64>,
    /// The last encrypted message that was announced.
    rung: Option<u64>,
    /// Messages without a number that were shown; a pull and an event may both bring one.
    fleeting: HashSet<String>,
    /// Those of them the server does not know of yet.
    unsaid: Vec<String>,
    /// How many messages are still to come.
    left: Option<u64>,
    /// Attempts since the last connection.
    tries: u32,
}

impl Listen {
    pub async fn run(self) -> anyhow::Result<()> {
        let (show, home) = (self.place.show(), self.place.home()?);
        let who = self.place.agent(&home, &self.name)?;
        let mut ear = Ear {
            place: self.place,
            show,
            home,
            who,
            seen: None,
            rung: None,
            fleeting: HashSet::new(),
            unsaid: Vec::new(),
            left: self.count,
            tries: 0,
        };
        let mut signals = Signals::new()?;
        tokio::select! {
            outcome = ear.listen() => outcome,
            () = signals.wait() => Ok(()),
        }
    }
}

impl Ear {
    /// Until enough has come. Whoever was never connected is told at once that it does not work.
    async fn listen(&mut self) -> anyhow::Result<()> {
        loop {
            let error = match self.connection().await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let passes = error.downcast_ref::<Error>().is_some_and(Error::may_pass);
            if self.seen.is_none() || !passes {
                return Err(error);
            }
            let wait = pause(self.tries);
            self.tries += 1;
            self.show.note(&format!("{error:#}; trying again in {:.1} s", wait.as_secs_f64()));
            tokio::time::sleep(wait).await;
        }
    }

    /// One connection, from its first word to its last.
    async fn connection(&mut self) -> anyhow::Result<()> {
        let mut wire = self.place.connect(&self.home, &self.who, Kind::Long).await?;
        self.tries = 0;
        if self.seen.is_none() {
            self.seen = Some(acknowledged(&mut wire).await?);
            self.rung = self.seen;
        }
        self.catch_up(&mut wire).await?;
        if !self.is_done() {
            self.show.note(&format!("{} is listening; Ctrl-C ends", self.who.aid));
        }
        while !self.is_done() {
            let event = wire.next_event().await?;
            self.hear(&mut wire, &event).await?;
        }
        wire.close().await;
        Ok(())
    }

    /// Shows what waits behind the last number, page by page.
    async fn catch_up(&mut self, wire: &mut Wire) -> anyhow::Result<()> {
        while !self.is_done() {
            let after = self.seen();
            let page = wire.call("message.pull", &json!({ "after_seq": after, "limit": PAGE })).await?;
            for row in page["messages"].as_array().into_iter().flatten() {
                if self.is_done() {
                    break;
                }
                let text = json!({ "jsonrpc": "2.0", "method": RECEIVED, "params": row });
                self.show_message(row, &text.to_string())?;
            }
            // What the page skipped was not meant for a client without keys.
            if !self.is_done() {
                self.seen = self.seen.max(page["latest_seq"].as_u64());
            }
            if self.seen() == after && self.unsaid.is_empty() {
                return Ok(());
            }
            self.acknowledge(wire).await?;
            if page["has_more"] != true {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn hear(&mut self, wire: &mut Wire, event: &Event) -> anyhow::Result<()> {
        let Event { method, params, text } = event;
        let seq = match method.as_str() {
            RECEIVED | RECALLED | ENCRYPTED => params["seq"].as_u64(),
            _ => None,
        };
        // A number was left out: what is missing comes first.
        if seq.is_some_and(|seq| seq > self.seen() + 1) {
            self.catch_up(wire).await?;
        }
        let is_new = match method.as_str() {
            // A pull leaves these out, so it cannot have shown them.
            ENCRYPTED => seq > self.rung,
            _ => seq.is_none_or(|seq| seq > self.seen()),
        };
        if is_new && !self.is_done() {
            match method.as_str() {
                RECEIVED => self.show_message(params, text)?,
                _ => self.print(text, || self.show.event(method, params))?,
            }
            self.rung = if method == ENCRYPTED { seq } else { self.rung };
            self.seen = self.seen.max(seq);
        }
        // One acknowledgement does for all that came together.
        let anything = seq.is_some() || !self.unsaid.is_empty();
        if anything && (self.is_done() || !wire.has_event()) {
            self.acknowledge(wire).await?;
        }
        Ok(())
    }

    /// Says what was shown. A message without a number is named by its cursor, and then the server forgets it.
    async fn acknowledge(&mut self, wire: &mut Wire) -> anyhow::Result<()> {
        let mut params = json!({ "seq": self.seen() });
        if !self.unsaid.is_empty() {
            params["volatile_cursors"] = json!(mem::take(&mut self.unsaid));
        }
        wire.call("message.ack", &params).await?;
        Ok(())
    }

    fn show_message(&mut self, row: &Value, text: &str) -> anyhow::Result<()> {
        if let Some(cursor) = row["volatile_cursor"].as_str() {
            if !self.fleeting.insert(cursor.to_owned()) {
                return Ok(());
            }
            self.unsaid.push(cursor.to_owned());
        }
        self.print(text, || self.show.message(row))?;
        self.seen = self.seen.max(row["seq"].as_u64());
        if row["type"] != "message.recalled" {
            self.left = self.left.map(|left| left - 1);
        }
        Ok(())
    }

    /// The frame for a program, a line for a person.
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
