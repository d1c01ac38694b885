//! Where a gateway is, and how it is reached: TCP, TLS, and one request over it.

use super::error::Error;
use super::trust::{self, Root};
use super::wire::{Tap, Wire};
use rustls::pki_types::ServerName;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// How long a gateway may take to let somebody in.
const PATIENCE: Duration = Duration::from_secs(10);

/// No document that an agent fetches is larger.
const DOCUMENT_BYTES: u64 = 1 << 20;

/// A gateway's address as a person writes it: `HOST:PORT` or a WebSocket URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    secure: bool,
    host: String,
    port: u16,
    path: String,
}

/// A gateway with everything needed to dial it.
#[derive(Clone)]
pub struct Target {
    gateway: Gateway,
    /// What the server is called in TLS and HTTP, whatever address is dialled.
    name: String,
    /// How the server proves itself, and the file that says so; nothing of both where no TLS is spoken.
    tls: Option<(TlsConnector, PathBuf)>,
    tap: Option<Tap>,
}

/// Anything an agent can talk over.
pub trait Pipe: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Pipe for T {}

impl FromStr for Gateway {
    type Err = String;

    fn from_str(text: &str) -> Result<Gateway, String> {
        let wrong = || format!("{text:?} is not a gateway: write HOST:PORT or wss://HOST:PORT/aun");
        let (secure, rest) = match text.split_once("://") {
            Some(("wss", rest)) => (true, rest),
            Some(("ws", rest)) => (false, rest),
            Some(_) => return Err(wrong()),
            None => (true, text),
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/aun"),
        };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong())?)
            }
            _ => (authority, if secure { 443 } else { 80 }),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let fine = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
        if host.is_empty() || !host.chars().all(fine) || port == 0 {
            return Err(wrong());
        }
        Ok(Gateway { secure, host, port, path: path.to_owned() })
    }
}

impl fmt::Display for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.secure { "wss://" } else { "ws://" }, self.authority(&self.host))?;
        f.write_str(&self.path)
    }
}

impl Gateway {
    /// The server as it listens out of the box.
    pub fn local() -> Gateway {
        Gateway { secure: true, host: "127.0.0.1".to_owned(), port: 20001, path: "/aun".to_owned() }
    }

    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// Whether the gateway is on this machine. Names under `.localhost` are (RFC 6761), resolved or not.
    pub fn is_loopback(&self) -> bool {
        self.local_address().is_some_and(|address| address.is_loopback())
    }

    /// Whether anybody listens there.
    pub async fn answers(&self) -> bool {
        timeout(PATIENCE, self.connect()).await.is_ok_and(|stream| stream.is_ok())
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        match self.local_address() {
            Some(address) => TcpStream::connect((address, self.port)).await,
            None => TcpStream::connect((self.host.as_str(), self.port)).await,
        }
    }

    /// Host and port, as they name a file or stand in a sentence.
    pub fn place(&self) -> String {
        self.authority(&self.host)
    }

    fn authority(&self, host: &str) -> String {
        if host.contains(':') { format!("[{host}]:{}", self.port) } else { format!("{host}:{}", self.port) }
    }

    /// The address that needs no resolver.
    fn local_address(&self) -> Option<IpAddr> {
        if self.host == "localhost" || self.host.ends_with(".localhost") {
            return Some(Ipv4Addr::LOCALHOST.into());
        }
        self.host.parse().ok()
    }
}

impl Target {
    /// A gateway that proves itself with this root.
    pub fn new(gateway: Gateway, root: &Root) -> anyhow::Result<Target> {
        let tls = Some((trust::connector(&root.certificate)?, root.file.clone()));
        Ok(Target { name: gateway.host.clone(), gateway, tls, tap: None })
    }

    /// A gateway that proves nothing: for the one question whom to trust, and where no TLS is spoken.
    pub fn unproven(gateway: Gateway) -> anyhow::Result<Target> {
        let tls = if gateway.secure { Some((trust::anybody()?, PathBuf::new())) } else { None };
        Ok(Target { name: gateway.host.clone(), gateway, tls, tap: None })
    }

    /// An address has no name of its own: there the server is called as its domain calls it.
    pub fn of_issuer(mut self, issuer: &str) -> Target {
        if self.gateway.host.parse::<IpAddr>().is_ok() {
            self.name = format!("gateway.{issuer}");
        }
        self
    }

