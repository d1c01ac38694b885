//! How a gateway is reached: TCP, TLS, and a WebSocket over it.

use crate::connection::ClientConnection;
use crate::connection::gateway_url::GatewayUrl;
use crate::connection::transport::{ByteStream, FrameObserver};
use crate::connection::trust::{self, TrustedRoot};
use crate::error::Error;
use crate::events::EventReaders;
use rustls::pki_types::ServerName;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// How long a gateway may take to accept a connection and send its challenge, or to answer a request.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A gateway with everything needed to dial it.
#[derive(Clone)]
pub struct GatewayDialer {
    gateway: GatewayUrl,
    /// What is dialled in place of the host of the URL.
    at: Option<SocketAddr>,
    /// What the server is called in TLS and HTTP, whatever address is dialled.
    name: String,
    /// How its certificate is verified, and the file of the root; nothing where no TLS is spoken.
    tls: Option<(TlsConnector, PathBuf)>,
    observer: Option<FrameObserver>,
}

impl GatewayDialer {
    /// A gateway whose certificate this root must have issued.
    pub fn new(gateway: GatewayUrl, root: &TrustedRoot) -> Result<GatewayDialer, Error> {
        let tls = Some((trust::connector(&root.certificate)?, root.file.clone()));
        Ok(GatewayDialer::with_tls(gateway, tls))
    }

    /// A gateway whose certificate is not verified: to fetch its root on first use, and where no TLS is spoken.
    pub fn unverified(gateway: GatewayUrl) -> Result<GatewayDialer, Error> {
        let tls =
            if gateway.is_secure() { Some((trust::unverified_connector()?, PathBuf::new())) } else { None };
        Ok(GatewayDialer::with_tls(gateway, tls))
    }

    /// A gateway whose certificate an authority of the public web must have issued.
    pub fn of_web_authorities(gateway: GatewayUrl) -> Result<GatewayDialer, Error> {
        let tls = Some((trust::web_connector()?, PathBuf::from("the list of web authorities")));
        Ok(GatewayDialer::with_tls(gateway, tls))
    }

    fn with_tls(gateway: GatewayUrl, tls: Option<(TlsConnector, PathBuf)>) -> GatewayDialer {
        GatewayDialer { name: gateway.host().to_owned(), gateway, at: None, tls, observer: None }
    }

    /// Connects to this address in place of the host and the port of the URL. The name in TLS and HTTP stays that of the URL.
    pub fn dialled_at(mut self, address: SocketAddr) -> GatewayDialer {
        self.at = Some(address);
        self
    }

    /// A gateway dialled by its IP address is expected to have the name that its domain gives it.
    pub fn of_issuer(mut self, issuer: &str) -> GatewayDialer {
        if self.gateway.host().parse::<IpAddr>().is_ok() {
            self.name = format!("gateway.{issuer}");
        }
        self
    }

    /// Shows every frame, sent or received, to the observer.
    pub fn observed(mut self, observer: FrameObserver) -> GatewayDialer {
        self.observer = Some(observer);
        self
    }

    /// The gateway that is dialled.
    pub fn gateway(&self) -> &GatewayUrl {
        &self.gateway
    }

    /// What HTTP calls the server: the header `Host`.
    pub fn host(&self) -> String {
        self.gateway.authority(&self.name)
    }

    /// A WebSocket on which the server's challenge has been read, for calls alone: events are dropped.
    pub async fn open(&self) -> Result<ClientConnection, Error> {
        self.open_with(None).await
    }

    /// The same, with somebody to tell of events.
    pub(crate) async fn open_with(
        &self,
        events: Option<Arc<EventReaders>>,
    ) -> Result<ClientConnection, Error> {
        let scheme = if self.tls.is_some() { "wss" } else { "ws" };
        let url = format!("{scheme}://{}{}", self.host(), self.gateway.path());
        let open =
            async { ClientConnection::open(&url, self.dial().await?, self.observer.clone(), events).await };
        timeout(CONNECT_TIMEOUT, open).await.map_err(|_| self.unreachable(io::ErrorKind::TimedOut.into()))?
    }

    /// A connection on which HTTP or a WebSocket may begin: TCP, and TLS where the URL says so. The caller limits its time.
    pub async fn dial(&self) -> Result<Box<dyn ByteStream>, Error> {
        let connected = match self.at {
            Some(address) => TcpStream::connect(address).await,
            None => self.gateway.connect().await,
        };
        let tcp = connected.map_err(|error| self.unreachable(error))?;
        tcp.set_nodelay(true).map_err(|error| self.unreachable(error))?;
        let Some((tls, root)) = &self.tls else { return Ok(Box::new(tcp)) };
        let name = ServerName::try_from(self.name.clone())
            .map_err(|_| Error::Unexpected(format!("{:?} is not a name for TLS", self.name)))?;
        let stream = tls.connect(name, tcp).await.map_err(|error| self.tls_error(error, root))?;
        Ok(Box::new(stream))
    }

    pub(crate) fn unreachable(&self, error: io::Error) -> Error {
        let host_and_port = self.gateway.host_and_port();
        let dialled = match self.at {
            Some(address) => format!("{host_and_port} ({address})"),
            None => host_and_port,
        };
        Error::Unreachable(dialled, Arc::new(error))
    }

    fn tls_error(&self, error: io::Error, root: &Path) -> Error {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        match cause {
            Some(rustls::Error::InvalidCertificate(_)) => {
                let (host_and_port, root) = (self.gateway.host_and_port(), root.to_owned());
                Error::Untrusted { host_and_port, root, source: Arc::new(error) }
            }
            _ => self.unreachable(error),
        }
    }
}
