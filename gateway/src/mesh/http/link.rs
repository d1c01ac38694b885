//! The calling side: the HTTP/2 connections to a process, dialled when a request needs one.
//!
//! Streams, which last as long as their clients, have connections of their own. So no other request ever waits for one of them, and
//! what a slow reader leaves unread is held in smaller windows.

use super::pool::{ConnectionPool, IDLE};
use super::{
    ALPN, PING_EVERY, PING_TIMEOUT, READER_WINDOW, SEND_BUFFER, STREAM_WINDOW, STREAMS, TrackedExecutor,
};
use crate::http_body::ResponseBody;
use crate::mesh::MeshContext;
use crate::mesh::dial_tls::{DIAL_TIMEOUT, dial_tls};
use crate::mesh::identity::{self, server_name};
use anyhow::Context as _;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use kernel::http::deadline_of;
use kernel::{RpcError, unavailable};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use tokio::time::{Instant, sleep, timeout};

type Pool = ConnectionPool<SendRequest<Body>>;

pub(super) struct MeshHttpLink {
    service: &'static str,
    url: String,
    /// For requests that end by their deadlines.
    requests: Arc<Pool>,
    /// For those without one.
    streams: Arc<Pool>,
    in_flight: Arc<AtomicUsize>,
}

impl MeshHttpLink {
    pub fn new(service: &'static str, url: &str) -> MeshHttpLink {
        MeshHttpLink {
            service,
            url: url.to_owned(),
            requests: Pool::new(),
            streams: Pool::new(),
            in_flight: Arc::default(),
        }
    }

    /// Requests whose responses are not at their end.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub async fn send(&self, context: &Arc<MeshContext>, request: Request) -> Result<Response, RpcError> {
        let in_flight = RequestInFlight::new(&self.in_flight);
        let is_stream = deadline_of(request.headers()).is_none();
        let mut request = self.addressed(request)?;
        let (pool, window) = match is_stream {
            true => (&self.streams, READER_WINDOW),
            false => (&self.requests, STREAM_WINDOW),
        };
        loop {
            let mut stream = pool.stream(async |id| self.dial(context, (pool, id), window).await).await?;
            match stream.connection.try_send_request(request).await {
                Ok(response) => {
                    let (mut parts, body) = response.into_parts();
                    parts.version = Version::HTTP_11;
                    let body = ResponseBody::new(body).holding((in_flight, stream));
                    return Ok(Response::from_parts(parts, Body::new(body)));
                }
                Err(mut failed) => match failed.take_message() {
                    // The connection closed before any of it was sent. The next one is dialled, so this ends.
                    Some(unsent) => request = unsent,
                    None => return Err(self.failed(failed.into_error())),
                },
            }
        }
    }

    /// The same request to the name that this service has on the mesh.
    fn addressed(&self, request: Request) -> Result<Request, RpcError> {
        let (mut parts, body) = request.into_parts();
        let mut uri = parts.uri.into_parts();
        uri.scheme = Some(Scheme::HTTPS);
        uri.authority = Some(Authority::try_from(server_name(self.service)).map_err(RpcError::internal)?);
        uri.path_and_query.get_or_insert(PathAndQuery::from_static("/"));
        parts.uri = Uri::from_parts(uri).map_err(RpcError::internal)?;
        parts.version = Version::HTTP_2;
        Ok(Request::from_parts(parts, body))
    }

    async fn dial(
        &self,
        context: &Arc<MeshContext>,
        pooled: (&Arc<Pool>, u64),
        window: u32,
    ) -> Result<SendRequest<Body>, RpcError> {
        let dialled = timeout(DIAL_TIMEOUT, self.connect(context, pooled, window)).await;
        dialled.context("no answer in time").flatten().map_err(|error| self.failed(error))
    }

    async fn connect(
        &self,
        context: &Arc<MeshContext>,
        (pool, id): (&Arc<Pool>, u64),
        window: u32,
    ) -> anyhow::Result<SendRequest<Body>> {
        let (stream, not_after) = dial_tls(context, self.service, &self.url, Some(ALPN)).await?;
        let (sender, connection) = Builder::new(TrackedExecutor(context.tracker.clone()))
            .timer(TokioTimer::new())
            .initial_stream_window_size(window)
            .initial_connection_window_size(window * STREAMS)
            .max_send_buf_size(SEND_BUFFER)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(stream))
            .await
            .context("HTTP/2")?;
        let (clock, stop, pool) = (context.clock.clone(), context.stop.clone(), Arc::downgrade(pool));
        context.tracker.spawn(async move {
            tokio::select! {
                _ = connection => {}
                () = identity::expired(&clock, not_after) => {}
                () = idle(&pool, id) => {}
                () = stop.cancelled() => {}
            }
        });
        Ok(sender)
    }

    fn failed(&self, cause: impl Into<anyhow::Error>) -> RpcError {
        RpcError::unavailable(unavailable(self.service), cause.into().context(self.url.clone()))
    }
}

/// Returns when a connection is not needed any more.
async fn idle(pool: &Weak<Pool>, id: u64) {
    loop {
        sleep(IDLE / 2).await;
        if pool.upgrade().is_none_or(|pool| pool.forget_idle(id, Instant::now())) {
            return;
        }
    }
}

/// Counts a request until the end of its response.
struct RequestInFlight(Arc<AtomicUsize>);

impl RequestInFlight {
    fn new(count: &Arc<AtomicUsize>) -> RequestInFlight {
        count.fetch_add(1, Ordering::Relaxed);
        RequestInFlight(count.clone())
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
