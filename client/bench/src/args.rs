//! What `aund bench` is asked to do: its arguments, and the plan that they make.

use std::path::PathBuf;
use std::time::Duration;

/// The arguments of `aund bench`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Print the figures as JSON instead of a table
    #[arg(long)]
    pub(super) json: bool,
    /// The length of a round
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Rounds per side
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Concurrent connections under load
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Connections held open for the memory figures
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    idle_connections: u32,
    /// Run only this measurement; repeatable
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
    /// Measure tasks instead of the gateway, next to durable messages on the same server
    #[arg(long, conflicts_with_all = ["message", "search", "federation", "shape"])]
    task: bool,
    /// Measure runs instead of the gateway: appends, claims, results and event streams over HTTP
    #[arg(long, conflicts_with_all = ["message", "search", "federation", "shape", "task", "before"])]
    run: bool,
    /// Measure the runners that the server starts instead of the gateway: starts, turns, idle and deltas
    #[arg(long, conflicts_with_all = ["message", "search", "federation", "shape", "task", "run", "before"])]
    runner: bool,
    /// Events of the run whose result is read, next to one with a tenth of them
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    events: u32,
    /// Event streams that are open at once, ten of each run
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(10..))]
    watchers: u32,
    /// Ended tasks of one agent that are listed
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    tasks: u32,
    /// Measure two domains instead of one
    #[arg(long)]
    federation: bool,
    /// Agents that messages are sent to in the rounds with 256 in flight
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    recipients: u32,
    /// Messages in the inbox of an agent that catches up
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    waiting: u32,
    /// Also measure messages or tasks on this PostgreSQL, in separate schemas
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
    /// Compare with this older aund, in alternating rounds, instead of with the baselines
    ///
    /// Both builds get the same load, each on its own server. A ratio above 1.0 means that this build is better; times and
    /// memory are inverted. The last line lists the figures below 0.95. Messages, tasks and logins are measured on SQLite, and with --postgres on PostgreSQL, too.
    #[arg(long, value_name = "BINARY")]
    before: Option<PathBuf>,
    /// Measure one process, or a split server
    #[arg(long, value_enum, default_value_t = ServerShape::Whole)]
    shape: ServerShape,
    /// The Redis between the processes of a split server
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// The JetStream server to compare with
    #[arg(long, value_name = "FILE", default_value = "nats-server")]
    nats_server: PathBuf,
    /// A short run: 2 rounds of 1 second, 500 idle connections, 500 recipients, 5,000 messages in the inbox, 5,000 agents,
    /// 5,000 tasks, 5,000 events, 100 event streams, 20 idle runners for 2 seconds
    #[arg(long)]
    quick: bool,
}

/// The arguments of the raw baseline: few, so that it is the same in every comparison.
#[derive(clap::Args, Clone, Debug)]
pub struct RawArgs {
    /// Relay frames between sockets instead of answering them
    #[arg(long)]
    pub(super) relay: bool,
    /// Forward every frame to the baseline at this address, with a connection for each client
    #[arg(long, value_name = "URL", conflicts_with = "relay")]
    pub(super) through: Option<String>,
    /// Answer HTTP requests in place of frames, from the rows of this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["relay", "through"])]
    pub(super) http: Option<PathBuf>,
    /// Answer appends of events over HTTP, and commit them to this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["relay", "through", "http"])]
    pub(super) events: Option<PathBuf>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerShape {
    Whole,
    Split,
}

/// What is measured: four about the gateway, then those of `--message`, of `--task`, of `--run`, and of `--runner`.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// `meta.ping` through authenticated sessions
    Ping,
    /// A registered agent and `meta.ping` over HTTP, on connections that stay open
    Http,
    /// Memory of idle authenticated connections; with `--runner`, the same as `idle-runners`
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
    /// Durable calls that change tasks, beside durable `message.send`
    Transitions,
    /// `task.list` over many ended tasks
    TaskList,
    /// Events that are appended to 64 runs at once, beside a bare handler and beside durable `message.send`
    Appends,
    /// Claims of 100 runners that race for one run
    Claims,
    /// The results of long runs
    Results,
    /// From an append to the event streams of those who watch
    Watchers,
    /// From the request for a runner to the first event of its run, and to the end of its turn
    Starts,
    /// Turns of a runner that waits already
    Turns,
    /// Memory and CPU time of idle runners, and of a server with 200 of them
    IdleRunners,
    /// From the text of a back end to the event stream of one who watches
    Deltas,
}

