//! What a person types to try the server: make an agent, send, look, and call anything.

use super::place::Place;
use super::show::Show;
use crate::client::{self, Error, Identity, Kind, Target, Wire};
use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::{Value, json};
use services::kernel::{Aid, codes};
use std::io::Read as _;

#[derive(Args)]
pub(super) struct Register {
    /// The agent's name, alone or with its domain
    name: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
pub(super) struct Send {
    /// Who sends: an agent of this machine
    from: String,
    /// Who receives: a name of the same domain, or a whole AID
    to: String,
    /// What to say; - reads it from standard input
    text: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
pub(super) struct Pull {
    /// Whose messages: an agent of this machine
    name: String,
    /// Show what comes after this number [default: what has not been acknowledged]
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// Show at most so many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: u32,
    /// Acknowledge what is shown
    #[arg(long)]
    ack: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
pub(super) struct Call {
    /// Who calls: an agent of this machine
    name: String,
    /// What is called, such as meta.ping; aund schema prints them all
    method: String,
    /// Its parameters
    #[arg(value_name = "JSON", default_value = "{}", value_parser = params)]
    params: Value,
    #[command(flatten)]
    place: Place,
}

impl Register {
    pub async fn run(self) -> anyhow::Result<()> {
        let (show, home) = (self.place.show(), self.place.home()?);
        // At a gateway that is named, a short name belongs to that gateway's domain.
        let known = match self.place.gateway {
            Some(_) => None,
            None => home.find(&self.name, self.place.issuer.as_deref())?,
        };
        let gateway = self.place.gateway.clone().or_else(|| known.as_ref()?.gateway());
        let target = self.place.target(&home, gateway).await?;
        let aid = match known {
            Some(who) => who.aid,
            None => self.place.aid(&self.name, &home, &target).await?,
        };
        let target = target.of_issuer(aid.issuer());
        let who = match home.identity(&aid)? {
            Some(who) => client::register(&target, &who).await.map(|()| who),
            None => first(&target, home.create(&aid)?).await,
        };
        let who = who.map_err(|error| self.place.explained(&home, error))?;
        let folder = who.folder().display();
        if show.json {
            show.line(&json!({ "aid": who.aid, "folder": folder.to_string() }).to_string())?;
            return Ok(());
        }
        show.line(&format!("{} is registered; its key is in {folder}", show.bold(who.aid.as_str())))?;
        Ok(())
    }
}

/// Registers a fresh key. One that the server refused is of no use; one that it may have taken, while its answer was
/// lost, is.
async fn first(target: &Target, who: Identity) -> anyhow::Result<Identity> {
    let Err(error) = client::register(target, &who).await else { return Ok(who) };
    let Some(code) = error.downcast_ref::<Error>().and_then(Error::code) else { return Err(error) };
    let aid = who.aid.clone();
    who.forget()?;
    if code == i64::from(codes::AID_EXISTS.code) {
        bail!("{aid} belongs to another key already, choose another name ({code})");
    }
    Err(error)
}

impl Send {
    pub async fn run(self) -> anyhow::Result<()> {
        let (show, home) = (self.place.show(), self.place.home()?);
        let who = self.place.agent(&home, &self.from)?;
        let to = neighbour(&self.to, &who.aid)?;
        let text = if self.text == "-" { standard_input()? } else { self.text };

        let mut wire = self.place.connect(&home, &who, Kind::Short).await?;
        let params = json!({ "to": to, "payload": { "type": "text", "text": text } });
        let sent = told(wire.call("message.send", &params).await, show)?;
        wire.close().await;
        if show.json {
            show.line(&sent.to_string())?;
            return Ok(());
        }
        let (id, status) = (&sent["message_id"], &sent["status"]);
        let (id, status) = (id.as_str().unwrap_or("?"), status.as_str().unwrap_or("sent"));
        let number = sent["seq"].as_i64().map_or_else(String::new, |seq| format!(" as #{seq}"));
        show.line(&format!("{} to {to}{number}  {}", show.green(status), show.dim(id)))?;
        Ok(())
    }
}

impl Pull {
    pub async fn run(self) -> anyhow::Result<()> {
        let (show, home) = (self.place.show(), self.place.home()?);
        let who = self.place.agent(&home, &self.name)?;
        let mut wire = self.place.connect(&home, &who, Kind::Short).await?;
        let after = match self.after {
            Some(after) => after,
            None => acknowledged(&mut wire).await?,
        };
        let params = json!({ "after_seq": after, "limit": self.limit });
        let page = told(wire.call("message.pull", &params).await, show)?;
        let rows = page["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        if show.json {
            show.line(&page.to_string())?;
        } else {
            for row in rows {
                show.line(&show.message(row))?;
            }
            if rows.is_empty() {
                show.note("nothing waits");
            } else if page["has_more"] == true {
                show.note("there is more");
            }
        }
        let last = rows.iter().filter_map(|row| row["seq"].as_u64()).max();
        if let (true, Some(seq)) = (self.ack, last) {
            wire.call("message.ack", &json!({ "seq": seq })).await?;
        }
        wire.close().await;
        Ok(())
    }
}

impl Call {
    pub async fn run(self) -> anyhow::Result<()> {
        let (show, home) = (self.place.show(), self.place.home()?);
        let who = self.place.agent(&home, &self.name)?;
        let mut wire = self.place.connect(&home, &who, Kind::Short).await?;
        let result = told(wire.call(&self.method, &self.params).await, show)?;
        wire.close().await;
        let text = if show.json { result.to_string() } else { serde_json::to_string_pretty(&result)? };
        show.line(&text)?;
        Ok(())
    }
}

/// Up to where this agent has read, on this device.
pub(super) async fn acknowledged(wire: &mut Wire) -> anyhow::Result<u64> {
    let page = wire.call("message.pull", &json!({ "after_seq": 0, "limit": 1 })).await?;
    Ok(page["server_ack_seq"].as_u64().unwrap_or_default())
}

/// A program reads the error where it reads the result; the sentence is for people.
fn told(answer: Result<Value, Error>, show: Show) -> anyhow::Result<Value> {
    if let (Err(Error::Refused { error, .. }), true) = (&answer, show.json) {
        show.line(&json!({ "error": error }).to_string())?;
    }
    Ok(answer?)
}

/// A name without a domain lives where the sender lives.
fn neighbour(name: &str, of: &Aid) -> anyhow::Result<Aid> {
    let whole = if name.contains('.') { name.to_owned() } else { format!("{name}.{}", of.issuer()) };
    Aid::parse(&whole).with_context(|| format!("{name} cannot receive messages"))
}

fn standard_input() -> anyhow::Result<String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("standard input is not text")?;
    Ok(text.trim_end_matches('\n').to_owned())
}

fn params(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(params @ Value::Object(_)) => Ok(params),
        Ok(_) => Err("parameters are an object, such as {\"seq\":1}".to_owned()),
        Err(error) => Err(format!("this is not JSON: {error}")),
    }
}
