//! `aund certs revoke`: by the operator, for any agent or certificate; or by an agent itself, with its key.

use super::aid_or_serial;
use crate::agent_args::AgentArgs;
use crate::cli::ConfigArgs;
use crate::cli::operator::ask::ask;
use crate::output;
use crate::show::printable_line;
use anyhow::bail;
use clap::Args;
use client::{GatewayUrl, LocalAgent};
use kernel::Aid;
use proto_schemas::requests::auth::RevocationTarget;
use proto_schemas::requests::ca;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::PathBuf;

#[derive(Args)]
pub(super) struct RevokeCommand {
    /// As the operator: an AID, or the serial of one certificate
    #[arg(value_name = "AID|SERIAL", required_unless_present = "own")]
    which: Option<String>,
    /// As this agent of yours, with its key: end it permanently
    #[arg(long = "as", value_name = "NAME", conflicts_with = "which")]
    own: Option<String>,
    /// With --as: end its tokens and sessions everywhere; the certificate stays valid, and the key logs in again
    #[arg(long, conflicts_with = "which")]
    tokens: bool,
    /// With --as: do not ask for confirmation before an agent ends permanently
    #[arg(long, conflicts_with = "which")]
    yes: bool,
    /// An RFC 5280 reason, such as keyCompromise
    #[arg(long, default_value = "unspecified")]
    reason: String,
    /// With --as: HOST:PORT or wss://HOST:PORT/aun [default: where the agent registered]
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "which")]
    gateway: Option<GatewayUrl>,
    /// With --as: trust the servers of this root certificate
    #[arg(long, value_name = "FILE", conflicts_with = "which")]
    root: Option<PathBuf>,
    /// With --as: the folder of agents [default: ~/.aund]
    #[arg(long, value_name = "DIR", conflicts_with = "which")]
    home: Option<PathBuf>,
    #[command(flatten)]
    settings: ConfigArgs,
}

impl RevokeCommand {
    pub async fn run(self, outer: ConfigArgs) -> anyhow::Result<()> {
        let settings = self.settings.or(outer);
        match (&self.own, &self.which) {
            (None, Some(which)) => by_operator(&settings, which, &self.reason).await,
            (own, _) => {
                let args = AgentArgs {
                    gateway: self.gateway,
                    issuer: settings.issuer,
                    root: self.root,
                    home: self.home,
                    ..AgentArgs::default()
                };
                let what = if self.tokens { RevocationTarget::Tokens } else { RevocationTarget::Aid };
                let name = own.as_deref().unwrap_or_default();
                by_itself(&args, name, (what, &self.reason), self.yes).await
            }
        }
    }
}

async fn by_operator(settings: &ConfigArgs, which: &str, reason: &str) -> anyhow::Result<()> {
    let (aid, serial) = aid_or_serial(which);
    let aid = aid.as_deref().map(Aid::parse).transpose()?;
    let revoked = ask(settings, &ca::RevokeCert { aid, serial, reason: Some(reason.to_owned()) }).await?;
    print_serials(&revoked.serials, &revoked.aid)
}

async fn by_itself(
    args: &AgentArgs,
    name: &str,
    (what, reason): (RevocationTarget, &str),
    yes: bool,
) -> anyhow::Result<()> {
    let home = args.home()?;
    let agent = args.agent(&home, name)?;
    let dialer = args.dialer_of(&home, &agent).await?;
    if what == RevocationTarget::Aid && !yes {
        confirm(&agent)?;
    }
    let revoked = client::revoke(&dialer, &agent, what, reason).await;
    let revoked = revoked.map_err(|error| args.explained(&home, error.into()))?;
    match what {
        RevocationTarget::Tokens => {
            let sentence = format!("{} is logged out everywhere; its key can log in again", agent.aid);
            Ok(output::line(&sentence)?)
        }
        RevocationTarget::Aid => print_serials(&revoked.serials, agent.aid.as_str()),
    }
}

fn print_serials(serials: &[String], aid: &str) -> anyhow::Result<()> {
    for serial in serials {
        output::line(&printable_line(&format!("revoked {serial} of {aid}")))?;
    }
    Ok(())
}

/// The name has to be typed: a habitual yes must not end an agent.
fn confirm(agent: &LocalAgent) -> anyhow::Result<()> {
    let aid = &agent.aid;
    if !io::stdin().is_terminal() {
        bail!("no terminal to confirm on: use --yes to end {aid} permanently");
    }
    output::note(&format!(
        "{aid} ends permanently: its certificates are revoked, what the server keeps for it is removed, \
         and nobody can ever register this name again. --tokens logs it out everywhere instead.\n\
         Type {aid} to continue:"
    ));
    let mut typed = String::new();
    io::stdin().lock().read_line(&mut typed)?;
    if typed.trim() != aid.as_str() {
        bail!("nothing was revoked");
    }
    Ok(())
}
