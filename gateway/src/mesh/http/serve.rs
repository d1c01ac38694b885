//! The answering side: requests of other processes go to the routers of this one.

use super::{
    CONNECTION_WINDOW, PING_EVERY, PING_TIMEOUT, SEND_BUFFER, STREAM_WINDOW, STREAMS, TrackedExecutor,
};
use crate::http_body::{ResponseBody, is_event_stream};
use crate::local_routes;
use crate::mesh::MeshContext;
use crate::mesh::identity::{self, service_of};
use crate::mesh::peer::MeshPeer;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use kernel::http::{caller_of, deadline_of, refuse};
use kernel::{RpcError, ServiceRoutes, unavailable};
use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const HEADER_BYTES: u32 = 64 << 10;
/// A connection is made for a request, which comes at once.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// What every request of one connection has in common.
struct HttpConnection {
    context: Arc<MeshContext>,
    peer: MeshPeer,
    calls: TaskTracker,
    drain: CancellationToken,
    /// Whether a request has come.
    asked: AtomicBool,
}

/// Answers the requests of one connection until it ends; after `drain`, those that have begun.
pub(in crate::mesh) async fn serve_http<S>(
    context: &Arc<MeshContext>,
    stream: S,
    peer: MeshPeer,
    calls: TaskTracker,
    drain: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (not_after, tracker, draining) = (peer.not_after, calls.clone(), drain.clone());
    let asked = AtomicBool::new(false);
    let shared = Arc::new(HttpConnection { context: context.clone(), peer, calls, drain, asked });
    let connected = shared.clone();
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(shared.answer(request).await) }
    });
    let mut http = Builder::new(TrackedExecutor(tracker));
    http.timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(STREAMS)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(HEADER_BYTES)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let stayed_silent = async {
        sleep(FIRST_REQUEST_TIMEOUT).await;
        if connected.asked.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stayed_silent => return,
        () = identity::expired(&context.clock, not_after) => return,
        () = draining.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("an HTTP connection of the mesh ended early: {error}");
    }
}

impl HttpConnection {
    async fn answer(&self, request: Request<Incoming>) -> Response {
        self.asked.store(true, Ordering::Relaxed);
        let deadline = deadline_of(request.headers()).and_then(|within| Instant::now().checked_add(within));
        match self.call(request).await {
            Ok(response) => self.until(response, deadline),
            Err(error) => error.into_response(),
        }
    }

    async fn call(&self, request: Request<Incoming>) -> Result<Response, RpcError> {
        // What the gateway says of a caller is believed from a gateway only.
        if !caller_of(request.headers()).is_some_and(|caller| self.peer.may_speak_for(&caller)) {
            let sentence = "the certificate of the other side does not cover the caller of the request";
            return Ok(refuse(StatusCode::FORBIDDEN, "forbidden", sentence));
        }
        let service = request.uri().host().and_then(service_of).unwrap_or_default();
        let Some(ServiceRoutes::Local(router)) = self.context.mesh.routes(service) else {
            return Err(unavailable(service));
        };
        local_routes::call(router, request.map(Body::new), &self.calls).await
    }

    fn until(&self, response: Response, deadline: Option<Instant>) -> Response {
        let (parts, body) = response.into_parts();
        let mut body = ResponseBody::new(body);
        if let Some(deadline) = deadline {
            body = body.until(deadline);
        }
        if is_event_stream(&parts.headers) {
            body = body.until_stopped(&self.drain);
        }
        Response::from_parts(parts, Body::new(body))
    }
}
