//! HTTP beside the WebSocket, on the same listener, routed by the host part of `Host`.
//!
//! Clients on another port than 443 send `Host: {aid}` without a port while their TLS name is the gateway's, so the port
//! is ignored and the TLS name is not looked at.

mod agent_md;
mod pki;

use crate::door::Door;
use crate::status;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ALLOW, CONTENT_TYPE, HOST, RETRY_AFTER,
};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use services::kernel::{Aid, RpcError, unavailable};
use std::net::IpAddr;
use std::time::Duration;

/// No document the server takes over HTTP is larger.
const BODY_BYTES: usize = 64 << 10;
const BODY_PATIENCE: Duration = Duration::from_secs(10);

/// Which of the names under the issuer was asked.
enum Host {
    /// The gateway's own name, the apex, or an address: everything that is no agent.
    Ours,
    Pki,
    Agent(Aid),
}

/// One request, taken apart as far as routes need it.
struct Ask<'a> {
    door: &'a Door,
    method: Method,
    host: Host,
    path: String,
    query: Vec<(String, String)>,
    headers: hyper::HeaderMap,
    body: Option<Incoming>,
}

pub async fn answer(door: &Door, address: IpAddr, request: Request<Incoming>) -> Response<Full<Bytes>> {
    if let Err(wait) = door.limits.http(address) {
        door.metrics.http("limited", 429);
        return too_many(door, wait);
    }
    let (parts, body) = request.into_parts();
    let ask = Ask {
        door,
        host: host(&parts, &door.config.issuer),
        path: parts.uri.path().to_owned(),
        query: query(parts.uri.query().unwrap_or_default()),
        method: parts.method,
        headers: parts.headers,
        body: Some(body),
    };
    let (route, reply) = route(ask).await;
    let response = reply.unwrap_or_else(|error| failed(&error)).done();
    door.metrics.http(route, response.status().as_u16());
    response
}

/// The route's name for the metrics, and what it says.
async fn route(mut ask: Ask<'_>) -> (&'static str, Result<Reply, RpcError>) {
    let path = std::mem::take(&mut ask.path);
    if ask.method == Method::OPTIONS {
        return ("preflight", Ok(text(StatusCode::NO_CONTENT, "text/plain", "")));
    }
    if !ask.door.capabilities.serves(&path) {
        // Its process is down: it is not gone, and whoever asks may ask again.
        if let Some((namespace, _)) = ask.door.mesh.health().into_iter().find(|(_, up)| !up) {
            return ("unavailable", Err(unavailable(namespace)));
        }
        return ("unknown", Ok(refuse(StatusCode::NOT_FOUND, "not_found", "Not found")));
    }
    if path == "/agent.md" || (path == "/" && matches!(ask.host, Host::Agent(_))) {
        return ("agent.md", agent_md::answer(ask).await);
    }
    let known = matches!(
        path.as_str(),
        "/health" | "/.well-known/aun-gateway" | "/capabilities" | "/metrics" | "/ca/cert"
    ) || path.starts_with("/pki/")
        || (matches!(ask.host, Host::Pki) && matches!(path.as_str(), "/trust-root.json" | "/root.crt"));
    if !known {
        return ("unknown", Ok(refuse(StatusCode::NOT_FOUND, "not_found", "Not found")));
    }
    if ask.method != Method::GET && ask.method != Method::HEAD {
        let refused =
            refuse(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "GET and HEAD are answered here");
        return ("unknown", Ok(refused.header(ALLOW, "GET, HEAD, OPTIONS")));
    }
    match path.as_str() {
        "/health" => {
            let (status, health) = status::health(&ask.door.mesh);
            ("health", Ok(json_reply(status, &health)))
        }
        "/.well-known/aun-gateway" => ("well-known", Ok(json_reply(StatusCode::OK, &well_known(ask.door)))),
        "/capabilities" => {
            ("capabilities", Ok(text(StatusCode::OK, "application/json", &ask.door.capabilities.text())))
        }
        "/metrics" => ("metrics", Ok(metrics(ask.door))),
        _ => ("pki", pki::answer(&ask, &path).await),
    }
}

fn well_known(door: &Door) -> Value {
    let mut document = json!({
        "gateways": [{ "url": door.public_url, "priority": 1 }],
        "gateway": door.public_url,
        "issuer": door.config.issuer,
        "version": "1.0",
    });
    if door.federation().is_some() {
        document["federation"] = json!({ "versions": ["1.0"], "url": door.public_url });
    }
    document
}