    /// Lets somebody see every frame, both ways.
    pub fn tapped(mut self, tap: Tap) -> Target {
        self.tap = Some(tap);
        self
    }

    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// A WebSocket on which the server's challenge has been read.
    pub async fn wire(&self) -> Result<Wire, Error> {
        let scheme = if self.tls.is_some() { "wss" } else { "ws" };
        let url = format!("{scheme}://{}{}", self.gateway.authority(&self.name), self.gateway.path);
        let open = async { Wire::open(&url, self.dial().await?, self.tap.clone()).await };
        timeout(PATIENCE, open).await.map_err(|_| self.unreachable(io::ErrorKind::TimedOut.into()))?
    }

    /// A document of the server, by its path.
    pub async fn get(&self, path: &str) -> Result<String, Error> {
        timeout(PATIENCE, self.fetch(path))
            .await
            .map_err(|_| self.unreachable(io::ErrorKind::TimedOut.into()))?
    }

    async fn fetch(&self, path: &str) -> Result<String, Error> {
        let (mut pipe, host) = (self.dial().await?, self.gateway.authority(&self.name));
        let ask = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let mut answer = String::new();
        let read = async {
            pipe.write_all(ask.as_bytes()).await?;
            (&mut pipe).take(DOCUMENT_BYTES).read_to_string(&mut answer).await
        };
        // Some servers end without a TLS farewell; then what came is judged by itself.
        if let Err(error) = read.await
            && error.kind() != io::ErrorKind::UnexpectedEof
        {
            return Err(self.unreachable(error));
        }
        let (head, body) =
            answer.split_once("\r\n\r\n").ok_or_else(|| Error::Odd(format!("no answer to {path}")))?;
        match head.split(' ').nth(1) {
            Some("200") => Ok(body.to_owned()),
            status => Err(Error::Odd(format!("{path} was answered with {}", status.unwrap_or("nothing")))),
        }
    }

    async fn dial(&self) -> Result<Box<dyn Pipe>, Error> {
        let tcp = self.gateway.connect().await.map_err(|error| self.unreachable(error))?;
        tcp.set_nodelay(true).map_err(|error| self.unreachable(error))?;
        let Some((tls, root)) = &self.tls else { return Ok(Box::new(tcp)) };
        let name = ServerName::try_from(self.name.clone())
            .map_err(|_| Error::Odd(format!("{:?} is no name for TLS", self.name)))?;
        let stream = tls.connect(name, tcp).await.map_err(|error| self.insecure(error, root))?;
        Ok(Box::new(stream))
    }

    fn unreachable(&self, error: io::Error) -> Error {
        Error::Unreachable(self.gateway.place(), error)
    }

    fn insecure(&self, error: io::Error, root: &Path) -> Error {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        match cause {
            Some(rustls::Error::InvalidCertificate(_)) => {
                let (place, root) = (self.gateway.place(), root.to_owned());
                Error::Untrusted { place, root, source: error }
            }
            _ => self.unreachable(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_written_as_people_write_it() {
        for (text, url) in [
            ("127.0.0.1:20001", "wss://127.0.0.1:20001/aun"),
            ("agents.example", "wss://agents.example:443/aun"),
            ("[::1]:7", "wss://[::1]:7/aun"),
            ("::1", "wss://[::1]:443/aun"),
            ("wss://Gateway.agents.localhost:20001/aun", "wss://gateway.agents.localhost:20001/aun"),
            ("ws://127.0.0.1:20002/aun", "ws://127.0.0.1:20002/aun"),
            ("ws://127.0.0.1", "ws://127.0.0.1:80/aun"),
        ] {
            assert_eq!(text.parse::<Gateway>().unwrap().to_string(), url);
        }
        assert_eq!(Gateway::local().to_string().parse(), Ok(Gateway::local()));
    }

    #[test]
    fn what_is_no_gateway_is_refused() {
        for text in ["", ":20001", "host:port", "host:70000", "host:0", "https://host", "ho st:1", "ws://"] {
            assert!(text.parse::<Gateway>().is_err(), "{text}");
        }
    }

    #[test]
    fn this_machine_is_known_without_a_resolver() {
        for (text, near) in [
            ("127.0.0.1:1", true),
            ("localhost:1", true),
            ("gateway.agents.localhost:1", true),
            ("[::1]:1", true),
            ("10.0.0.1:1", false),
            ("localhost.example:1", false),
        ] {
            assert_eq!(text.parse::<Gateway>().unwrap().is_loopback(), near, "{text}");
        }
    }
}
