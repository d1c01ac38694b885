//! A URL that requests may be sent to.

use super::is_public;
use hyper::Uri;
use std::net::IpAddr;

const MOST_BYTES: usize = 2048;

/// A URL whose form was checked. Where its name leads is checked at each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboundUrl {
    pub(super) tls: bool,
    /// A name, or an address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// As the header `Host` has it.
    pub(super) authority: String,
    pub(super) path: String,
}

/// Why a URL cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlRefused {
    #[error(
        "it must be a URL of at most {MOST_BYTES} bytes with a host, and without a user name or a fragment"
    )]
    Form,
    #[error("it must begin with https://")]
    Scheme,
    #[error("it must not lead to this server or into a private network")]
    Private,
}

impl OutboundUrl {
    /// With `allow_private` plain `http` is accepted, too, and any address.
    pub fn parse(text: &str, allow_private: bool) -> Result<OutboundUrl, UrlRefused> {
        if text.len() > MOST_BYTES || text.contains('#') || !text.is_ascii() {
            return Err(UrlRefused::Form);
        }
        let uri: Uri = text.parse().map_err(|_| UrlRefused::Form)?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") if allow_private => false,
            Some(_) => return Err(UrlRefused::Scheme),
            None => return Err(UrlRefused::Form),
        };
        let (Some(authority), Some(host)) = (uri.authority(), uri.host()) else {
            return Err(UrlRefused::Form);
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        if host.is_empty() || authority.as_str().ends_with(':') || authority.as_str().contains('@') {
            return Err(UrlRefused::Form);
        }
        if !allow_private && !may_be_public(&host) {
            return Err(UrlRefused::Private);
        }
        Ok(OutboundUrl {
            tls,
            port: uri.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            authority: authority.as_str().to_owned(),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
            host,
        })
    }
}

/// Only what is certain without a look at the DNS.
fn may_be_public(host: &str) -> bool {
    let name = host.trim_end_matches('.');
    match host.parse::<IpAddr>() {
        Ok(address) => is_public(address),
        Err(_) => name != "localhost" && !name.ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let url = OutboundUrl::parse("https://Hooks.example:8443/a/b?c=d", false).unwrap();
        assert_eq!((url.tls, url.host.as_str(), url.port), (true, "hooks.example", 8443));
        assert_eq!((url.authority.as_str(), url.path.as_str()), ("Hooks.example:8443", "/a/b?c=d"));
        let plain = OutboundUrl::parse("https://hooks.example", false).unwrap();
        assert_eq!((plain.port, plain.path.as_str()), (443, "/"));
        let six = OutboundUrl::parse("http://[::1]:80/x", true).unwrap();
        assert_eq!((six.tls, six.host.as_str(), six.port), (false, "::1", 80));
    }

    #[test]
    fn what_is_not_a_public_https_url_is_refused() {
        for (text, reason) in [
            ("http://hooks.example/", UrlRefused::Scheme),
            ("ftp://hooks.example/", UrlRefused::Scheme),
            ("/relative", UrlRefused::Form),
            ("", UrlRefused::Form),
            ("https://", UrlRefused::Form),
            ("https://user@hooks.example/", UrlRefused::Form),
            ("https://hooks.example/#part", UrlRefused::Form),
            ("https://127.0.0.1/", UrlRefused::Private),
            ("https://[::1]/", UrlRefused::Private),
            ("https://169.254.169.254/latest", UrlRefused::Private),
            ("https://localhost/", UrlRefused::Private),
            ("https://LOCALHOST./", UrlRefused::Private),
            ("https://a.localhost/", UrlRefused::Private),
        ] {
            assert_eq!(OutboundUrl::parse(text, false), Err(reason), "{text}");
        }
        assert!(OutboundUrl::parse(&format!("https://x.example/{}", "a".repeat(2048)), true).is_err());
        assert!(OutboundUrl::parse("http://127.0.0.1:9/", true).is_ok());
        assert_eq!(OutboundUrl::parse("ftp://127.0.0.1/", true), Err(UrlRefused::Scheme));
    }
}
