//! Which server, which folder: what every command of an agent may be told, and how it finds its way without.

use super::show::Show;
use crate::client::{self, Error, Gateway, Home, Identity, Kind, Root, Target, Wire};
use anyhow::Context as _;
use clap::Args;
use serde_json::Value;
use services::kernel::{Aid, Ids, codes};
use std::env;
use std::path::PathBuf;
use std::time::Duration;

/// Where a server on this machine writes its root when it is started from here.
const LOCAL_ROOT: &str = "./data/pki/root.crt";

/// How long to wait before the first and before a late attempt to come back.
const SOON: Duration = Duration::from_millis(500);
const LATE: Duration = Duration::from_secs(30);

/// How often a crowded gateway is asked for a seat.
const ATTEMPTS: u32 = 6;

#[derive(Args, Clone, Default)]
pub(super) struct Place {
    /// HOST:PORT or wss://HOST:PORT/aun [default: where the agent registered, else 127.0.0.1:20001]
    #[arg(long, value_name = "HOST:PORT")]
    pub gateway: Option<Gateway>,
    /// The domain of a NAME without one [default: the server's own]
    #[arg(long, value_name = "DOMAIN")]
    pub issuer: Option<String>,
    /// Trust the servers of this root certificate [default: ./data/pki/root.crt, else on first use]
    #[arg(long, value_name = "FILE")]
    pub root: Option<PathBuf>,
    /// Keep agents here [default: ~/.aund]
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
    /// Print without colours
    #[arg(long)]
    pub plain: bool,
}

impl Place {
    pub fn show(&self) -> Show {
        Show::new(self.json, self.plain || environment("NO_COLOR").is_some())
    }

    pub fn home(&self) -> anyhow::Result<Home> {
        if let Some(home) = &self.home {
            return Ok(Home::new(home.clone()));
        }
        let user = environment("HOME").context("nothing says where your folder is: say --home DIR")?;
        Ok(Home::new(PathBuf::from(user).join(".aund")))
    }

    /// An agent that lives here already.
    pub fn agent(&self, home: &Home, name: &str) -> anyhow::Result<Identity> {
        home.find(name, self.issuer.as_deref())?.with_context(|| {
            format!(
                "there is no agent {name} in {}: make it with aund register {name}",
                home.path().display()
            )
        })
    }

    /// A session of an agent that lives here.
    pub async fn connect(&self, home: &Home, who: &Identity, kind: Kind) -> anyhow::Result<Wire> {
        let gateway = self.gateway.clone().or_else(|| who.gateway());
        let target = self.target(home, gateway).await?.of_issuer(who.aid.issuer());
        let device = home.device()?;
        let mut tries = 0;
        let connected = loop {
            let connected = client::connect(&target, who, &device, kind).await;
            tries += 1;
            match &connected {
                Err(error) if is_full(error) && tries < ATTEMPTS => {
                    tokio::time::sleep(pause(tries - 1)).await
                }
                _ => break connected,
            }
        };
        connected.map_err(|error| {
            let code = error.downcast_ref::<Error>().and_then(Error::code);
            // What a server says that was set up anew and never heard of this agent.
            if matches!(code, Some(4001 | -32002)) {
                return error.context(format!("{0} cannot log in, try aund register {0}", who.aid));
            }
            self.explained(home, error)
        })
    }

    /// A root that was trusted on first use may be out of date, which only the person can know.
    pub fn explained(&self, home: &Home, error: anyhow::Error) -> anyhow::Error {
        match error.downcast_ref::<Error>() {
            Some(Error::Untrusted { root, .. }) if root.starts_with(home.path()) => {
                let file = root.display();
                let sentence = format!("the server has changed; if it was set up anew, remove {file}");
                error.context(sentence)
            }
            _ => error,
        }
    }

    /// The server, and how to know it.
    pub async fn target(&self, home: &Home, gateway: Option<Gateway>) -> anyhow::Result<Target> {
        let gateway = gateway.unwrap_or_else(Gateway::local);
        if !gateway.is_secure() {
            return Target::unproven(gateway);
        }
        let keep_at = home.root_file(&gateway);
        let root = match &self.root {
            Some(file) => Root::read(file)?,
            None => client::root_of(&gateway, &[PathBuf::from(LOCAL_ROOT)], &keep_at).await?,
        };
        if root.first_use {
            let (place, file) = (gateway.place(), root.file.display());
            self.show().note(&format!("trusting the root of {place} from now on, it is kept in {file}"));
        }
        Target::new(gateway, &root)
    }

    /// The AID of a name, under the domain of the server where nobody says another.
    pub async fn aid(&self, name: &str, home: &Home, target: &Target) -> anyhow::Result<Aid> {
        if name.contains('.') {
            return Ok(Aid::parse(name)?);
        }
        let issuer = match &self.issuer {
            Some(issuer) => issuer.clone(),
            None => issuer_of(target).await.map_err(|error| self.explained(home, error))?,
        };
        Ok(Aid::parse(&format!("{name}.{issuer}"))?)
    }
}

/// The domain a server vouches for, as it says itself.
pub(super) async fn issuer_of(target: &Target) -> anyhow::Result<String> {
    let told: Value = serde_json::from_str(&target.get("/.well-known/aun-gateway").await?)?;
    let issuer =
        told["issuer"].as_str().context("the server does not say its domain: say --issuer DOMAIN")?;
    Ok(issuer.to_owned())
}

#[expect(
    clippy::disallowed_methods,
    reason = "these two belong to the person, and no configuration knows them"
)]
fn environment(name: &str) -> Option<std::ffi::OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Nothing has been done yet, and a short connection of the same agent makes space within a moment.
fn is_full(error: &anyhow::Error) -> bool {
    let code = error.downcast_ref::<Error>().and_then(Error::code);
    code == Some(i64::from(codes::SHORT_CAPACITY.code))
}

/// Twice as long each time, and never the same for two who lost the same server.
pub(super) fn pause(tries: u32) -> Duration {
    let longest = SOON.saturating_mul(2_u32.saturating_pow(tries)).min(LATE);
    let [chance] = Ids::default().bytes::<1>();
    longest.mul_f64(0.5 + f64::from(chance) / 512.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_become_rare_and_stay_bounded() {
        for tries in 0..100 {
            let (wait, longest) = (pause(tries), SOON.saturating_mul(2_u32.saturating_pow(tries)).min(LATE));
            assert!(wait >= longest / 2 && wait <= longest, "{tries}: {wait:?}");
        }
        assert!(pause(0) <= SOON && pause(99) >= LATE / 2);
    }
}