fn metrics(door: &Door) -> Reply {
    door.metrics.outbox_bytes.set(i64::try_from(door.outbox_bytes()).unwrap_or(i64::MAX));
    door.metrics.take_bus(door.bus.stats().unwrap_or_default(), door.presence.taken());
    text(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", &door.metrics.text())
}

fn host(parts: &hyper::http::request::Parts, issuer: &str) -> Host {
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
        return Host::Ours;
    };
    match label {
        "gateway" => Host::Ours,
        "pki" => Host::Pki,
        _ => Aid::parse(&name).map_or(Host::Ours, Host::Agent),
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

/// Undoes percent escapes. What is no escape stays as it is; bytes that are no text become a mark that matches nothing.
fn unescape(text: &str) -> String {
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

impl Ask<'_> {
    fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body, if it is of a size the server takes and comes in time.
    async fn body(&mut self) -> Result<Bytes, Reply> {
        let Some(body) = self.body.take() else { return Ok(Bytes::new()) };
        match tokio::time::timeout(BODY_PATIENCE, Limited::new(body, BODY_BYTES).collect()).await {
            Ok(Ok(collected)) => Ok(collected.to_bytes()),
            Ok(Err(_)) => {
                Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, "agent_md_too_large", "the body is too large"))
            }
            Err(_) => Err(refuse(StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not come in time")),
        }
    }
}

/// A response in the making. Every one may be read from any origin: nothing here depends on who asks, but for `PUT`,
/// which wants a token that no browser sends by itself.
pub struct Reply(Response<Full<Bytes>>);

pub fn text(status: StatusCode, kind: &str, body: &str) -> Reply {
    bytes(status, kind, body.to_owned())
}

/// A status and nothing else.
pub fn bare(status: StatusCode) -> Reply {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    Reply(response)
}

pub fn bytes(status: StatusCode, kind: &str, body: impl Into<Bytes>) -> Reply {
    let mut reply = bare(status);
    *reply.0.body_mut() = Full::new(body.into());
    reply
        .header(CONTENT_TYPE, kind)
        .header(ACCESS_CONTROL_ALLOW_ORIGIN, "*")
        .header(ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, PUT, OPTIONS")
        .header(ACCESS_CONTROL_ALLOW_HEADERS, "*, Authorization")
        .header(
            ACCESS_CONTROL_EXPOSE_HEADERS,
            "ETag, Last-Modified, X-AUN-Cert-Consistency, X-AUN-Cert-Lifecycle-State, X-AUN-Cert-Fingerprint, \
             X-AUN-Cert-Observed-At",
        )
}

pub fn json_reply(status: StatusCode, body: &Value) -> Reply {
    text(status, "application/json", &body.to_string())
}

pub fn refuse(status: StatusCode, code: &str, sentence: &str) -> Reply {
    json_reply(status, &json!({ "error": sentence, "code": code }))
}

impl Reply {
    #[must_use]
    pub fn header(mut self, name: impl hyper::header::IntoHeaderName, value: &str) -> Reply {
        if let Ok(value) = value.parse() {
            self.0.headers_mut().insert(name, value);
        }
        self
    }

    pub fn done(self) -> Response<Full<Bytes>> {
        self.0
    }
}

/// What a room's refusal is over HTTP.
fn failed(error: &RpcError) -> Reply {
    error.log("http");
    let status = match (error.data("http_status").and_then(Value::as_u64), error.code()) {
        (Some(status), _) => u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok()),
        (None, -32602) => Some(StatusCode::BAD_REQUEST),
        (None, 4001 | -32001) => Some(StatusCode::UNAUTHORIZED),
        (None, -32008) => Some(StatusCode::NOT_FOUND),
        (None, 5003) => Some(StatusCode::SERVICE_UNAVAILABLE),
        (None, _) => None,
    };
    let kind = error.data("kind").and_then(Value::as_str).unwrap_or("internal");
    refuse(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), kind, &error.to_string())
}

fn too_many(door: &Door, wait: Duration) -> Response<Full<Bytes>> {
    let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
    let seconds = ms.div_ceil(1000);
    let body = json!({
        "error": "Rate limit exceeded",
        "code": "rate_limit_exceeded",
        "tier": "read",
        "retryAfterMs": ms,
    });
    json_reply(StatusCode::TOO_MANY_REQUESTS, &body)
        .header(RETRY_AFTER, &seconds.to_string())
        .header("x-ratelimit-limit", &door.limits.http_per_second.to_string())
        .header("x-ratelimit-remaining", "0")
        .header(
            "x-ratelimit-reset",
            &(door.clock.now_seconds() + i64::try_from(seconds).unwrap_or(1)).to_string(),
        )
        .done()
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
