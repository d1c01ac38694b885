//! The addresses of a name that somebody else gave.
//!
//! A name is looked up once, every address that it has must be public, and whoever connects does so to an address that was found: a name
//! that leads elsewhere at the next look leads nowhere. A name that has one private address among others is not used at all.

use super::{OutboundError, is_public};
use std::io;
use std::net::SocketAddr;

/// The addresses of a name, by the resolver of this machine.
pub async fn look_up(host: &str, port: u16, allow_private: bool) -> Result<Vec<SocketAddr>, OutboundError> {
    let found = tokio::net::lookup_host((host, port)).await;
    check_addresses(found.map(|found| found.collect()), allow_private)
}

/// What a resolver found, if all of it may be connected to.
pub(super) fn check_addresses(
    found: io::Result<Vec<SocketAddr>>,
    allow_private: bool,
) -> Result<Vec<SocketAddr>, OutboundError> {
    let found = found.map_err(|error| match does_not_exist(&error) {
        true => OutboundError::NoAddress,
        false => OutboundError::Network(format!("its name cannot be looked up: {error}")),
    })?;
    if found.is_empty() {
        return Err(OutboundError::NoAddress);
    }
    match found.iter().find(|address| !allow_private && !is_public(address.ip())) {
        Some(private) => Err(OutboundError::Private(*private)),
        None => Ok(found),
    }
}

/// Whether the resolver answered that there is no such name, or no address of it. The standard library keeps only the words of
/// the C library: those of glibc, musl and BSD.
fn does_not_exist(error: &io::Error) -> bool {
    const WORDS: [&str; 4] = [
        "Name or service not known",
        "No address associated with hostname",
        "Name does not resolve",
        "nodename nor servname provided",
    ];
    let text = error.to_string();
    WORDS.iter().any(|words| text.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_private_address_spoils_a_name() {
        let addresses = |texts: &[&str]| -> io::Result<Vec<SocketAddr>> {
            Ok(texts.iter().map(|text| text.parse().unwrap()).collect())
        };
        assert_eq!(
            check_addresses(addresses(&["8.8.8.8:1", "[2606:4700::1111]:1"]), false).unwrap().len(),
            2
        );
        for found in [&["8.8.8.8:1", "10.0.0.1:1"][..], &["[::1]:1", "8.8.8.8:1"], &["169.254.169.254:1"]] {
            let refused = check_addresses(addresses(found), false);
            assert!(matches!(refused, Err(OutboundError::Private(_))), "{found:?}");
            assert_eq!(check_addresses(addresses(found), true).unwrap().len(), found.len());
        }
        assert!(matches!(check_addresses(addresses(&[]), true), Err(OutboundError::NoAddress)));
        let unknown = check_addresses(Err(io::Error::other("unknown")), true);
        assert!(matches!(unknown, Err(OutboundError::Network(_))));
        let words = "failed to lookup address information: Name or service not known";
        let no_such_name = check_addresses(Err(io::Error::other(words)), true);
        assert!(matches!(no_such_name, Err(OutboundError::NoAddress)));
    }

    #[tokio::test]
    async fn a_number_is_an_address_however_it_is_written() {
        for host in ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "localhost"] {
            let refused = look_up(host, 9, false).await;
            assert!(refused.is_err(), "{host}");
        }
    }
}
