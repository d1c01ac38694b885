//! `aund bench`: what the gateway costs, against the least a server of this kind can cost.
//!
//! The bench starts two child processes of this same binary: the real server, and a raw baseline (`raw.rs`).
//! It gives both the same load in alternating rounds. `--message` does the same for messages (`message/`), against
//! bare loops over the store, and `--search` for the directory (`search/`), against the full-text search of SQLite. The load generator shares the machine with them, so
//! figures are also given per second of the server's own CPU time, which the generator hardly disturbs.
//! `--before` compares the same measures with those of an older build instead (`before/`).
//! Nothing is asserted: the goals stand beside the figures. Reads `/proc`, so it runs on Linux.

mod agent;
mod before;
mod connect;
mod idle;
mod load;
mod message;
mod ping;
mod process;
mod random;
mod raw;
mod relay;
mod report;
mod rounds;
mod schemas;
mod search;
mod split;
mod split_setup;
mod tls;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};

use agent::Transport;
use report::Report;
pub use search::{BenchDocument, BenchHit, BenchIndex, BenchIndexMaker, BenchRow, PendingPublish};
use tokio::signal::unix::{SignalKind, signal};

/// The arguments of `aund bench`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Print the figures as JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Length of a round
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Rounds for each side
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Connections that load a server at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Connections held open for the memory figures
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    idle_connections: u32,
    /// Measure only this; may be given more than once
    #[arg(long, value_name = "WHAT", value_enum)]
    only: Vec<What>,
    /// Measure messages instead of the gateway
    #[arg(long)]
    message: bool,
    /// Measure the search for agents instead of the gateway
    #[arg(long, conflicts_with_all = ["message", "federation", "before"])]
    search: bool,
    /// Agents whose documents are searched
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    agents: u32,
    /// Measure two domains instead of one
    #[arg(long)]
    federation: bool,
    /// Agents that messages are sent to in the rounds with 256 in flight
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    recipients: u32,
    /// Messages in the inbox of an agent that catches up
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    waiting: u32,
    /// Measure messages on this PostgreSQL, too, in schemas of the bench's own
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
    /// Compare with this older aund, in alternating rounds, instead of with the baselines
    ///
    /// Both builds get the same load on servers of their own. The ratio of a figure is this build's over the older one's,
    /// and the other way round for times and memory, so that 1.0 is equal and more is better. The last line names what did
    /// not reach 0.95. Messages and logins are measured on SQLite, and with --postgres on PostgreSQL, too.
    #[arg(long, value_name = "BINARY")]
    before: Option<PathBuf>,
    /// Measure a server of one process, or of several
    #[arg(long, value_enum, default_value_t = ServerShape::Whole)]
    shape: ServerShape,
    /// The Redis between the processes of a split server
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// The JetStream server to compare with
    #[arg(long, value_name = "FILE", default_value = "nats-server")]
    nats_server: PathBuf,
    /// A short run: 2 rounds of 1 second, 500 idle connections, 500 recipients, 5,000 messages in the inbox, 5,000 agents
    #[arg(long)]
    quick: bool,
}

/// The arguments of the raw baseline: few, so that it is the same in every comparison.
#[derive(clap::Args, Clone, Debug)]
pub struct RawArgs {
    /// Relay frames between sockets instead of answering them
    #[arg(long)]
    relay: bool,
    /// Forward every frame to the baseline at this address, with a connection for each client
    #[arg(long, value_name = "URL", conflicts_with = "relay")]
    through: Option<String>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum ServerShape {
    Whole,
    Split,
}

/// The subjects of the bench: three about the gateway, then those of `--message`.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// `meta.ping` through authenticated sessions
    Ping,
    /// Memory of idle authenticated connections
    Idle,
    /// Connects with a token, and full logins
    Connect,
    /// Durable `message.send` to agents that are online, 64 in flight
    Send,
    /// Durable `message.send` to many agents, 256 in flight
    Depth,
    /// The same on PostgreSQL
    Postgres,
    /// From one agent's send to the other's event, at a fixed rate
    Delivery,
    /// `message.pull`, and catching up with a full inbox
    Pull,
}

