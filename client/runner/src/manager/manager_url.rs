//! Where the manager is, as a runner job names it.

use client::GatewayUrl;
use std::fmt;
use std::str::FromStr;

/// The path below which all routes of runs are.
const BASE: &str = "/api/v1";

/// The base URL of a manager: `https://HOST:PORT`, with or without `/api/v1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagerUrl {
    /// Names below `localhost` are dialled on this machine, resolved or not, as every client does it.
    pub(super) gateway: GatewayUrl,
    /// What every path begins with.
    pub(super) base: String,
}

impl FromStr for ManagerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<ManagerUrl, String> {
        let wrong = || format!("{text:?} is not the URL of a manager: write https://HOST:PORT");
        let (scheme, rest) = match text.split_once("://") {
            Some(("https", rest)) => ("wss", rest),
            Some(("http", rest)) => ("ws", rest),
            _ => return Err(wrong()),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-._~%".contains(c);
        if authority.contains('@') || !path.chars().all(is_plain) {
            return Err(wrong());
        }
        let gateway = format!("{scheme}://{authority}/").parse().map_err(|_| wrong())?;
        let path = path.trim_end_matches('/');
        let base = if path.ends_with(BASE) { path.to_owned() } else { format!("{path}{BASE}") };
        Ok(ManagerUrl { gateway, base })
    }
}

impl fmt::Display for ManagerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.gateway.is_secure() { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.gateway.host_and_port(), self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_is_written_with_and_without_its_path() {
        for (text, url) in [
            ("https://agents.example", "https://agents.example:443/api/v1"),
            ("https://agents.example/", "https://agents.example:443/api/v1"),
            (
                "https://gateway.agents.localhost:20001/api/v1/",
                "https://gateway.agents.localhost:20001/api/v1",
            ),
            ("http://127.0.0.1:20002", "http://127.0.0.1:20002/api/v1"),
            ("https://proxy.example/aund", "https://proxy.example:443/aund/api/v1"),
            ("https://[::1]:7", "https://[::1]:7/api/v1"),
        ] {
            assert_eq!(text.parse::<ManagerUrl>().unwrap().to_string(), url, "{text}");
        }
    }

    #[test]
    fn what_is_no_url_of_a_manager_is_refused() {
        for text in [
            "",
            "agents.example",
            "ftp://agents.example",
            "https://",
            "https://user:key@agents.example",
            "https://agents.example/?a=b",
            "https://agents.example/a b",
            "https://agents.example:0",
        ] {
            assert!(text.parse::<ManagerUrl>().is_err(), "{text}");
        }
    }
}
