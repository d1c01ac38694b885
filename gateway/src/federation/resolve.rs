//! The address at which a host of another domain is dialled: the one the operator configured for it, or that of the DNS.

use crate::config::host_and_port;
use std::collections::BTreeMap;
use std::io;
use tokio::net::TcpStream;

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

/// A TCP connection to this host; the port counts only if the operator configured no address for it.
pub async fn connect(table: &BTreeMap<String, String>, name: &str, port: u16) -> io::Result<TcpStream> {
    let (host, port) = at(table, name).unwrap_or((name, port));
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
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
}
