//! The baseline of appends: an axum handler that reads the events of a request and answers when a group commit has stored them. It
//! knows no tokens, leases, limits or watchers.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::Context as _;
use axum::extract::{Path as UrlPath, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use super::bare_log::{BareEvent, BareLog};
use crate::raw::exit_with_the_parent;

/// The body of an append, as far as it is read.
#[derive(Deserialize)]
struct BareAppend {
    events: Vec<BareEvent>,
}

/// Prints where it listens in the lines of the real server's banner; nothing is asked over TLS.
pub(super) async fn serve(file: &Path) -> anyhow::Result<()> {
    let tasks = TaskTracker::new();
    let log = BareLog::start(file, &tasks).await?;
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("the bare handler could not listen")?;
    let port = listener.local_addr()?.port();
    let mut stdout = std::io::stdout();
    writeln!(stdout, "  gateway   wss://127.0.0.1:{port}/aun\n  plain     ws://127.0.0.1:{port}/aun")?;
    stdout.flush()?;
    std::thread::spawn(exit_with_the_parent);

    let router = Router::new().route("/api/v1/runs/{run}/events", post(append)).with_state(log);
    loop {
        let (stream, _) = listener.accept().await.context("the bare handler could not accept")?;
        // Fails only for a socket that is already reset; the next read will notice.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        tasks.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn append(
    State(log): State<BareLog>,
    UrlPath(run): UrlPath<String>,
    Json(request): Json<BareAppend>,
) -> Response {
    let Some(appended) = log.append(run, request.events).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let last = appended.last().map(|event| event.seq);
    Json(json!({ "data": { "appended": appended, "lastSeq": last }, "ok": true })).into_response()
}
