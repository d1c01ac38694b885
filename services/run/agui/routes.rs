//! What is answered over HTTP without a method: streams of frames, and the bytes of pictures.

use super::frames::{read_frames, run_leniently, run_strictly};
use super::pictures::{serve, upload};
use crate::RunService;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use std::sync::Arc;

pub(crate) fn routes(run: Arc<RunService>) -> Router {
    Router::new()
        .route("/api/v1/agent/runs", post(run_strictly))
        .route("/api/v1/agent/ag-ui", post(run_leniently))
        .route("/api/v1/agent/runs/{threadId}/events", get(read_frames))
        .route("/api/v1/agent/attachments", post(upload))
        .route("/api/v1/agent/attachments/agent-inputs/{userId}/{name}", get(serve))
        // The gateway limits bodies by what the paths declare.
        .layer(DefaultBodyLimit::disable())
        .with_state(run)
}
