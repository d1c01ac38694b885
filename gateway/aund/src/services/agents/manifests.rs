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
    /// Validate a manifest, and show what users would be asked to grant
    Check(check::CheckManifestCommand),
    /// Show what changed; exits with code 3 if users must consent again
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
