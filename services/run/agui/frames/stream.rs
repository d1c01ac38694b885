//! Frames as server-sent events.

use super::ThreadFrames;
use crate::RunService;
use crate::error::Error;
use ag_ui::{Frame, FrameId, InputRules};
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, Query, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use kernel::http::header_text;
use kernel::{Caller, RpcError};
use serde::Deserialize;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const MOST_BODY: usize = 1 << 20;
const DEFAULT_IDLE_SECONDS: u64 = 300;
const IDLE_SECONDS: std::ops::RangeInclusive<u64> = 1..=3600;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::agui) struct FramesQuery {
    run_id: Option<String>,
    #[serde(rename = "Last-Event-ID")]
    last_event_id: Option<String>,
    #[serde(rename = "idle_limit")]
    idle_limit: Option<String>,
}

/// `POST /api/v1/agent/runs` of those who accept a stream of events.
pub(in crate::agui) async fn run_strictly(
    State(run): State<Arc<RunService>>,
    caller: Caller,
    body: Body,
) -> Result<Response, RpcError> {
    Ok(streamed_run(run, caller, body, InputRules::Strict).await?)
}

/// `POST /api/v1/agent/ag-ui`: what published clients send.
pub(in crate::agui) async fn run_leniently(
    State(run): State<Arc<RunService>>,
    caller: Caller,
    body: Body,
) -> Result<Response, RpcError> {
    Ok(streamed_run(run, caller, body, InputRules::Lenient).await?)
}

async fn streamed_run(
    run: Arc<RunService>,
    caller: Caller,
    body: Body,
    rules: InputRules,
) -> Result<Response, Error> {
    let body = to_bytes(body, MOST_BODY).await;
    let body = body.map_err(|_| Error::TooLarge(format!("the body must have at most {MOST_BODY} bytes")))?;
    let accepted = run.accept_run(&caller, body.to_vec(), rules).await?;
    let thread = run.own_thread(&caller, &accepted.thread_id).await?;
    let reader = ThreadFrames::of_run(&run, thread, &accepted.run_id, None).await?;
    Ok(events(run, reader, None))
}

/// `GET /api/v1/agent/runs/{threadId}/events`.
pub(in crate::agui) async fn read_frames(
    State(run): State<Arc<RunService>>,
    Path(thread_id): Path<String>,
    Query(query): Query<FramesQuery>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, RpcError> {
    let thread = run.own_thread(&caller, &thread_id).await?;
    // A client that reconnects by itself says so in the header, and keeps the query that it began with.
    let header = header_text(&headers, LAST_EVENT_ID.as_str())?.map(str::to_owned);
    let has = header.or(query.last_event_id).and_then(|text| text.parse::<FrameId>().ok());
    let idle = idle_limit(query.idle_limit.as_deref())?;
    let (mut reader, idle) = match query.run_id.filter(|id| !id.is_empty()) {
        Some(id) => (ThreadFrames::of_run(&run, thread, &id, has).await?, None),
        None => (ThreadFrames::of_thread(&run, thread, has).await?, Some(idle)),
    };
    // A client that reconnects by itself would come again and again for a run that it has read.
    if reader.has_everything().await? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(events(run, reader, idle))
}

fn idle_limit(text: Option<&str>) -> Result<Duration, Error> {
    let seconds = match text.filter(|text| !text.is_empty()) {
        None => Some(DEFAULT_IDLE_SECONDS),
        Some(text) => text.parse().ok().filter(|seconds| IDLE_SECONDS.contains(seconds)),
    };
    let seconds = seconds.ok_or_else(|| {
        let (least, most) = (IDLE_SECONDS.start(), IDLE_SECONDS.end());
        Error::RunInput(format!("idle_limit must be between {least} and {most}"))
    })?;
    Ok(Duration::from_secs(seconds))
}

/// A growing stream. It holds nothing but the state of its reader.
struct FrameTail {
    run: Arc<RunService>,
    reader: ThreadFrames,
    /// After which time without a frame it ends.
    idle: Option<Duration>,
    framed_at: Instant,
    wrote_at: Instant,
    is_over: bool,
}

fn events(run: Arc<RunService>, reader: ThreadFrames, idle: Option<Duration>) -> Response {
    let now = Instant::now();
    let tail = FrameTail { run, reader, idle, framed_at: now, wrote_at: now, is_over: false };
    let frames = stream::unfold(tail, |tail| async {
        let (text, tail) = tail.next().await?;
        Some((Ok::<Bytes, Infallible>(text), tail))
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache, no-transform")];
    (headers, Body::from_stream(frames)).into_response()
}

impl FrameTail {
    /// What comes next, when it is there. A store that is away for a moment ends the stream: its client resumes where it was.
    async fn next(mut self) -> Option<(Bytes, FrameTail)> {
        while !self.is_over {
            let read = self.reader.read().await.ok()?;
            self.is_over = read.is_last;
            let now = Instant::now();
            if !read.frames.is_empty() {
                (self.framed_at, self.wrote_at) = (now, now);
                return Some((written(&read.frames), self));
            }
            if read.is_last || self.idle.is_some_and(|idle| now - self.framed_at >= idle) {
                return None;
            }
            if read.has_more {
                continue;
            }
            let mut most = KEEP_ALIVE.saturating_sub(self.wrote_at.elapsed());
            if let Some(idle) = self.idle {
                most = most.min(idle.saturating_sub(self.framed_at.elapsed()));
            }
            let stop = self.run.stop.clone();
            stop.run_until_cancelled(self.reader.changed(most)).await?;
            if self.wrote_at.elapsed() >= KEEP_ALIVE {
                self.wrote_at = Instant::now();
                return Some((Bytes::from_static(b": keep-alive\n"), self));
            }
        }
        None
    }
}

fn written(frames: &[Frame]) -> Bytes {
    let mut text = String::new();
    for frame in frames {
        // JSON has no line breaks but in strings, where they are escaped.
        let _ = write!(text, "id: {}\nevent: {}\ndata: ", frame.id, frame.kind);
        push_ascii(&mut text, &frame.data);
        text.push_str("\n\n");
    }
    text.into()
}

/// A client may decode each piece that it receives alone, and a piece may end within a character.
fn push_ascii(text: &mut String, json: &str) {
    for c in json.chars() {
        if c.is_ascii() {
            text.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
}
