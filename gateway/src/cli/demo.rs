//! `aund demo`: two agents talk through a gateway, and every frame is shown as it passes.

mod frames;
mod server;

use super::place::{Place, issuer_of};
use super::show::Show;
use crate::client::{self, Event, Gateway, Home, Identity, Kind, Root, Target, Wire};
use crate::signals::Signals;
use anyhow::Context as _;
use clap::Args;
use frames::Frames;
use serde_json::{Value, json};
use server::{Scratch, Server};
use services::kernel::{Aid, Ids};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How long an event may be on its way.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Args)]
pub(super) struct Demo {
    /// HOST:PORT or wss://HOST:PORT/aun [default: 127.0.0.1:20001, or a server of the demo's own]
    #[arg(long, value_name = "HOST:PORT")]
    gateway: Option<Gateway>,
    /// Trust the servers of this root certificate [default: ./data/pki/root.crt, else on first use]
    #[arg(long, value_name = "FILE")]
    root: Option<PathBuf>,
    /// Print without colours
    #[arg(long)]
    plain: bool,
}

/// One of the two, and the wire it talks over.
struct Actor {
    who: Identity,
    target: Target,
    device: String,
    wire: Wire,
}

impl Demo {
    pub async fn run(self) -> anyhow::Result<()> {
        let mut signals = Signals::new()?;
        tokio::select! {
            outcome = self.play() => outcome,
            // Leaving this way, and not by the signal, stops the server and removes its folder.
            () = signals.wait() => anyhow::bail!("interrupted"),
        }
    }

    async fn play(self) -> anyhow::Result<()> {
        let scratch = Scratch::new()?;
        let place = Place { gateway: self.gateway, root: self.root, plain: self.plain, ..Place::default() };
        let show = place.show();
        let home = Home::new(scratch.path("home"));
        let (target, _server) = stage(&place, &show, &home, &scratch).await?;
        let issuer = issuer_of(&target).await?;
        let target = target.of_issuer(&issuer);
        let start = Instant::now();
        let (alice, bobb) = meet(&show, &home, &target, &issuer).await?;
        let messages = talk(&show, alice, bobb).await?;
        let took = start.elapsed().as_secs_f64();
        show.line("")?;
        show.line(&show.bold(&format!(
            "{messages} messages between two agents, registration and all, in {took:.1} seconds."
        )))?;
        show.line("Now you: start the server with aund, and in another terminal")?;
        for words in ["register alice", "register bobb", "send alice bobb hello", "listen bobb"] {
            show.line(&format!("  aund {words}"))?;
        }
        Ok(())
    }
}

/// The server that is there, or one of our own.
async fn stage(
    place: &Place,
    show: &Show,
    home: &Home,
    scratch: &Scratch,
) -> anyhow::Result<(Target, Option<Server>)> {
    let gateway = place.gateway.clone().unwrap_or_else(Gateway::local);
    let address = gateway.place();
    if gateway.answers().await {
        show.line(&format!("Two agents talk through the gateway at {address}."))?;
        return Ok((place.target(home, Some(gateway)).await?, None));
    }
    show.line(&format!("Two agents talk. No gateway answers at {address}, so the demo has one of its own."))?;
    let server = Server::start(scratch).await?;
    let target = Target::new(server.gateway.clone(), &Root::read(&server.root)?)?;
    Ok((target, Some(server)))
}

/// Both get a certificate and come online.
async fn meet(show: &Show, home: &Home, target: &Target, issuer: &str) -> anyhow::Result<(Actor, Actor)> {
    let [a, b] = Ids::default().bytes::<2>();
    let aid = |name: &str| Aid::parse(&format!("{name}-{a:02x}{b:02x}.{issuer}"));
    let (alice, bobb) = (home.create(&aid("alice")?)?, home.create(&aid("bobb")?)?);
    show.line(&format!("  alice is {}\n  bobb is {}", alice.aid, bobb.aid))?;
    let frames = Frames::new(*show, vec![(alice.aid.clone(), "alice"), (bobb.aid.clone(), "bobb")]);
    let left = target.clone().tapped(frames.left());
    let right = target.clone().tapped(frames.right());

    title(show, "Each makes a key, and the gateway certifies that the name belongs to it.")?;
    client::register(&left, &alice).await?;
    client::register(&right, &bobb).await?;

    title(
        show,
        "Each logs in by signing a nonce with that key, and opens a session with the token it gets.",
    )?;
    let device = home.device()?;
    Ok((Actor::enter(alice, left, device.clone()).await?, Actor::enter(bobb, right, device).await?))
}

