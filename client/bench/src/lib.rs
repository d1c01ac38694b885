//! `aund bench`: what the gateway costs, against the least a server of this kind can cost.
//!
//! The bench starts two child processes of this same binary: the real server, and a raw baseline (`raw.rs`).
//! It gives both the same load in alternating rounds. `--message` does the same for messages (`message/`), against
//! bare loops over the store, `--search` for the directory (`search/`), against the full-text search of SQLite, `--task` for
//! tasks (`task/`), against messages, and `--run` for runs (`run/`), against a bare handler and messages. `--runner` measures the runners
//! that the server starts (`run/runner/`), and compares them with nothing. The load generator shares the machine with them, so figures
//! are also given per second of the server's own CPU time, which the generator hardly disturbs.
//! `--before` compares the same measures with those of an older build instead (`before/`).
//! Nothing is asserted: the goals stand beside the figures. Reads `/proc`, so it runs on Linux.

mod agent;
mod args;
mod before;
mod gateway;
mod load;
mod message;
mod process;
mod random;
mod raw;
mod report;
mod rounds;
mod run;
mod schemas;
mod search;
mod split;
mod split_setup;
mod task;
mod tls;

use anyhow::{Context as _, bail};

use agent::Transport;
pub use args::{Args, RawArgs};
use args::{Plan, ServerShape, What};
use report::Report;
pub use search::{BenchDocument, BenchHit, BenchIndex, BenchIndexMaker, BenchRow, PendingPublish};
use tokio::signal::unix::{SignalKind, signal};

/// Runs the bench and prints its report. Builds its own runtime, so it is called outside of one. The maker gives the index that
/// `--search` measures.
pub fn run(args: Args, maker: &dyn BenchIndexMaker) -> anyhow::Result<()> {
    let plan = Plan::of(&args);
    process::raise_file_limit(plan.open_connections())?;
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
        .block_on(async {
            match &args.events {
                Some(file) => run::serve_bare(file).await,
                None => raw::serve(args).await,
            }
        })
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
        for (transport, depth) in gateway::ping::LOADS {
            report.add(gateway::ping::measure(plan, transport, depth).await?);
        }
    }
    if plan.wants(What::Http) {
        for what in gateway::http::LOADS {
            report.add(gateway::http::measure(plan, what).await?);
        }
    }
    if plan.wants(What::Idle) {
        report.add(gateway::idle::measure(plan, Transport::Plain).await?);
        report.add(gateway::idle::measure(plan, Transport::Tls).await?);
    }
    if plan.wants(What::Connect) {
        report.add(gateway::connect::token(plan).await?);
        report.add(gateway::connect::login(plan).await?);
    }
    message::measure(plan, &mut report).await?;
    task::measure(plan, &mut report).await?;
    run::measure(plan, &mut report).await?;
    Ok(report)
}
