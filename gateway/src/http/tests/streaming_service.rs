//! A service that streams both ways, for as long as somebody is there.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::{Stream, StreamExt as _, stream};
use ring::digest;
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

pub(super) struct StreamingService {
    /// One for each stream that ended, however it did.
    ended: Semaphore,
}

impl StreamingService {
    pub fn new() -> Arc<StreamingService> {
        Arc::new(StreamingService { ended: Semaphore::new(0) })
    }

    pub fn routes(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/test/events", get(events))
            .route("/test/flood", get(flood))
            .route("/test/upload", post(upload))
            .route("/test/headers", get(headers))
            .route("/test/token/headers", get(headers))
            .route("/test/small/upload", post(upload))
            .route("/test/small/never", get(std::future::pending::<Response>))
            .with_state(self.clone())
    }

    /// Waits until the service has noticed that nobody reads or writes one of its streams any more.
    pub async fn stream_ended(&self) {
        let ended = timeout(Duration::from_secs(30), self.ended.acquire()).await;
        ended.expect("the service goes on although nobody is there").unwrap().forget();
    }
}

/// Exists as long as a stream does.
struct OpenStream(Arc<StreamingService>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.ended.add_permits(1);
    }
}

/// Server-sent events without an end: `data: 0`, `data: 1`, …
async fn events(State(service): State<Arc<StreamingService>>) -> Response {
    let events = stream::unfold((0, OpenStream(service)), |(n, open)| async move {
        sleep(Duration::from_millis(5)).await;
        Some((format!("data: {n}\n\n").into(), (n + 1, open)))
    });
    ([(CONTENT_TYPE, "text/event-stream")], streamed(events)).into_response()
}

/// As many bytes as the other side takes.
async fn flood(State(service): State<Arc<StreamingService>>) -> Response {
    let open = OpenStream(service);
    let pieces = stream::repeat(Bytes::from_static(&[7; 64 << 10]));
    streamed(pieces.inspect(move |_| _ = &open)).into_response()
}

fn streamed(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Body {
    Body::from_stream(pieces.map(Ok::<_, Infallible>))
}

/// Hashes the body piece by piece.
async fn upload(State(service): State<Arc<StreamingService>>, body: Body) -> Response {
    let _open = OpenStream(service);
    let (mut hash, mut bytes, mut largest_piece) = (digest::Context::new(&digest::SHA256), 0, 0);
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let Ok(piece) = piece else { return "half a body".into_response() };
        hash.update(&piece);
        (bytes, largest_piece) = (bytes + piece.len(), largest_piece.max(piece.len()));
    }
    let sha256 = hex::encode(hash.finish());
    json!({ "sha256": sha256, "bytes": bytes, "largest_piece": largest_piece }).to_string().into_response()
}

/// What the gateway says about the request.
async fn headers(headers: HeaderMap) -> Response {
    let text = |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let all: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), text(value))).collect();
    json!(all).to_string().into_response()
}
