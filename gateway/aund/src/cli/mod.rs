//! The command line: what an operator types, and what it answers.

mod bench_index;
mod call;
mod demo;
mod example_backend;
mod operator;
mod register;
mod runner;

use crate::output;
use crate::services;
use crate::show;
use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use gateway::config::{Config, ListenAddress, ResolveEntry};
use gateway::run;
use std::path::PathBuf;
use std::process::ExitCode;

/// Configuration that cannot be used, as `sysexits.h` numbers it.
const BAD_CONFIG: u8 = 64;

/// `aund agent manifest diff` found a breaking change. 1 is for whatever went wrong, 2 for words that are no command.
const BREAKING: u8 = 3;

/// `aund runs result`: the command has not completed. As above: 1 and 2 mean that nobody knows.
const NOT_COMPLETED: u8 = 3;

/// The open, self-hosted server of the Agent Union Network.
#[derive(Parser)]
#[command(name = "aund", version, max_term_width = 110)]
pub struct Cli {
    #[command(flatten)]
    settings: ConfigArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server (the default)
    Serve(ConfigArgs),
    /// Print the effective configuration, or say what is wrong with it
    Check(ConfigArgs),
    /// Print the methods that clients can call, as an OpenRPC document
    Schema {
        /// Print the HTTP routes instead, as an OpenAPI document
        #[arg(long)]
        openapi: bool,
    },
    /// Print the services of a server, one per line, in dependency order
    Services,
    /// Show, revoke and export certificates
    Certs(Box<operator::certs::CertsCommand>),
    /// Check names, ports, clock, files, store and certificates, and say how to fix what is wrong
    Doctor(ConfigArgs),
    /// Print the health of the server on a data folder as one line, with an exit code for supervisors
    Health(operator::health::HealthCommand),
    /// Show the calls, connections, links and events of a running server
    Top(operator::top::TopCommand),
    /// Show how much storage agents use, or change the limit of one
    Accounts(operator::accounts::AccountsCommand),
    /// Show the peers of this domain, or test the connection to one
    Peers(operator::peers::PeersCommand),
    /// Show two agents exchange messages, and one hire the other, frame by frame
    Demo(demo::DemoCommand),
    /// Create an agent: a key that stays on this machine, and a certificate from the server
    Register(register::RegisterCommand),
    #[command(flatten)]
    Service(services::ServiceCommand),
    /// Call any method as one of your agents
    Call(call::CallCommand),
    /// Work on a run: take its lease, pass its commands to a back end, and report what happens
    Runner(Box<runner::RunnerCommand>),
    /// Be the back end of the profile example: lines of JSON on standard input and output
    #[command(hide = true)]
    ExampleBackend,
    /// Compare this server with a raw baseline
    Bench(bench::Args),
    #[command(hide = true)]
    BenchRaw(bench::RawArgs),
}

#[derive(Args, Clone, Default)]
struct ConfigArgs {
    /// Read settings from this file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The domain of this server's agents [default: agents.localhost]
    #[arg(long, value_name = "DOMAIN")]
    issuer: Option<String>,
    /// Listen on this address; plain:ADDR listens without TLS; repeatable [default: 127.0.0.1:20001]
    #[arg(long, value_name = "ADDR")]
    listen: Vec<ListenAddress>,
    /// The folder for keys and data [default: ./data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// sqlite:FOLDER or postgres://… [default: SQLite in the data folder]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// How processes exchange events: redis://… or local: for a single process [default: local:]
    #[arg(long, value_name = "URL")]
    bus: Option<String>,
    /// Run only this service, or gateway; repeatable [default: all]
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Connect to this address for every name under another domain; repeatable
    #[arg(long, value_name = "DOMAIN=HOST:PORT")]
    resolve: Vec<ResolveEntry>,
}

