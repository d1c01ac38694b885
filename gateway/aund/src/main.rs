//! `aund`: arguments, then the command, then an exit code.

// Whatever is printed goes through `output`, which makes it safe for a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod agent_args;
mod cli;
#[cfg(test)]
mod generated;
#[cfg(test)]
mod methods;
mod output;
mod services;
mod show;

use clap::Parser as _;
use cli::Cli;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    Cli::parse().run()
}