/// The test. How many messages were in it is the answer.
async fn talk(show: &Show, mut alice: Actor, mut bobb: Actor) -> anyhow::Result<u32> {
    let (to_alice, to_bobb) = (alice.who.aid.clone(), bobb.who.aid.clone());
    title(
        show,
        "Alice asks whether Bobb is there, and says hello. The gateway keeps the message, then rings.",
    )?;
    let online = alice.call("message.query_online", &json!({ "aids": [to_bobb] })).await?;
    anyhow::ensure!(online["online"][to_bobb.as_str()] == true, "Bobb is connected and yet not online");
    let (_, heard) = tokio::try_join!(alice.say(&to_bobb, "Hello Bobb!"), bobb.hears("message.received"))?;

    title(show, "Bobb acknowledges it, and Alice learns that it was read.")?;
    let ack = json!({ "seq": heard.params["seq"] });
    tokio::try_join!(bobb.call("message.ack", &ack), alice.hears("message.ack"))?;

    title(show, "Bobb answers.")?;
    tokio::try_join!(bobb.say(&to_alice, "Hello Alice."), alice.hears("message.received"))?;

    title(show, "Alice writes something that she regrets, and recalls it.")?;
    let regret = alice.say(&to_bobb, "My password is swordfish");
    let (regret, _) = tokio::try_join!(regret, bobb.hears("message.received"))?;
    let ids = json!({ "message_ids": [regret["message_id"]] });
    tokio::try_join!(alice.call("message.recall", &ids), bobb.hears("message.recalled"))?;

    title(show, "Bobb goes away. What is sent meanwhile waits, and he pulls it when he is back.")?;
    let Actor { who, target, device, wire } = bobb;
    wire.close().await;
    let waiting = alice.say(&to_bobb, "For when you are back").await?;
    let mut bobb = Actor::enter(who, target, device).await?;
    let before = waiting["seq"].as_u64().unwrap_or(1) - 1;
    let page = bobb.call("message.pull", &json!({ "after_seq": before })).await?;
    let found = page["messages"]
        .as_array()
        .is_some_and(|rows| rows.iter().any(|row| row["message_id"] == waiting["message_id"]));
    anyhow::ensure!(found, "the message that waited is not there");
    alice.wire.close().await;
    bobb.wire.close().await;
    Ok(4)
}

impl Actor {
    async fn enter(who: Identity, target: Target, device: String) -> anyhow::Result<Actor> {
        let wire = client::connect(&target, &who, &device, Kind::Long).await?;
        Ok(Actor { who, target, device, wire })
    }

    async fn call(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        Ok(self.wire.call(method, params).await?)
    }

    async fn say(&mut self, to: &Aid, text: &str) -> anyhow::Result<Value> {
        self.call("message.send", &json!({ "to": to, "payload": { "type": "text", "text": text } })).await
    }

    /// Waits for an event of this name; others may come first.
    async fn hears(&mut self, name: &str) -> anyhow::Result<Event> {
        let wanted = format!("event/{name}");
        let wait = async {
            loop {
                let event = self.wire.next_event().await?;
                if event.method == wanted {
                    return Ok(event);
                }
            }
        };
        timeout(PATIENCE, wait).await.with_context(|| format!("{wanted} did not come"))?
    }
}

fn title(show: &Show, text: &str) -> anyhow::Result<()> {
    show.line("")?;
    Ok(show.line(&show.bold(text))?)
}
