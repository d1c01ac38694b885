//! The arguments that every command of an agent has: which gateway, which folder, and what is used without them.

mod asking;
mod while_full;

pub(crate) use asking::{AskingArgs, ReadingArgs, chosen};

use crate::show::Show;
use anyhow::Context as _;
use clap::Args;
use client::{
    Aid, Client, Error, GatewayDialer, GatewayUrl, Home, LocalAgent, SessionKind, SessionOptions, TrustedRoot,
};
use manifest::Language;
use serde_json::{Value, json};
use std::env;
use std::path::PathBuf;

/// The root certificate of a server that was started in this folder.
const LOCAL_ROOT: &str = "./data/pki/root.crt";

/// The slot of an agent of the command line.
pub(crate) const SLOT: &str = "cli";

#[derive(Args, Clone, Default)]
pub(crate) struct AgentArgs {
    /// HOST:PORT or wss://HOST:PORT/aun [default: where the agent registered, else 127.0.0.1:20001]
    #[arg(long, value_name = "HOST:PORT")]
    pub gateway: Option<GatewayUrl>,
    /// The domain of names without one [default: the server's]
    #[arg(long, value_name = "DOMAIN")]
    pub issuer: Option<String>,
    /// The server's root certificate [default: ./data/pki/root.crt, else trusted on first use]
    #[arg(long, value_name = "FILE")]
    pub root: Option<PathBuf>,
    /// The folder with your agents [default: ~/.aund]
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
    /// Print without colours
    #[arg(long)]
    pub plain: bool,
}

impl AgentArgs {
    pub fn show(&self) -> Show {
        Show::new(self.json, self.plain || environment("NO_COLOR").is_some())
    }

    pub fn home(&self) -> anyhow::Result<Home> {
        if let Some(home) = &self.home {
            return Ok(Home::new(home.clone()));
        }
        let user = environment("HOME").context("HOME is not set: use --home DIR")?;
        Ok(Home::new(PathBuf::from(user).join(".aund")))
    }

    /// An agent of this machine.
    pub fn agent(&self, home: &Home, name: &str) -> anyhow::Result<LocalAgent> {
        home.find(name, self.issuer.as_deref())?.with_context(|| {
            format!(
                "the agent {name} was not found in {}: create it with aund register {name}",
                home.path().display()
            )
        })
    }

    /// A client of an agent of this machine, which gets events and comes back by itself.
    pub async fn client(&self, home: &Home, agent: &LocalAgent) -> anyhow::Result<Client> {
        self.client_of_slot(home, agent, SLOT).await
    }

    /// The same in another slot, so that it stays beside the one of the command line.
    pub async fn client_of_slot(
        &self,
        home: &Home,
        agent: &LocalAgent,
        slot: &str,
    ) -> anyhow::Result<Client> {
        let (dialer, options) = self.session(home, agent, slot, SessionKind::Long).await?;
        let connected = Client::connect(dialer, agent.clone(), options).await;
        connected.map_err(|error| self.no_session(home, agent, error))
    }

    pub async fn session(
        &self,
        home: &Home,
        agent: &LocalAgent,
        slot: &str,
        kind: SessionKind,
    ) -> anyhow::Result<(GatewayDialer, SessionOptions)> {
        let dialer = self.dialer_of(home, agent).await?;
        Ok((dialer, SessionOptions { device: home.device()?, slot: slot.to_owned(), kind }))
    }

    /// The gateway of an agent of this machine.
    pub async fn dialer_of(&self, home: &Home, agent: &LocalAgent) -> anyhow::Result<GatewayDialer> {
        let gateway = self.gateway.clone().or_else(|| agent.gateway());
        Ok(self.dialer(home, gateway).await?.of_issuer(agent.aid.issuer()))
    }

    pub fn no_session(&self, home: &Home, agent: &LocalAgent, error: Error) -> anyhow::Error {
        // The answer of a server that was set up anew and does not know this agent.
        if matches!(error.code(), Some(4001 | -32002)) {
            let sentence = format!(
                "the server does not accept {0}: if its data was deleted, run aund register {0} again",
                agent.aid
            );
            return anyhow::Error::from(error).context(sentence);
        }
        self.explained(home, error.into())
    }

    /// A root that was trusted on first use may be out of date, which only its user can know.
    pub fn explained(&self, home: &Home, error: anyhow::Error) -> anyhow::Error {
        match error.downcast_ref::<Error>() {
            Some(Error::Untrusted { root, .. }) if root.starts_with(home.path()) => {
                let file = root.display();
                let sentence =
                    format!("the server has another root certificate; if you set it up again, remove {file}");
                error.context(sentence)
            }
            _ => error,
        }
    }

    /// The gateway, and the root it is verified with.
    pub async fn dialer(&self, home: &Home, gateway: Option<GatewayUrl>) -> anyhow::Result<GatewayDialer> {
        let gateway = gateway.unwrap_or_else(GatewayUrl::local);
        if !gateway.is_secure() {
            return Ok(GatewayDialer::unverified(gateway)?);
        }
        let keep_at = home.root_file(&gateway);
        let root = match &self.root {
            Some(file) => TrustedRoot::read(file)?,
            None => client::find_root(&gateway, &[PathBuf::from(LOCAL_ROOT)], &keep_at).await?,
        };
        if root.first_use {
            let (address, file) = (gateway.host_and_port(), root.file.display());
            self.show()
                .note(&format!("trusting the root certificate of {address} on first use; stored in {file}"));
        }
        Ok(GatewayDialer::new(gateway, &root)?)
    }

    /// The AID of a name, under the server's domain unless another is given.
    pub async fn aid(&self, name: &str, home: &Home, dialer: &GatewayDialer) -> anyhow::Result<Aid> {
        if name.contains('.') {
            return Ok(Aid::parse(name)?);
        }
        let issuer = match &self.issuer {
            Some(issuer) => issuer.clone(),
            None => issuer_of(dialer).await.map_err(|error| self.explained(home, error))?,
        };
        Ok(Aid::parse(&format!("{name}.{issuer}"))?)
    }
}

/// With --json the error goes to standard output, where a program reads the result; the sentence is for people.
pub(crate) fn result(answer: Result<Value, Error>, show: Show) -> anyhow::Result<Value> {
    if let (Err(Error::Refused { error, .. }), true) = (&answer, show.json) {
        show.line(&json!({ "error": error }).to_string())?;
    }
    Ok(answer?)
}

/// The domain of a server, as its well-known document says.
pub(crate) async fn issuer_of(dialer: &GatewayDialer) -> anyhow::Result<String> {
    let document: Value = serde_json::from_str(&dialer.get("/.well-known/aun-gateway").await?)?;
    let issuer =
        document["issuer"].as_str().context("the server does not say its domain: use --issuer DOMAIN")?;
    Ok(issuer.to_owned())
}

/// The language of the person at the terminal, by the first of these that is set, as for other programs.
pub(crate) fn language() -> Language {
    let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(environment);
    Language::of_locale(&locale.unwrap_or_default().to_string_lossy())
}

#[expect(
    clippy::disallowed_methods,
    reason = "HOME, NO_COLOR and the locale are the user's, and not settings"
)]
fn environment(name: &str) -> Option<std::ffi::OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}
