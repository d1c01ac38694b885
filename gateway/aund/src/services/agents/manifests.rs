//! `aund agent manifest`: files with capability manifests, before an agent declares them.

mod check;
mod diff;

use anyhow::Context as _;
use clap::{Args, Subcommand};
pub(crate) use diff::BreakingChange;
use manifest::{Manifest, ManifestRefusal};
use std::fs;
use std::path::Path;

#[derive(Args)]
pub(super) struct ManifestCommand {
    #[command(subcommand)]
    command: ManifestSubcommand,
}

#[derive(Subcommand)]
enum ManifestSubcommand {
    /// Say what is wrong with a manifest, or show what a person would be asked to grant
    Check(check::CheckManifestCommand),
    /// Say what changed, and whether whoever granted scopes has to be asked again; ends with 3 if so
    Diff(diff::DiffManifestsCommand),
}

impl ManifestCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        match self.command {
            ManifestSubcommand::Check(command) => command.run(),
            ManifestSubcommand::Diff(command) => command.run(),
        }
    }
}

fn read(file: &Path) -> anyhow::Result<Result<Manifest, ManifestRefusal>> {
    let text = fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
    Ok(Manifest::parse(&text))
}
