//! The server of the page: its files, the API of the gateway, and newer tokens. It listens on 127.0.0.1 only.

use super::answer::{self, PageBody, refused};
use super::files;
use super::forward::GatewayForwarder;
use super::tokens::PageTokens;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How long a browser may take for the head of a request.
const HEAD: Duration = Duration::from_secs(10);
const HEAD_BYTES: usize = 32 << 10;

/// Browsers open six connections to one server.
const CONNECTIONS: usize = 64;

/// Until a connection is accepted again after that failed.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct PageServer {
    pub port: u16,
    pub forwarder: GatewayForwarder,
    pub tokens: PageTokens,
}

/// A listener on the loopback interface; port 0 is any that is free.
pub(super) async fn listen(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await
}

impl PageServer {
    /// Serves until it is dropped, with all connections.
    pub async fn serve(self, listener: TcpListener) {
        let server = Arc::new(self);
        let mut connections = JoinSet::new();
        let free = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            while connections.try_join_next().is_some() {}
            let Ok(permit) = free.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let serving = server.clone().serve_connection(stream);
                    connections.spawn(async move {
                        serving.await;
                        drop(permit);
                    });
                }
                // Too many open files, for instance.
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    async fn serve_connection(self: Arc<Self>, stream: TcpStream) {
        let service = service_fn(move |request| {
            let server = self.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEAD_BYTES);
        // A browser that leaves in the middle of an answer does nothing wrong.
        let _ = http.serve_connection(TokioIo::new(stream), service).await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<PageBody> {
        let mut answer = self.route(request).await;
        answer::protect(answer.headers_mut());
        answer
    }

    async fn route(&self, request: Request<Incoming>) -> Response<PageBody> {
        if !is_for(self.port, &request) {
            let sentence =
                format!("this server is http://127.0.0.1:{}/ and answers no other name", self.port);
            return refused(StatusCode::FORBIDDEN, "WRONG_HOST", &sentence);
        }
        let path = request.uri().path();
        if GatewayForwarder::takes(path) {
            return self.forwarder.forward(request).await;
        }
        match (request.method(), path) {
            (&Method::POST, "/token") => self.newer_token(&request).await,
            (&Method::GET | &Method::HEAD, path) => match files::file(path) {
                Some(file) => answer::file(file),
                None => refused(StatusCode::NOT_FOUND, "NOT_FOUND", "there is no such page"),
            },
            _ => refused(StatusCode::NOT_FOUND, "NOT_FOUND", "there is no such page"),
        }
    }

    /// A newer token for the page that has one of ours.
    async fn newer_token(&self, request: &Request<Incoming>) -> Response<PageBody> {
        let authorization = only(request, &AUTHORIZATION).unwrap_or_default();
        let old = authorization.strip_prefix("Bearer ").unwrap_or_default();
        match self.tokens.exchange(old).await {
            Some(Ok(token)) => answer::json(&json!({ "access_token": token })),
            Some(Err(error)) => {
                let sentence = format!("the gateway gives no new token: {error}");
                refused(StatusCode::BAD_GATEWAY, "GATEWAY_UNAVAILABLE", &sentence)
            }
            None => refused(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", "this token is not one of this page"),
        }
    }
}

/// Whether a request names this server. A page of another site can have a name of its own resolve to 127.0.0.1, and would then be of
/// the same origin as this one in the eyes of the browser: what it cannot change is that name. Requests from its own origin have one
/// that is not ours.
fn is_for<B>(port: u16, request: &Request<B>) -> bool {
    let names = ["127.0.0.1", "localhost"];
    // Browsers leave out the port that http has anyway.
    let is_ours = |name: &str| {
        names.iter().any(|known| name == format!("{known}:{port}") || (port == 80 && name == *known))
    };
    let host = only(request, &HOST).is_some_and(is_ours);
    let target = request.uri().authority().is_none_or(|authority| is_ours(authority.as_str()));
    let origin = match request.headers().contains_key(ORIGIN) {
        true => only(request, &ORIGIN).and_then(|origin| origin.strip_prefix("http://")).is_some_and(is_ours),
        false => true,
    };
    host && target && origin
}

/// The value of a header that a request has once.
fn only<'a, B>(request: &'a Request<B>, name: &HeaderName) -> Option<&'a str> {
    let mut values = request.headers().get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_answered(target: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::get(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        is_for(4000, &request.body(()).unwrap())
    }

    #[test]
    fn other_names_of_this_address_are_refused() {
        for host in ["127.0.0.1:4000", "localhost:4000"] {
            assert!(is_answered("/", &[("host", host)]), "{host}");
        }
        for host in [
            "evil.example:4000",
            "127.0.0.1",
            "127.0.0.1:4001",
            "localhost",
            "127.0.0.1:4000.evil.example",
            "[::1]:4000",
            "",
        ] {
            assert!(!is_answered("/", &[("host", host)]), "{host}");
        }
        assert!(!is_answered("/", &[]));
        assert!(!is_answered("/", &[("host", "127.0.0.1:4000"), ("host", "evil.example")]));
        assert!(!is_answered("http://evil.example/", &[("host", "127.0.0.1:4000")]));
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let with_origin = |origin| is_answered("/token", &[("host", "localhost:4000"), ("origin", origin)]);
        assert!(with_origin("http://localhost:4000") && with_origin("http://127.0.0.1:4000"));
        for origin in ["http://localhost:4001", "https://localhost:4000", "null", "http://evil.example"] {
            assert!(!with_origin(origin), "{origin}");
        }
    }

    #[test]
    fn port_80_may_be_left_out() {
        let request = Request::get("/").header("host", "localhost").body(()).unwrap();
        assert!(is_for(80, &request) && !is_for(4000, &request));
    }
}
