//! An address to listen on, and how it is written: `ADDR:PORT` with TLS, `plain:ADDR:PORT` without.

use super::Config;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ListenAddress {
    pub address: SocketAddr,
    pub tls: bool,
}

impl Config {
    /// The gateway URL told to clients of a server that listens here: its name, and the port with TLS.
    pub fn gateway_url(&self, addresses: &[ListenAddress]) -> String {
        if let Some(url) = &self.public_url {
            return url.clone();
        }
        let secure = addresses.iter().find(|at| at.tls);
        let (scheme, standard) = if secure.is_some() { ("wss", 443) } else { ("ws", 80) };
        let port = secure.or(addresses.first()).map_or(standard, |at| at.address.port());
        let port = if port == standard { String::new() } else { format!(":{port}") };
        format!("{scheme}://gateway.{}{port}/aun", self.issuer)
    }

    /// Where certificates say that HTTP of this server is found: where clients find its gateway. They say so for years, and
    /// are made before the gateway listens, so a port that the system chooses is left out.
    pub fn pki_url(&self) -> String {
        let url = self.gateway_url(&self.listen);
        let (scheme, rest) = match url.strip_prefix("ws://") {
            Some(rest) => ("http", rest),
            None => ("https", url.strip_prefix("wss://").unwrap_or(&url)),
        };
        let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        format!("{scheme}://{}", host.strip_suffix(":0").unwrap_or(host))
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ListenAddress, String> {
        let (address, tls) = match text.strip_prefix("plain:") {
            Some(address) => (address, false),
            None => (text, true),
        };
        let address = address.parse().map_err(|_| {
            format!(
                "{text:?} is not an address to listen on: write 127.0.0.1:20001, or plain:127.0.0.1:20002"
            )
        })?;
        Ok(ListenAddress { address, tls })
    }
}

impl TryFrom<String> for ListenAddress {
    type Error = String;
    fn try_from(text: String) -> Result<ListenAddress, String> {
        text.parse()
    }
}

impl From<ListenAddress> for String {
    fn from(listen: ListenAddress) -> String {
        listen.to_string()
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.tls { "" } else { "plain:" }, self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_name_the_server_that_clients_are_told_of() {
        let config = |listen: &str, public_url: Option<&str>| Config {
            issuer: "aid.pub".to_owned(),
            listen: listen.split(' ').map(|text| text.parse().unwrap()).collect(),
            public_url: public_url.map(str::to_owned),
            ..Config::default()
        };
        for (listen, public_url, wanted) in [
            ("0.0.0.0:443", None, "https://gateway.aid.pub"),
            ("0.0.0.0:20001 plain:127.0.0.1:80", None, "https://gateway.aid.pub:20001"),
            ("plain:127.0.0.1:80", None, "http://gateway.aid.pub"),
            ("plain:127.0.0.1:8080", None, "http://gateway.aid.pub:8080"),
            ("127.0.0.1:0", None, "https://gateway.aid.pub"),
            ("plain:127.0.0.1:8080", Some("wss://gateway.aid.pub/aun"), "https://gateway.aid.pub"),
            ("127.0.0.1:20001", Some("ws://here.example:81"), "http://here.example:81"),
        ] {
            assert_eq!(config(listen, public_url).pki_url(), wanted);
        }
    }
}
