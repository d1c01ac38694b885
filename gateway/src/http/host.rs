//! Which of the names under the issuer a request is for.
//!
//! Clients on another port than 443 send `Host: {aid}` without a port while their TLS name is the gateway's, so the port is
//! ignored and so is the TLS name.

use hyper::Request;
use hyper::header::HOST;
use kernel::Aid;
use proto_schemas::HttpHost;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum RequestHost {
    /// The gateway's own name, the apex, or an address: everything that is not an agent.
    Gateway,
    Pki,
    Agent(Aid),
}

impl RequestHost {
    pub fn of<B>(request: &Request<B>, issuer: &str) -> RequestHost {
        let header = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        RequestHost::parse(header.or_else(|| request.uri().host()).unwrap_or(""), issuer)
    }

    fn parse(host: &str, issuer: &str) -> RequestHost {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
            _ => host,
        };
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let Some(label) = name.strip_suffix(issuer).and_then(|name| name.strip_suffix('.')) else {
            return RequestHost::Gateway;
        };
        match label {
            "gateway" => RequestHost::Gateway,
            "pki" => RequestHost::Pki,
            _ => Aid::parse(&name).map_or(RequestHost::Gateway, RequestHost::Agent),
        }
    }

    /// Whether a path that is answered under such names is answered under this one.
    pub fn is(&self, wanted: HttpHost) -> bool {
        match wanted {
            HttpHost::Any => true,
            HttpHost::Gateway => *self == RequestHost::Gateway,
            HttpHost::Pki => *self == RequestHost::Pki,
            HttpHost::Agent => matches!(self, RequestHost::Agent(_)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_the_case_and_a_last_dot_do_not_matter() {
        let host = |text: &str| RequestHost::parse(text, "aid.pub");
        let alice = RequestHost::Agent(Aid::parse("alice.aid.pub").unwrap());
        for text in ["alice.aid.pub", "ALICE.aid.pub:20001", "alice.aid.pub."] {
            assert_eq!(host(text), alice, "{text}");
        }
        assert_eq!(host("pki.aid.pub"), RequestHost::Pki);
        for text in
            ["aid.pub", "gateway.aid.pub", "127.0.0.1:443", "[::1]", "alice.other.pub", "a b.aid.pub", ""]
        {
            assert_eq!(host(text), RequestHost::Gateway, "{text}");
        }
    }
}
