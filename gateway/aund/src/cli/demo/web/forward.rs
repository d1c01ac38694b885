//! Requests of the page to the API, sent on to the gateway. Bodies are streamed in both directions.

use super::answer::{PageBody, refused};
use client::GatewayDialer;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::handshake;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, HOST,
    HeaderName, RETRY_AFTER,
};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// What is sent on. Everything else of the gateway is out of the reach of the page.
const PREFIX: &str = "/api/v1/agent/";
const METHODS: [Method; 3] = [Method::GET, Method::POST, Method::PUT];

/// What of a request is sent on as it came. Cookies of other servers on this machine are not.
const REQUEST_HEADERS: [HeaderName; 4] =
    [ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName::from_static("last-event-id")];
const ANSWER_HEADERS: [HeaderName; 5] =
    [CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER];

/// A picture of 10 MiB in its form; an input has 256 KiB, and the gateway refuses larger ones itself.
const BODY_BYTES: u64 = 11 << 20;

/// How long the gateway may take from the connection to the head of its answer, the body of the request included.
const HEAD: Duration = Duration::from_secs(60);

pub(super) struct GatewayForwarder {
    dialer: GatewayDialer,
    connections: TaskTracker,
}

/// The body of an answer. The connection to the gateway ends with it, so a page that leaves a stream ends it there, too.
struct ForwardedBody {
    body: Incoming,
    _connection: AbortOnDropHandle<()>,
}

impl GatewayForwarder {
    pub fn new(dialer: GatewayDialer) -> GatewayForwarder {
        GatewayForwarder { dialer, connections: TaskTracker::new() }
    }

    /// Whether a request is one for the gateway. A path that could mean another one when it is resolved is not.
    pub fn takes(path: &str) -> bool {
        let below = path.strip_prefix(PREFIX).is_some_and(|rest| !rest.is_empty());
        below && !path.contains("..") && !path.contains("//") && !path.to_ascii_lowercase().contains("%2e")
    }

    pub async fn forward(&self, request: Request<Incoming>) -> Response<PageBody> {
        if !METHODS.contains(request.method()) {
            return refused(
                StatusCode::METHOD_NOT_ALLOWED,
                "METHOD_NOT_ALLOWED",
                "this method is not forwarded",
            );
        }
        match request.body().size_hint().exact() {
            None => return refused(StatusCode::LENGTH_REQUIRED, "LENGTH_REQUIRED", "the body has no length"),
            Some(length) if length > BODY_BYTES => {
                return refused(StatusCode::PAYLOAD_TOO_LARGE, "BODY_TOO_LARGE", "the body is too large");
            }
            Some(_) => {}
        }
        match timeout(HEAD, self.exchange(request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                let sentence = format!("the gateway does not answer: {error}");
                refused(StatusCode::BAD_GATEWAY, "GATEWAY_UNAVAILABLE", &sentence)
            }
            Err(_) => {
                refused(StatusCode::GATEWAY_TIMEOUT, "GATEWAY_TIMEOUT", "the gateway did not answer in time")
            }
        }
    }

    async fn exchange(&self, request: Request<Incoming>) -> anyhow::Result<Response<PageBody>> {
        let stream = self.dialer.dial().await?;
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
        let driver = self.connections.spawn(async move {
            // The request that waits on it sees the same error.
            let _ = connection.await;
        });
        let driver = AbortOnDropHandle::new(driver);
        let answer = sender.send_request(self.forwarded(request)?).await?;
        let (head, body) = answer.into_parts();
        let mut passed = Response::builder().status(head.status);
        for name in ANSWER_HEADERS {
            if let Some(value) = head.headers.get(&name) {
                passed = passed.header(name, value);
            }
        }
        Ok(passed.body(PageBody::new(ForwardedBody { body, _connection: driver }))?)
    }

    fn forwarded(&self, request: Request<Incoming>) -> Result<Request<Incoming>, hyper::http::Error> {
        let (head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut passed = Request::builder().method(head.method).uri(path).header(HOST, self.dialer.host());
        for name in REQUEST_HEADERS {
            if let Some(value) = head.headers.get(&name) {
                passed = passed.header(name, value);
            }
        }
        passed.body(body)
    }
}

impl Body for ForwardedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_the_api_are_forwarded() {
        for path in [
            "/api/v1/agent/runs",
            "/api/v1/agent/runs/x/events",
            "/api/v1/agent/attachments/agent-inputs/a/b.png",
        ] {
            assert!(GatewayForwarder::takes(path), "{path}");
        }
        for path in [
            "/rpc",
            "/",
            "/api/v1/agent",
            "/api/v1/agent/",
            "/api/v1/runs",
            "/api/v1/agent/../runs",
            "/api/v1/agent/%2E%2e/runs",
            "/api/v1/agent//runs",
            "/API/v1/agent/runs",
        ] {
            assert!(!GatewayForwarder::takes(path), "{path}");
        }
    }
}
