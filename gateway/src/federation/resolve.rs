//! The address at which a host of another domain is dialled: the one the operator configured for it, or that of the DNS.

use anyhow::{Context as _, bail};
use std::collections::BTreeMap;
use std::io;
use tokio::net::TcpStream;

/// `DOMAIN=HOST:PORT`, as the command line takes it.
#[derive(Clone, Debug)]
pub struct Entry {
    pub domain: String,
    pub address: String,
}

impl std::str::FromStr for Entry {
    type Err = String;

    fn from_str(text: &str) -> Result<Entry, String> {
        let (domain, address) = text.split_once('=').ok_or_else(|| {
            format!("{text:?} says no address: write DOMAIN=HOST:PORT, such as other.example=127.0.0.1:20002")
        })?;
        check(domain, address).map_err(|error| error.to_string())?;
        Ok(Entry { domain: domain.to_owned(), address: address.to_owned() })
    }
}

/// Whether the configuration's table can be used.
pub fn check_all(table: &BTreeMap<String, String>) -> anyhow::Result<()> {
    for (domain, address) in table {
        check(domain, address).context("federation.resolve")?;
    }
    Ok(())
}

fn check(domain: &str, address: &str) -> anyhow::Result<()> {
    services::kernel::Aid::parse(&format!("name.{domain}"))
        .with_context(|| format!("{domain:?} is not a domain"))?;
    if split(address).is_none() {
        bail!("{domain}: {address:?} is not an address: write HOST:PORT, such as 127.0.0.1:20002");
    }
    Ok(())
}

/// Host and port; an IPv6 address stands in brackets.
fn split(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = bare.unwrap_or(host);
    let fine = !host.is_empty() && (bare.is_some() || !host.contains(':'));
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':');
    (fine && host.bytes().all(plain)).then_some((host, port))
}

/// The configured address for a host name: that of the longest domain that equals it or contains it.
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
    split(address)
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

    #[test]
    fn an_entry_is_refused_with_a_sentence_where_it_cannot_be_used() {
        for bad in
            ["other.example", "=1.2.3.4:5", "a..b=x:1", "x.example=", "x.example=host", "x.example=::1:5"]
        {
            assert!(bad.parse::<Entry>().is_err(), "{bad}");
        }
        for bad in ["x.example=host:0", "x.example=host:70000", "x.example=ho st:1", "x.example=[]:1"] {
            assert!(bad.parse::<Entry>().is_err(), "{bad}");
        }
        let entry: Entry = "x.example=[::1]:20002".parse().unwrap();
        assert_eq!((entry.domain.as_str(), entry.address.as_str()), ("x.example", "[::1]:20002"));
        assert!(check_all(&table(&[("x.example", "nowhere")])).is_err());
    }
}
