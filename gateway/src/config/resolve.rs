//! `federation.resolve`: the addresses that the operator gives for names of other domains.

use anyhow::{Context as _, bail};
use kernel::Aid;
use std::collections::BTreeMap;
use std::str::FromStr;

/// `DOMAIN=HOST:PORT`, as the command line has it.
#[derive(Clone, Debug)]
pub struct ResolveEntry {
    pub domain: String,
    pub address: String,
}

impl FromStr for ResolveEntry {
    type Err = String;

    fn from_str(text: &str) -> Result<ResolveEntry, String> {
        let (domain, address) = text.split_once('=').ok_or_else(|| {
            format!("{text:?} has no address: write DOMAIN=HOST:PORT, such as other.example=127.0.0.1:20002")
        })?;
        check(domain, address).map_err(|error| error.to_string())?;
        Ok(ResolveEntry { domain: domain.to_owned(), address: address.to_owned() })
    }
}

/// Whether the table of the configuration can be used.
pub(super) fn check_all(table: &BTreeMap<String, String>) -> anyhow::Result<()> {
    for (domain, address) in table {
        check(domain, address).context("federation.resolve")?;
    }
    Ok(())
}

fn check(domain: &str, address: &str) -> anyhow::Result<()> {
    Aid::parse(&format!("name.{domain}")).with_context(|| format!("{domain:?} is not a domain"))?;
    if host_and_port(address).is_none() {
        bail!("{domain}: {address:?} is not an address: write HOST:PORT, such as 127.0.0.1:20002");
    }
    Ok(())
}

/// An IPv6 address has to be in brackets.
pub fn host_and_port(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = bare.unwrap_or(host);
    let fine = !host.is_empty() && (bare.is_some() || !host.contains(':'));
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':');
    (fine && host.bytes().all(plain)).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_cannot_be_used_is_refused() {
        for bad in
            ["other.example", "=1.2.3.4:5", "a..b=x:1", "x.example=", "x.example=host", "x.example=::1:5"]
        {
            assert!(bad.parse::<ResolveEntry>().is_err(), "{bad}");
        }
        for bad in ["x.example=host:0", "x.example=host:70000", "x.example=ho st:1", "x.example=[]:1"] {
            assert!(bad.parse::<ResolveEntry>().is_err(), "{bad}");
        }
        let entry: ResolveEntry = "x.example=[::1]:20002".parse().unwrap();
        assert_eq!((entry.domain.as_str(), entry.address.as_str()), ("x.example", "[::1]:20002"));
        let table = BTreeMap::from([("x.example".to_owned(), "nowhere".to_owned())]);
        assert!(check_all(&table).is_err());
    }
}
