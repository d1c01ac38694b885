//! `aund certs`: show, revoke and export certificates, and those of the mesh and of other operators.

mod mesh;
mod revoke;
mod trust;

use super::ask::ask;
use crate::cli::ConfigArgs;
use crate::output;
use crate::show::printable_line;
use anyhow::Context as _;
use certs::Certificate;
use clap::{Args, Subcommand};
use kernel::Aid;
use proto_schemas::requests::{auth, ca};
use std::fs;
use std::path::PathBuf;
use time::OffsetDateTime;

#[derive(Args)]
pub(in crate::cli) struct CertsCommand {
    #[command(subcommand)]
    command: CertsSubcommand,
    #[command(flatten)]
    settings: ConfigArgs,
}

#[derive(Subcommand)]
enum CertsSubcommand {
    /// Print the certificates of this domain, or those of one agent
    Show {
        /// An AID, or the serial of a certificate
        #[arg(value_name = "AID|SERIAL")]
        which: Option<String>,
        #[command(flatten)]
        settings: ConfigArgs,
    },
    /// Revoke all certificates of an agent, or one by its serial; ends the agent's connections and tokens. With --as, an agent revokes
    /// itself
    Revoke(Box<revoke::RevokeCommand>),
    /// Revoke all tokens of an agent and close its connections; it can log in again with its key
    RevokeTokens {
        aid: String,
        #[command(flatten)]
        settings: ConfigArgs,
    },
    /// Add, list and remove the trusted roots of other operators
    Trust(Box<trust::TrustCommand>),
    /// Create or renew the certificates of the processes of a split server
    Mesh(mesh::MeshCommand),
    /// Print the root certificate, or write it to a file
    ExportRoot {
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        settings: ConfigArgs,
    },
}

impl CertsCommand {
    pub(in crate::cli) async fn run(self) -> anyhow::Result<()> {
        let outer = self.settings;
        match self.command {
            CertsSubcommand::Show { which, settings } => show(&settings.or(outer), which.as_deref()).await,
            CertsSubcommand::Revoke(command) => command.run(outer).await,
            CertsSubcommand::RevokeTokens { aid, settings } => revoke_tokens(&settings.or(outer), &aid).await,
            CertsSubcommand::Trust(command) => command.run(outer).await,
            CertsSubcommand::Mesh(command) => command.run(),
            CertsSubcommand::ExportRoot { file, settings } => export_root(&settings.or(outer), file),
        }
    }
}

async fn show(settings: &ConfigArgs, which: Option<&str>) -> anyhow::Result<()> {
    let Some(which) = which else {
        let chain = ask(settings, &ca::GetCertChain {}).await?;
        for pem in chain.certs.iter().rev() {
            describe(pem, "authority")?;
        }
        let status = ask(settings, &ca::Status {}).await?;
        for (state, count) in status.certificates {
            output::line(&format!("{count:>8} {state}"))?;
        }
        return Ok(());
    };
    let (aid, serial) = aid_or_serial(which);
    let known = ask(settings, &ca::GetCert { aid, serial, ..ca::GetCert::default() }).await?;
    let pem = known.cert.with_context(|| format!("the certificate of {which} was not found"))?;
    describe(&pem, known.lifecycle_state.as_deref().unwrap_or("unknown"))?;
    Ok(output::print(&pem)?)
}

fn describe(pem: &str, state: &str) -> anyhow::Result<()> {
    let certificate = Certificate::from_pem(pem)?;
    let day = |seconds: i64| OffsetDateTime::from_unix_timestamp(seconds).map(|time| time.date().to_string());
    let (from, until) = (day(certificate.not_before())?, day(certificate.not_after())?);
    output::line(&printable_line(certificate.common_name()))?;
    output::line(&format!("    state        {state}"))?;
    output::line(&format!("    serial       {}", certificate.serial()))?;
    output::line(&format!("    fingerprint  {}", certificate.fingerprint()))?;
    output::line(&format!("    key          {}", certificate.public_key().curve()))?;
    Ok(output::line(&format!("    valid        {from} to {until}"))?)
}

async fn revoke_tokens(settings: &ConfigArgs, aid: &str) -> anyhow::Result<()> {
    let aid = Aid::parse(aid)?;
    ask(settings, &auth::RevokeTokens { aid: aid.to_string() }).await?;
    Ok(output::line(&format!("revoked every token of {aid}"))?)
}

/// A serial has no dot, and every AID has one.
fn aid_or_serial(which: &str) -> (Option<String>, Option<String>) {
    let which = which.to_owned();
    if which.contains('.') { (Some(which), None) } else { (None, Some(which)) }
}

fn export_root(settings: &ConfigArgs, file: Option<PathBuf>) -> anyhow::Result<()> {
    let root = settings.config()?.data.join("pki/root.crt");
    let pem = fs::read_to_string(&root).with_context(|| format!("{} cannot be read", root.display()))?;
    match file {
        Some(file) => fs::write(&file, pem).with_context(|| format!("{} cannot be written", file.display())),
        None => Ok(output::print(&pem)?),
    }
}
