//! The raw baseline of HTTP: an axum router with a handler that reads the row of an agent, and one that answers a ping.

use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::Context as _;
use axum::extract::{Path as UrlPath, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

/// As many as the server under measurement reads with.
const READERS: u32 = 4;

/// Where it listens.
pub(super) async fn listener() -> anyhow::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("the baseline could not listen")
}

pub(super) async fn serve(listener: TcpListener, file: &Path) -> anyhow::Result<()> {
    let options = SqliteConnectOptions::new().filename(file).read_only(true);
    let pool = SqlitePoolOptions::new().max_connections(READERS).connect_with(options).await?;
    let router = Router::new().route("/agents/{id}", get(agent)).route("/rpc", post(ping)).with_state(pool);
    let tasks = TaskTracker::new();
    loop {
        let (stream, _) = listener.accept().await.context("the baseline could not accept")?;
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        tasks.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

type AgentColumns = (String, String, String, String, String, i64, i64);

async fn agent(State(pool): State<SqlitePool>, UrlPath(id): UrlPath<String>) -> Response {
    let row: sqlx::Result<Option<AgentColumns>> = sqlx::query_as(
        "SELECT id, aid, owner, name, connection_mode, created_at, updated_at FROM agent WHERE id = $1",
    )
    .bind(id)
    .fetch_optional(&pool)
    .await;
    let Ok(Some((id, aid, owner_id, name, connection_mode, created_at, updated_at))) = row else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let agent = json!({
        "id": id, "aid": aid, "owner_id": owner_id, "name": name, "connection_mode": connection_mode,
        "created_at": created_at, "updated_at": updated_at,
    });
    Json(json!({ "data": agent })).into_response()
}

#[derive(Deserialize)]
struct RpcPing {
    id: Box<RawValue>,
}

async fn ping(Json(request): Json<RpcPing>) -> Response {
    let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"pong\":true}}}}", request.id.get());
    ([(CONTENT_TYPE, "application/json")], answer).into_response()
}