/// The arguments, with `--quick` already applied.
#[derive(Clone, Debug)]
struct Plan {
    span: Duration,
    rounds: usize,
    connections: usize,
    idle_connections: usize,
    only: Vec<What>,
    message: bool,
    search: bool,
    agents: usize,
    federation: bool,
    recipients: usize,
    waiting: usize,
    postgres: Option<String>,
    shape: ServerShape,
    redis: Option<String>,
    nats_server: PathBuf,
    before: Option<PathBuf>,
}

/// Runs the bench and prints its report. Builds its own runtime, so it is called outside of one. The maker gives the index that
/// `--search` measures.
pub fn run(args: Args, maker: &dyn BenchIndexMaker) -> anyhow::Result<()> {
    let plan = Plan::of(&args);
    process::raise_file_limit(plan.idle_connections)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the runtime of the load generator did not start")?;

    let print = async {
        match &plan.before {
            Some(file) => before::measure(&plan, file).await?.print(args.json),
            None => measure(&plan, maker).await?.print(args.json),
        }
    };
    runtime.block_on(async {
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            printed = print => printed,
            // Leaving this way, and not by the signal, stops the servers and removes their folders.
            _ = terminate.recv() => bail!("interrupted"),
            _ = interrupt.recv() => bail!("interrupted"),
        }
    })
}

/// Runs the raw baseline until its standard input ends, which happens when the bench that started it is gone.
pub fn raw(args: RawArgs) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the runtime of the raw baseline did not start")?
        .block_on(raw::serve(args))
}

async fn measure(plan: &Plan, maker: &dyn BenchIndexMaker) -> anyhow::Result<Report> {
    let mut report = Report::new(plan);
    if plan.search {
        search::measure(plan, maker, &mut report).await?;
        return Ok(report);
    }
    if plan.shape == ServerShape::Split {
        split::measure(plan, &mut report).await?;
        return Ok(report);
    }
    if plan.federation {
        message::federation::measure(plan, &mut report).await?;
        return Ok(report);
    }
    if plan.wants(What::Ping) {
        for (transport, depth) in ping::LOADS {
            report.add(ping::measure(plan, transport, depth).await?);
        }
    }
    if plan.wants(What::Idle) {
        report.add(idle::measure(plan, Transport::Plain).await?);
        report.add(idle::measure(plan, Transport::Tls).await?);
    }
    if plan.wants(What::Connect) {
        report.add(connect::token(plan).await?);
        report.add(connect::login(plan).await?);
    }
    message::measure(plan, &mut report).await?;
    Ok(report)
}

impl Plan {
    fn of(args: &Args) -> Self {
        let quick = |quick: u32, full: u32| if args.quick { quick } else { full };
        Self {
            span: Duration::from_secs(if args.quick { 1 } else { args.seconds }),
            rounds: quick(2, args.rounds) as usize,
            connections: args.connections as usize,
            idle_connections: quick(500, args.idle_connections) as usize,
            only: args.only.clone(),
            message: args.message,
            search: args.search,
            agents: quick(5_000, args.agents) as usize,
            federation: args.federation,
            recipients: quick(500, args.recipients) as usize,
            waiting: quick(5_000, args.waiting) as usize,
            postgres: args.postgres.clone(),
            shape: args.shape,
            redis: args.redis.clone(),
            nats_server: args.nats_server.clone(),
            before: args.before.clone(),
        }
    }

    fn wants(&self, what: What) -> bool {
        if self.only.is_empty() {
            what.is_about_messages() == self.message
        } else {
            self.only.contains(&what)
        }
    }
}

impl What {
    fn is_about_messages(self) -> bool {
        match self {
            What::Ping | What::Idle | What::Connect => false,
            What::Send | What::Depth | What::Postgres | What::Delivery | What::Pull => true,
        }
    }
}
