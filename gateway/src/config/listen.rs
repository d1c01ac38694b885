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
