//! `aund demo`: two agents exchange messages through a gateway, then one finds the other and hires it, and every frame is shown. With
//! `--web`, a page where a person talks to an agent.

mod demo_agent;
mod frames;
mod hire;
mod server;
mod web;

use crate::agent_args::{AgentArgs, issuer_of};
use crate::show::Show;
use clap::Args;
use client::{Aid, GatewayDialer, GatewayUrl, Home, TrustedRoot};
use demo_agent::DemoAgent;
use frames::FramePrinter;
use gateway::signals::Signals;
use kernel::Ids;
use serde_json::json;
use server::{DemoFolder, DemoServer};
use std::path::PathBuf;
use tokio::time::Instant;

#[derive(Args)]
pub(super) struct DemoCommand {
    /// HOST:PORT or wss://HOST:PORT/aun [default: 127.0.0.1:20001, else a temporary server]
    #[arg(long, value_name = "HOST:PORT")]
    gateway: Option<GatewayUrl>,
    /// The server's root certificate [default: ./data/pki/root.crt, else trusted on first use]
    #[arg(long, value_name = "FILE")]
    root: Option<PathBuf>,
    /// The domain of the server, whose name its certificate has [default: the host of --gateway]
    #[arg(long, value_name = "DOMAIN")]
    issuer: Option<String>,
    /// Serve a page where you talk to the example agent, until Ctrl-C
    #[arg(long)]
    web: bool,
    /// With --web: the port of the page on 127.0.0.1 [default: any that is free]
    #[arg(long, value_name = "PORT", requires = "web")]
    port: Option<u16>,
    /// With --web: the folder for the agent of the page [default: ~/.aund; with a temporary server, a temporary one]
    #[arg(long, value_name = "DIR", requires = "web")]
    home: Option<PathBuf>,
    /// Print without colours
    #[arg(long)]
    plain: bool,
}

impl DemoCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let mut signals = Signals::new()?;
        if self.web {
            return tokio::select! {
                outcome = self.serve_page() => outcome,
                () = signals.wait() => Ok(()),
            };
        }
        tokio::select! {
            outcome = self.show_all() => outcome,
            // Leaving this way, and not by the signal, stops the server and removes its folder.
            () = signals.wait() => anyhow::bail!("interrupted"),
        }
    }

    async fn serve_page(self) -> anyhow::Result<()> {
        let folder = DemoFolder::new()?;
        let port = self.port.unwrap_or_default();
        let args = self.args();
        let show = args.show();
        let home = args.home()?;
        let (dialer, server) = find_or_start_gateway(&args, &show, &home, &folder, "The page talks").await?;
        // An agent of a server that is gone with the demo is of no use afterwards.
        let home = if server.is_some() { Home::new(folder.path("home")) } else { home };
        web::serve(&args, &show, &home, dialer, port).await
    }

    async fn show_all(self) -> anyhow::Result<()> {
        let folder = DemoFolder::new()?;
        let args = self.args();
        let show = args.show();
        let home = Home::new(folder.path("home"));
        let (dialer, _server) =
            find_or_start_gateway(&args, &show, &home, &folder, "Two agents talk").await?;
        let issuer = issuer_of(&dialer).await?;
        let dialer = dialer.of_issuer(&issuer);
        let start = Instant::now();
        let (alice, bobb) = register_and_connect(&show, &home, &dialer, &issuer).await?;
        let (messages, alice, bobb) = exchange(&show, alice, bobb).await?;
        let hired = hire::hire(&show, &dialer, alice, bobb).await?;
        let took = start.elapsed().as_secs_f64();
        let and = if hired { ", and a task that one did for the other" } else { "" };
        show.line("")?;
        show.line(&show.bold(&format!(
            "{messages} messages between two agents{and}, registration and all, in {took:.1} seconds."
        )))?;
        show.line("Try it yourself: start the server with aund, then in another terminal")?;
        for words in ["register alice", "register bobb", "send alice bobb hello", "listen bobb"] {
            show.line(&format!("  aund {words}"))?;
        }
        Ok(())
    }

    fn args(self) -> AgentArgs {
        let DemoCommand { gateway, root, issuer, home, plain, .. } = self;
        AgentArgs { gateway, root, issuer, home, plain, ..AgentArgs::default() }
    }
}