/// What all measurements are about that are made if none is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BenchSubject {
    Gateway,
    Messages,
    Tasks,
    Runs,
    Runners,
}

/// The arguments, with `--quick` already applied.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) span: Duration,
    pub(super) rounds: usize,
    pub(super) connections: usize,
    pub(super) idle_connections: usize,
    pub(super) only: Vec<What>,
    pub(super) subject: BenchSubject,
    pub(super) search: bool,
    pub(super) agents: usize,
    pub(super) tasks: usize,
    pub(super) events: usize,
    pub(super) watchers: usize,
    pub(super) idle_runners: usize,
    /// How long idle runners are watched.
    pub(super) idle_span: Duration,
    pub(super) federation: bool,
    pub(super) recipients: usize,
    pub(super) waiting: usize,
    pub(super) postgres: Option<String>,
    pub(super) shape: ServerShape,
    pub(super) redis: Option<String>,
    pub(super) nats_server: PathBuf,
    pub(super) before: Option<PathBuf>,
}

impl Plan {
    pub(super) fn of(args: &Args) -> Self {
        let quick = |quick: u32, full: u32| if args.quick { quick } else { full };
        let subject = BenchSubject::of(args);
        Self {
            span: Duration::from_secs(if args.quick { 1 } else { args.seconds }),
            rounds: quick(2, args.rounds) as usize,
            connections: args.connections as usize,
            idle_connections: quick(500, args.idle_connections) as usize,
            only: args.only.iter().map(|what| what.of(subject)).collect(),
            subject,
            search: args.search,
            agents: quick(5_000, args.agents) as usize,
            tasks: quick(5_000, args.tasks) as usize,
            events: quick(5_000, args.events) as usize,
            watchers: quick(100, args.watchers) as usize,
            idle_runners: quick(20, 200) as usize,
            idle_span: Duration::from_secs(u64::from(quick(2, 20))),
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

    /// The most connections that are open at once.
    pub(super) fn open_connections(&self) -> usize {
        self.idle_connections.max(self.watchers)
    }

    /// How the rounds are run, for the report.
    pub(super) fn rounds_text(&self) -> String {
        match self.subject {
            BenchSubject::Runners => self.rounds.to_string(),
            _ => format!("{} of {:?} on each side, alternating", self.rounds, self.span),
        }
    }

    pub(super) fn wants(&self, what: What) -> bool {
        if self.only.is_empty() { what.subject() == self.subject } else { self.only.contains(&what) }
    }
}

impl What {
    /// What is meant by a name that two subjects have.
    fn of(self, subject: BenchSubject) -> Self {
        match (self, subject) {
            (What::Idle, BenchSubject::Runners) => What::IdleRunners,
            (what, _) => what,
        }
    }

    fn subject(self) -> BenchSubject {
        match self {
            What::Ping | What::Http | What::Idle | What::Connect => BenchSubject::Gateway,
            What::Send | What::Depth | What::Postgres | What::Delivery | What::Pull => BenchSubject::Messages,
            What::Transitions | What::TaskList => BenchSubject::Tasks,
            What::Appends | What::Claims | What::Results | What::Watchers => BenchSubject::Runs,
            What::Starts | What::Turns | What::IdleRunners | What::Deltas => BenchSubject::Runners,
        }
    }
}

impl BenchSubject {
    fn of(args: &Args) -> Self {
        match (args.message, args.task, args.run, args.runner) {
            (true, _, _, _) => BenchSubject::Messages,
            (false, true, _, _) => BenchSubject::Tasks,
            (false, false, true, _) => BenchSubject::Runs,
            (false, false, false, true) => BenchSubject::Runners,
            (false, false, false, false) => BenchSubject::Gateway,
        }
    }
}
