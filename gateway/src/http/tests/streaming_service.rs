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
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

pub(super) struct StreamingService {
    /// One for each stream that ended, however it did.
    ended: Semaphore,
    /// One for each request to store something that has begun, and for each that may go on.
    pub begun: Semaphore,
    pub may_store: Semaphore,
    stored: AtomicUsize,
}

impl StreamingService {
    pub fn new() -> Arc<StreamingService> {
        let [ended, begun, may_store] = [(); 3].map(|()| Semaphore::new(0));
        Arc::new(StreamingService { ended, begun, may_store, stored: AtomicUsize::new(0) })
    }

    pub fn routes(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/test/events", get(events))
            .route("/test/quiet", get(quiet))
            .route("/test/store", post(store).get(wait))
            .route("/test/small/events", get(events))
            .route("/test/small/headers", get(headers))
            .route("/test/flood", get(flood))
            .route("/test/upload", post(upload))
            .route("/test/headers", get(headers))
            .route("/test/token/headers", get(headers))
            .route("/test/small/upload", post(upload))
            .route("/test/small/never", get(pending::<Response>))
            .with_state(self.clone())
    }

    /// Waits until the service has noticed that nobody reads or writes one of its streams any more.
    pub async fn stream_ended(&self) {
        let ended = timeout(Duration::from_secs(30), self.ended.acquire()).await;
        ended.expect("the service goes on although nobody is there").unwrap().forget();
    }
}

impl StreamingService {
    /// How often something was stored.
    pub fn stored(&self) -> usize {
        self.stored.load(Ordering::Relaxed)
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

/// One event, and nothing after it.
async fn quiet(State(service): State<Arc<StreamingService>>) -> Response {
    let open = OpenStream(service);
    let events = stream::iter(["data: 0\n\n".into()]).chain(stream::pending());
    ([(CONTENT_TYPE, "text/event-stream")], streamed(events.inspect(move |_| _ = &open))).into_response()
}

/// Waits in the middle of its work, then stores something and streams.
async fn store(State(service): State<Arc<StreamingService>>) -> Response {
    service.begun.add_permits(1);
    service.may_store.acquire().await.unwrap().forget();
    service.stored.fetch_add(1, Ordering::Relaxed);
    quiet(State(service)).await
}

/// Waits for ever.
async fn wait(State(service): State<Arc<StreamingService>>) -> Response {
    let _open = OpenStream(service.clone());
    service.begun.add_permits(1);
    pending().await
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