/// The gateway that runs already, or one that the demo starts.
async fn find_or_start_gateway(
    args: &AgentArgs,
    show: &Show,
    home: &Home,
    folder: &DemoFolder,
    who_talks: &str,
) -> anyhow::Result<(GatewayDialer, Option<DemoServer>)> {
    let gateway = args.gateway.clone().unwrap_or_else(GatewayUrl::local);
    let address = gateway.host_and_port();
    if gateway.answers().await {
        show.line(&format!("{who_talks} through the gateway at {address}."))?;
        let dialer = args.dialer(home, Some(gateway)).await?;
        let dialer = match &args.issuer {
            Some(issuer) => dialer.of_issuer(issuer),
            None => dialer,
        };
        return Ok((dialer, None));
    }
    show.line(&format!("{who_talks}. No gateway answers at {address}, so the demo starts a temporary one."))?;
    let server = DemoServer::start(folder).await?;
    let dialer = GatewayDialer::new(server.gateway.clone(), &TrustedRoot::read(&server.root)?)?;
    Ok((dialer, Some(server)))
}

/// Registers and connects both agents.
async fn register_and_connect(
    show: &Show,
    home: &Home,
    dialer: &GatewayDialer,
    issuer: &str,
) -> anyhow::Result<(DemoAgent, DemoAgent)> {
    let [a, b] = Ids::default().bytes::<2>();
    let aid = |name: &str| Aid::parse(&format!("{name}-{a:02x}{b:02x}.{issuer}"));
    let (alice, bobb) = (home.create(&aid("alice")?)?, home.create(&aid("bobb")?)?);
    show.line(&format!("  alice is {}\n  bobb is {}", alice.aid, bobb.aid))?;
    let printer = FramePrinter::new(*show, vec![(alice.aid.clone(), "alice"), (bobb.aid.clone(), "bobb")]);
    let left = dialer.clone().observed(printer.left());
    let right = dialer.clone().observed(printer.right());

    title(show, "Each creates a key, and the gateway certifies that the name belongs to it.")?;
    client::register(&left, &alice).await?;
    client::register(&right, &bobb).await?;

    title(
        show,
        "Each logs in by signing a nonce with that key, and opens a session with the token it gets.",
    )?;
    let device = home.device()?;
    Ok((
        DemoAgent::connect(alice, left, device.clone(), printer.clone()).await?,
        DemoAgent::connect(bobb, right, device, printer).await?,
    ))
}

/// The exchange; gives the number of messages in it, and the agents again.
async fn exchange(
    show: &Show,
    mut alice: DemoAgent,
    mut bobb: DemoAgent,
) -> anyhow::Result<(u32, DemoAgent, DemoAgent)> {
    let (to_alice, to_bobb) = (alice.agent.aid.clone(), bobb.agent.aid.clone());
    title(
        show,
        "Alice asks whether Bobb is online, and says hello. The gateway stores the message, then publishes the event.",
    )?;
    let online = alice.call("message.query_online", &json!({ "aids": [to_bobb] })).await?;
    anyhow::ensure!(online["online"][to_bobb.as_str()] == true, "Bobb is connected and yet not online");
    let (_, received) =
        tokio::try_join!(alice.send(&to_bobb, "Hello Bobb!"), bobb.wait_for("message.received"))?;

    title(show, "Bobb acknowledges it, and Alice learns that it was read.")?;
    let ack = json!({ "seq": received.params["seq"] });
    tokio::try_join!(bobb.call("message.ack", &ack), alice.wait_for("message.ack"))?;

    title(show, "Bobb answers.")?;
    tokio::try_join!(bobb.send(&to_alice, "Hello Alice."), alice.wait_for("message.received"))?;

    title(show, "Alice sends a message by mistake, and recalls it.")?;
    let regret = alice.send(&to_bobb, "My password is swordfish");
    let (regret, _) = tokio::try_join!(regret, bobb.wait_for("message.received"))?;
    let ids = json!({ "message_ids": [regret["message_id"]] });
    tokio::try_join!(alice.call("message.recall", &ids), bobb.wait_for("message.recalled"))?;

    title(show, "Bobb disconnects. Messages wait for him, and he pulls them when he is back.")?;
    bobb.client.close().await;
    let waiting = alice.send(&to_bobb, "For when you are back").await?;
    let bobb = bobb.connect_again().await?;
    let before = waiting["seq"].as_u64().unwrap_or(1) - 1;
    let page = bobb.call("message.pull", &json!({ "after_seq": before })).await?;
    let found = page["messages"]
        .as_array()
        .is_some_and(|rows| rows.iter().any(|row| row["message_id"] == waiting["message_id"]));
    anyhow::ensure!(found, "the message that was sent meanwhile is not in the inbox");
    Ok((4, alice, bobb))
}

fn title(show: &Show, text: &str) -> anyhow::Result<()> {
    show.line("")?;
    Ok(show.line(&show.bold(text))?)
}
