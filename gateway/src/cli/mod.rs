//! The command line: what an operator types, and what it answers.

mod agent;
mod certs;
mod demo;
mod doctor;
mod health;
mod listen;
mod mesh;
mod peers;
mod place;
mod show;
mod top;
mod trust;

use crate::config::{Config, Listen};
use crate::federation::resolve;
use crate::{bench, run};
use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Configuration that cannot be used, as `sysexits.h` numbers it.
const BAD_CONFIG: u8 = 64;

/// The open, self-hosted server of the Agent Union Network.
#[derive(Parser)]
#[command(name = "aund", version, max_term_width = 110)]
pub struct Cli {
    #[command(flatten)]
    settings: Settings,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server (the default)
    Serve(Settings),
    /// Print the configuration that would be used, and whether it is sound
    Check(Settings),
    /// Print every method a client can call, as an OpenRPC document
    Schema,
    /// Look at, revoke and export certificates
    Certs(Box<certs::Certs>),
    /// Check names, ports, clock, files, store and certificates, and say what to do
    Doctor(Settings),
    /// Ask the server on a data folder how it is: one line, and an exit code for whoever watches over it
    Health(health::Health),
    /// Watch a server work: calls, connections, links, events
    Top(top::Top),
    /// Show the other domains this one deals with, or test the way to one
    Peers(peers::Peers),
    /// Watch two agents talk, frame by frame
    Demo(demo::Demo),
    /// Make an agent: a key that stays here, a certificate from the server
    Register(agent::Register),
    /// Send a message from an agent of yours
    Send(agent::Send),
    /// Show what an agent receives, as it comes
    Listen(listen::Listen),
    /// Show what waits for an agent
    Pull(agent::Pull),
    /// Call any method as an agent
    Call(agent::Call),
    /// Measure this server beside a raw baseline, in one run
    Bench(bench::Args),
    #[command(hide = true)]
    BenchRaw(bench::RawArgs),
}

#[derive(Args, Clone, Default)]
struct Settings {
    /// Read settings from this file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The domain whose agents live here [default: agents.localhost]
    #[arg(long, value_name = "DOMAIN")]
    issuer: Option<String>,
    /// Listen here; plain:ADDR speaks without TLS; may be given more than once [default: 127.0.0.1:20001]
    #[arg(long, value_name = "ADDR")]
    listen: Vec<Listen>,
    /// Keep keys and data here [default: ./data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// sqlite:FOLDER or postgres://… [default: SQLite in the data folder]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Where events travel [default: local:]
    #[arg(long, value_name = "URL")]
    bus: Option<String>,
    /// Run only this part; may be given more than once [default: everything]
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Reach every name under another domain at this address; may be given more than once
    #[arg(long, value_name = "DOMAIN=HOST:PORT")]
    resolve: Vec<resolve::Entry>,
}

impl Settings {
    /// The file, then what the command line says over it.
    fn config(&self) -> anyhow::Result<Config> {
        let mut config = Config::load(self.config.as_deref())?;
        let Settings { issuer, listen, data, store, bus, only, resolve, .. } = self.clone();
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
            Command::Check(settings) => with_config(&settings, |config| {
                print!("{}", config.shown()?);
                Ok(())
            }),
            Command::Schema => schema(),
            Command::Certs(command) => on_runtime(command.run()),
            Command::Doctor(settings) => with_config(&settings, |config| on_runtime(doctor::run(config))),
            Command::Health(command) => on_runtime(command.run()),
            Command::Top(command) => on_runtime(command.run()),
            Command::Peers(command) => on_runtime(command.run()),
            Command::Demo(command) => on_runtime(command.run()),
            Command::Register(command) => on_runtime(command.run()),
            Command::Send(command) => on_runtime(command.run()),
            Command::Listen(command) => on_runtime(command.run()),
            Command::Pull(command) => on_runtime(command.run()),
            Command::Call(command) => on_runtime(command.run()),
            Command::Bench(args) => bench::run(args),
            Command::BenchRaw(args) => bench::raw(args),
        };
        match outcome {
            Ok(()) => ExitCode::SUCCESS,
            // Whoever reads us may stop reading, as `head` does.
            Err(error) if show::nobody_reads(&error) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("aund: {error:#}");
                ExitCode::from(if error.is::<BadConfig>() { BAD_CONFIG } else { 1 })
            }
        }
    }
}

/// Marks an error as the configuration's fault.
#[derive(Debug, thiserror::Error)]
#[error("the configuration cannot be used")]
struct BadConfig;

fn with_config(settings: &Settings, then: impl FnOnce(Config) -> anyhow::Result<()>) -> anyhow::Result<()> {
    match settings.config() {
        Ok(config) => then(config),
        Err(error) => Err(anyhow::anyhow!("{error:#}")).context(BadConfig),
    }
}

fn on_runtime(future: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(future)
}

fn schema() -> anyhow::Result<()> {
    let document = proto_schemas::openrpc(env!("CARGO_PKG_VERSION"), |method| method.access.is_for_agents());
    println!("{}", serde_json::to_string_pretty(&document)?);
    Ok(())
}
