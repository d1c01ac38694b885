//! Where a gateway is, as a person writes it.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a gateway may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A gateway's address as a person writes it: `HOST:PORT` or a WebSocket URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayUrl {
    secure: bool,
    host: String,
    port: u16,
    path: String,
}

impl FromStr for GatewayUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<GatewayUrl, String> {
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
        Ok(GatewayUrl { secure, host, port, path: path.to_owned() })
    }
}

impl fmt::Display for GatewayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.secure { "wss://" } else { "ws://" }, self.authority(&self.host))?;
        f.write_str(&self.path)
    }
}

impl GatewayUrl {
    /// Where a server listens by default.
    pub fn local() -> GatewayUrl {
        GatewayUrl { secure: true, host: "127.0.0.1".to_owned(), port: 20001, path: "/aun".to_owned() }
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Whether TLS is spoken there.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// Whether the gateway is on this machine. Names under `.localhost` are (RFC 6761), resolved or not.
    pub fn is_loopback(&self) -> bool {
        self.local_address().is_some_and(|address| address.is_loopback())
    }

    /// Whether something listens there.
    pub async fn answers(&self) -> bool {
        timeout(CONNECT_TIMEOUT, self.connect()).await.is_ok_and(|stream| stream.is_ok())
    }

    pub(crate) async fn connect(&self) -> io::Result<TcpStream> {
        match self.local_address() {
            Some(address) => TcpStream::connect((address, self.port)).await,
            None => TcpStream::connect((self.host.as_str(), self.port)).await,
        }
    }

    /// Host and port, as they name a file or stand in a sentence.
    pub fn host_and_port(&self) -> String {
        self.authority(&self.host)
    }

    /// A host with the port of this gateway.
    pub(crate) fn authority(&self, host: &str) -> String {
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
            assert_eq!(text.parse::<GatewayUrl>().unwrap().to_string(), url);
        }
        assert_eq!(GatewayUrl::local().to_string().parse(), Ok(GatewayUrl::local()));
    }

    #[test]
    fn what_is_no_gateway_is_refused() {
        for text in ["", ":20001", "host:port", "host:70000", "host:0", "https://host", "ho st:1", "ws://"] {
            assert!(text.parse::<GatewayUrl>().is_err(), "{text}");
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
            assert_eq!(text.parse::<GatewayUrl>().unwrap().is_loopback(), near, "{text}");
        }
    }
}
