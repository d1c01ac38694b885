//! Who an agent is, and where its gateway is.

use super::auth::{SessionKind, SessionOptions};
use super::client::Client;
use super::connection::dial::GatewayDialer;
use super::connection::first_use::find_root;
use super::connection::gateway_url::GatewayUrl;
use super::connection::transport::FrameObserver;
use super::connection::trust::TrustedRoot;
use super::error::Error;
use super::home::{Home, LocalAgent};
use super::login;
use proto_schemas::Aid;
use std::path::PathBuf;

/// The slot of a client that is given none.
const DEFAULT_SLOT: &str = "default";

/// The settings of a [`Client`]. What is not given is what a server on this machine has.
#[derive(Clone)]
pub struct ClientBuilder {
    aid: String,
    gateway: Option<String>,
    root: Option<PathBuf>,
    home: PathBuf,
    device: Option<String>,
    slot: String,
    observer: Option<FrameObserver>,
}

impl Client {
    /// The settings of a client for this AID, such as `alice.agents.localhost`.
    pub fn builder(aid: &str) -> ClientBuilder {
        ClientBuilder {
            aid: aid.to_owned(),
            gateway: None,
            root: None,
            home: PathBuf::from("agents"),
            device: None,
            slot: DEFAULT_SLOT.to_owned(),
            observer: None,
        }
    }
}

impl ClientBuilder {
    /// Where the gateway is: `HOST:PORT` or `wss://HOST:PORT/aun`. Without it, where the agent registered, else port 20001 of this
    /// machine.
    pub fn gateway(mut self, gateway: impl Into<String>) -> ClientBuilder {
        self.gateway = Some(gateway.into());
        self
    }

    /// The file of the root certificate that the gateway must prove itself with. A gateway on this machine may do without: its root
    /// is trusted on first use, and then kept in the home.
    pub fn root(mut self, file: impl Into<PathBuf>) -> ClientBuilder {
        self.root = Some(file.into());
        self
    }

    /// The folder of keys, certificates and tokens, of this agent and of others; `agents` in the current folder without it.
    pub fn home(mut self, folder: impl Into<PathBuf>) -> ClientBuilder {
        self.home = folder.into();
        self
    }

    /// The installation; without it one name for everything in the same home, which is made up once and kept.
    pub fn device(mut self, device: impl Into<String>) -> ClientBuilder {
        self.device = Some(device.into());
        self
    }

    /// The consumer on the device, `default` without it. Two clients with the same AID, device and slot push each other out.
    pub fn slot(mut self, slot: impl Into<String>) -> ClientBuilder {
        self.slot = slot.into();
        self
    }

    /// Shows every frame, sent or received.
    pub fn observer(mut self, observer: FrameObserver) -> ClientBuilder {
        self.observer = Some(observer);
        self
    }

    /// Registers the agent: makes a key in the home, unless there is one, and gets its certificate. Doing it again is harmless.
    pub async fn register(&self) -> Result<(), Error> {
        let (home, aid) = (Home::new(&self.home), Aid::parse(&self.aid)?);
        let known = home.agent(&aid)?;
        let dialer = self.dialer(&home, &aid, known.as_ref()).await?;
        let agent = match known {
            Some(agent) => agent,
            None => home.create(&aid)?,
        };
        login::register(&dialer, &agent).await
    }

    /// Connects an agent that is registered. From then on the client keeps the session, however often the connection is lost; a
    /// first connection that fails is not tried again.
    pub async fn connect(&self) -> Result<Client, Error> {
        let (home, aid) = (Home::new(&self.home), Aid::parse(&self.aid)?);
        let agent = home.agent(&aid)?;
        let agent = agent.ok_or_else(|| Error::Invalid(format!("{aid} is not registered yet")))?;
        let dialer = self.dialer(&home, &aid, Some(&agent)).await?;
        let device = match &self.device {
            Some(device) => device.clone(),
            None => home.device()?,
        };
        let options = SessionOptions { device, slot: self.slot.clone(), kind: SessionKind::Long };
        Client::connect(dialer, agent, options).await
    }

    async fn dialer(
        &self,
        home: &Home,
        aid: &Aid,
        agent: Option<&LocalAgent>,
    ) -> Result<GatewayDialer, Error> {
        let gateway: GatewayUrl = match &self.gateway {
            Some(gateway) => gateway.parse().map_err(Error::Invalid)?,
            None => agent.and_then(LocalAgent::gateway).unwrap_or_else(GatewayUrl::local),
        };
        let dialer = if gateway.is_secure() {
            let root = match &self.root {
                Some(file) => TrustedRoot::read(file)?,
                None => find_root(&gateway, &[], &home.root_file(&gateway)).await?,
            };
            GatewayDialer::new(gateway, &root)?
        } else {
            GatewayDialer::unverified(gateway)?
        };
        let dialer = dialer.of_issuer(aid.issuer());
        Ok(match &self.observer {
            Some(observer) => dialer.observed(observer.clone()),
            None => dialer,
        })
    }
}
