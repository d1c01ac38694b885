//! `aund tool`: what the device of a person does when an agent asks for a tool.

mod decide;
mod pages;
mod terminal;

use clap::{Args, Subcommand};

#[derive(Args)]
pub(crate) struct ToolCommand {
    #[command(subcommand)]
    command: ToolSubcommand,
}

#[derive(Subcommand)]
enum ToolSubcommand {
    /// Read a decrypted tool call from standard input, ask on the terminal if required, and print the answer's payload
    Decide(Box<decide::DecideCommand>),
}

impl ToolCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        match self.command {
            ToolSubcommand::Decide(command) => command.run(),
        }
    }
}
