//! The calling side: one HTTP/2 connection to a process, dialled when a request needs it.

use super::{ALPN, CONNECTION_WINDOW, PING_EVERY, PING_TIMEOUT, SEND_BUFFER, STREAM_WINDOW, TrackedExecutor};
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
use kernel::{RpcError, unavailable};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Mutex;
use tokio::time::timeout;

pub(super) struct MeshHttpLink {
    service: &'static str,
    url: String,
    connection: Mutex<Option<SendRequest<Body>>>,
    in_flight: Arc<AtomicUsize>,
}

impl MeshHttpLink {
    pub fn new(service: &'static str, url: &str) -> MeshHttpLink {
        MeshHttpLink { service, url: url.to_owned(), connection: Mutex::default(), in_flight: Arc::default() }
    }

    /// Requests whose responses are not at their end.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub async fn send(&self, context: &Arc<MeshContext>, request: Request) -> Result<Response, RpcError> {
        let in_flight = RequestInFlight::new(&self.in_flight);
        let mut request = self.addressed(request)?;
        loop {
            let mut connection = self.connection(context).await?;
            match connection.try_send_request(request).await {
                Ok(response) => {
                    let (mut parts, body) = response.into_parts();
                    parts.version = Version::HTTP_11;
                    let body = ResponseBody::new(body).holding(in_flight);
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

    /// The connection that is open, or a new one. Whoever comes meanwhile waits for the same.
    async fn connection(&self, context: &Arc<MeshContext>) -> Result<SendRequest<Body>, RpcError> {
        let mut current = self.connection.lock().await;
        if let Some(open) = current.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok(open.clone());
        }
        let dialled = timeout(DIAL_TIMEOUT, self.connect(context)).await.context("no answer in time");
        let connection = dialled.flatten().map_err(|error| self.failed(error))?;
        *current = Some(connection.clone());
        Ok(connection)
    }

    async fn connect(&self, context: &Arc<MeshContext>) -> anyhow::Result<SendRequest<Body>> {
        let (stream, not_after) = dial_tls(context, self.service, &self.url, Some(ALPN)).await?;
        let (sender, connection) = Builder::new(TrackedExecutor(context.tracker.clone()))
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(stream))
            .await
            .context("HTTP/2")?;
        let (clock, stop) = (context.clock.clone(), context.stop.clone());
        context.tracker.spawn(async move {
            tokio::select! {
                _ = connection => {}
                () = identity::expired(&clock, not_after) => {}
                () = stop.cancelled() => {}
            }
        });
        Ok(sender)
    }

    fn failed(&self, cause: impl Into<anyhow::Error>) -> RpcError {
        RpcError::unavailable(unavailable(self.service), cause.into().context(self.url.clone()))
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
