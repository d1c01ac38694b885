//! One HTTP request, parsed as far as routes need it.

use super::reply::{Reply, refuse};
use crate::gateway::GatewayState;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::HOST;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, StatusCode};
use services::kernel::Aid;
use std::time::Duration;

/// No document that the server accepts over HTTP is larger.
const MAX_BODY_BYTES: usize = 64 << 10;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct HttpRequest<'a> {
    pub gateway: &'a GatewayState,
    pub method: Method,
    pub host: Host,
    pub path: String,
    query: Vec<(String, String)>,
    headers: HeaderMap,
    body: Option<Incoming>,
}

/// Which of the names under the issuer the request is for.
pub(super) enum Host {
    /// The gateway's own name, the apex, or an address: everything that is not an agent.
    Gateway,
    Pki,
    Agent(Aid),
}

impl<'a> HttpRequest<'a> {
    pub fn new(gateway: &'a GatewayState, request: Request<Incoming>) -> HttpRequest<'a> {
        let (parts, body) = request.into_parts();
        HttpRequest {
            gateway,
            host: host(&parts, &gateway.config.issuer),
            path: parts.uri.path().to_owned(),
            query: query(parts.uri.query().unwrap_or_default()),
            method: parts.method,
            headers: parts.headers,
            body: Some(body),
        }
    }

    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body, if it is not too large and comes in time.
    pub async fn body(&mut self) -> Result<Bytes, Reply> {
        let Some(body) = self.body.take() else { return Ok(Bytes::new()) };
        match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await {
            Ok(Ok(collected)) => Ok(collected.to_bytes()),
            Ok(Err(_)) => {
                Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, "agent_md_too_large", "the body is too large"))
            }
            Err(_) => Err(refuse(StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not come in time")),
        }
    }
}

fn host(parts: &Parts, issuer: &str) -> Host {
    let named = parts
        .headers
        .get(HOST)
        .and_then(|host| host.to_str().ok())
        .or_else(|| parts.uri.host())
        .unwrap_or("");
    let name = match named.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => named,
    };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let Some(label) = name.strip_suffix(issuer).and_then(|name| name.strip_suffix('.')) else {
        return Host::Gateway;
    };
    match label {
        "gateway" => Host::Gateway,
        "pki" => Host::Pki,
        _ => Aid::parse(&name).map_or(Host::Gateway, Host::Agent),
    }
}

/// `a=1&b=%20`: names and values with their escapes undone.
fn query(text: &str) -> Vec<(String, String)> {
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (unescape(name), unescape(value))
        })
        .collect()
}

/// Undoes percent escapes. What is not an escape stays as it is; bytes that are not UTF-8 become U+FFFD, which matches nothing.
pub(super) fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match escape.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                plain.push(byte);
                at += 3;
            }
            None => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone_and_nothing_breaks_on_half_of_one() {
        assert_eq!(unescape("alice%2eaid.pub"), "alice.aid.pub");
        assert_eq!(unescape("100%"), "100%");
        assert_eq!(unescape("%zz%4"), "%zz%4");
        assert_eq!(unescape("é%"), "é%");
        assert_eq!(
            query("a=1&b&c=%26"),
            [("a", "1"), ("b", ""), ("c", "&")].map(|(a, b)| (a.into(), b.into()))
        );
    }
}
