//! The address at which a host of another domain is dialled: the one the operator configured for it, or that of the DNS, which has to be
//! public.

use crate::config::{FederationConfig, host_and_port};
use outbound::OutboundError;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// What is said of every name that may not be dialled, whether it has no address or one of a private network.
pub const NOWHERE: &str = "it has no address that can be dialled";

/// The address for a name: that of the longest domain it is, or is under.
fn at<'a>(table: &'a BTreeMap<String, String>, name: &str) -> Option<(&'a str, u16)> {
    let under = |domain: &str| match name.len().checked_sub(domain.len()) {
        Some(0) => name.eq_ignore_ascii_case(domain),
        Some(more) => {
            name.as_bytes()[more - 1] == b'.'
                && name.as_bytes()[more..].eq_ignore_ascii_case(domain.as_bytes())
        }
        None => false,
    };
    let (_, address) =
        table.iter().filter(|(domain, _)| under(domain)).max_by_key(|(domain, _)| domain.len())?;
    host_and_port(address)
}

/// A TCP connection to this host; the port counts only if the operator configured no address for it. Without such an address every
/// address of the name has to be public. An error is for whoever named the host: it does not tell a name that leads into a private
/// network from one that leads nowhere.
pub async fn connect(settings: &FederationConfig, name: &str, port: u16) -> Result<TcpStream, String> {
    let stream = match at(&settings.resolve, name) {
        Some(address) => TcpStream::connect(address).await.map_err(|error| error.to_string())?,
        None => {
            let addresses = addresses(settings, name, port).await.map_err(|_| NOWHERE.to_owned())?;
            TcpStream::connect(&addresses[..]).await.map_err(|error| error.to_string())?
        }
    };
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    Ok(stream)
}

/// Whether a domain has no address that may be dialled: its name does not exist, or leads into a private network. A resolver that
/// does not answer says nothing.
pub async fn leads_nowhere(settings: &FederationConfig, domain: &str) -> bool {
    let refused = || async { addresses(settings, domain, 443).await.err() };
    at(&settings.resolve, domain).is_none()
        && matches!(refused().await, Some(OutboundError::NoAddress | OutboundError::Private(_)))
}

/// Why no address of this host may be dialled, for the operator; `None` if one may.
pub async fn why_not(settings: &FederationConfig, name: &str, port: u16) -> Option<String> {
    if at(&settings.resolve, name).is_some() {
        return None;
    }
    let refused = addresses(settings, name, port).await.err()?;
    let hint = match refused {
        OutboundError::Private(_) => "; federation.resolve or federation.allow_private allows that",
        _ => "",
    };
    Some(format!("{name} cannot be dialled: {refused}{hint}"))
}

async fn addresses(
    settings: &FederationConfig,
    name: &str,
    port: u16,
) -> Result<Vec<SocketAddr>, OutboundError> {
    // The resolver reads many kinds of numbers as addresses, and no domain ends in a number.
    if is_number(name) {
        return Err(OutboundError::NoAddress);
    }
    outbound::look_up(name, port, settings.allow_private).await
}

/// Whether the last label is a number, decimal or hexadecimal: then the name is an address, or none at all.
fn is_number(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    let last = name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase();
    let hexadecimal = |digits: &str| digits.bytes().all(|b| b.is_ascii_hexdigit());
    name.contains(':')
        || last.bytes().all(|b| b.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(hexadecimal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(domain, address)| ((*domain).to_owned(), (*address).to_owned())).collect()
    }

    #[test]
    fn the_longest_domain_that_contains_a_name_decides() {
        let table = table(&[
            ("other.example", "127.0.0.1:1"),
            ("eu.other.example", "[::1]:2"),
            ("example", "elsewhere:3"),
        ]);
        for (name, found) in [
            ("other.example", Some(("127.0.0.1", 1))),
            ("gateway.Other.example", Some(("127.0.0.1", 1))),
            ("gateway.eu.other.example", Some(("::1", 2))),
            ("another.example", Some(("elsewhere", 3))),
            ("another-example", None),
            ("xother.exampl", None),
            ("", None),
        ] {
            assert_eq!(at(&table, name), found, "{name}");
        }
    }

    #[test]
    fn a_number_is_not_a_domain() {
        for number in ["127.0.0.1", "127.1", "2130706433", "0x7f.0.0.1", "0X7F000001", "::1", "1.2.3.4."] {
            assert!(is_number(number), "{number}");
        }
        for name in ["other.example", "127.0.0.1.example", "0x7f.example", "x1", "a.0b"] {
            assert!(!is_number(name), "{name}");
        }
    }

    #[tokio::test]
    async fn the_error_does_not_tell_a_private_network_from_nowhere() {
        let mut settings = FederationConfig::default();
        // Longer than a label may be, so no resolver has to be asked.
        let nowhere = format!("{}.test", "n".repeat(70));
        for name in ["localhost", "127.1"] {
            assert!(leads_nowhere(&settings, name).await, "{name}");
        }
        for name in ["localhost", "127.1", &nowhere] {
            assert_eq!(connect(&settings, name, 9).await.unwrap_err(), NOWHERE, "{name}");
            assert!(why_not(&settings, name, 9).await.is_some(), "{name}");
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        settings.allow_private = true;
        connect(&settings, "localhost", port).await.unwrap();
        settings.allow_private = false;
        let address = format!("127.0.0.1:{port}");
        settings.resolve = table(&[("other.example", address.as_str())]);
        connect(&settings, "gateway.other.example", 9).await.unwrap();
        assert!(!leads_nowhere(&settings, "other.example").await, "the operator said where it is");
        assert_eq!(why_not(&settings, "other.example", 9).await, None);
    }
}