impl ConfigArgs {
    /// The same flags may stand before or after a subcommand; those after it count.
    fn or(self, outer: ConfigArgs) -> ConfigArgs {
        ConfigArgs {
            config: self.config.or(outer.config),
            issuer: self.issuer.or(outer.issuer),
            listen: if self.listen.is_empty() { outer.listen } else { self.listen },
            data: self.data.or(outer.data),
            store: self.store.or(outer.store),
            bus: self.bus.or(outer.bus),
            only: if self.only.is_empty() { outer.only } else { self.only },
            resolve: if self.resolve.is_empty() { outer.resolve } else { self.resolve },
        }
    }

    /// The settings of the file, overridden by those of the command line.
    fn config(&self) -> anyhow::Result<Config> {
        let mut config = Config::load(self.config.as_deref(), &services::rows())?;
        let ConfigArgs { issuer, listen, data, store, bus, only, resolve, .. } = self.clone();
        config.issuer = issuer.unwrap_or(config.issuer);
        config.data = data.unwrap_or(config.data);
        config.store.url = store.unwrap_or(config.store.url);
        config.bus.url = bus.unwrap_or(config.bus.url);
        if !listen.is_empty() {
            config.listen = listen;
        }
        if !only.is_empty() {
            config.only = only;
        }
        config.federation.resolve.extend(resolve.into_iter().map(|entry| (entry.domain, entry.address)));
        config.check()?;
        Ok(config)
    }
}

impl Cli {
    pub fn run(self) -> ExitCode {
        let outcome = match self.command.unwrap_or(Command::Serve(self.settings)) {
            Command::Serve(settings) => with_config(&settings, |config| on_runtime(run::serve(config))),
            Command::Check(settings) => {
                with_config(&settings, |config| Ok(output::print(&config.shown()?.to_string())?))
            }
            Command::Schema { openapi } => schema(openapi),
            Command::Services => print_services(),
            Command::Certs(command) => on_runtime(command.run()),
            Command::Doctor(settings) => {
                with_config(&settings, |config| on_runtime(operator::doctor::run(config)))
            }
            Command::Health(command) => on_runtime(command.run()),
            Command::Top(command) => on_runtime(command.run()),
            Command::Accounts(command) => on_runtime(command.run()),
            Command::Peers(command) => on_runtime(command.run()),
            Command::Demo(command) => on_runtime(command.run()),
            Command::Register(command) => on_runtime(command.run()),
            Command::Service(command) => on_runtime(command.run()),
            Command::Call(command) => on_runtime(command.run()),
            Command::Runner(command) => on_runtime(command.run()),
            Command::ExampleBackend => on_runtime(example_backend::run()),
            Command::Bench(args) => bench::run(args, &bench_index::ServerIndexMaker),
            Command::BenchRaw(args) => bench::raw(args),
        };
        match outcome {
            Ok(()) => ExitCode::SUCCESS,
            // The reader of our output may end early, as `head` does.
            Err(error) if show::is_broken_pipe(&error) => ExitCode::SUCCESS,
            Err(error) => {
                output::note(&format!("aund: {error:#}"));
                ExitCode::from(exit_code(&error))
            }
        }
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    if error.is::<BadConfig>() {
        BAD_CONFIG
    } else if error.is::<services::BreakingChange>() {
        BREAKING
    } else if error.is::<services::NotCompleted>() {
        NOT_COMPLETED
    } else {
        1
    }
}

/// Marks an error as the configuration's fault.
#[derive(Debug, thiserror::Error)]
#[error("the configuration cannot be used")]
struct BadConfig;

fn with_config(settings: &ConfigArgs, then: impl FnOnce(Config) -> anyhow::Result<()>) -> anyhow::Result<()> {
    match settings.config() {
        Ok(config) => then(config),
        Err(error) => Err(anyhow::anyhow!("{error:#}")).context(BadConfig),
    }
}

fn on_runtime(future: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(future)
}

fn print_services() -> anyhow::Result<()> {
    Ok(services::names().try_for_each(output::line)?)
}

fn schema(openapi: bool) -> anyhow::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let document = match openapi {
        true => proto_schemas::openapi(version, |_| true),
        false => proto_schemas::openrpc(version, |method| method.access.is_for_agents()),
    };
    Ok(output::line(&serde_json::to_string_pretty(&document)?)?)
}
