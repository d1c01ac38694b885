//! `GET /api/v1/runs/{runId}/events` for those who ask for an event stream: the log from a seq on, as it grows.

use crate::RunService;
use crate::error::Error;
use crate::model::run::RunRow;
use crate::shown::{events_shown, kind_word};
use crate::watching::RunWatch;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use kernel::http::header_text;
use kernel::{Caller, RpcError};
use proto_schemas::requests::run::RunEvent;
use serde::Deserialize;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// After which a stream ends, and its client comes again: who has lost the right to read a run then reads it no more.
const LONGEST: Duration = Duration::from_mins(10);
/// Events that are read and written at once.
const PAGE: i64 = 200;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WatchQuery {
    after_seq: Option<String>,
}

pub(crate) async fn watch_events(
    State(run): State<Arc<RunService>>,
    Path(id): Path<String>,
    Query(query): Query<WatchQuery>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, RpcError> {
    let found = run.run_of(&caller, &id).await?;
    // A client that reconnects by itself says so in this header, and keeps the query that it began with.
    let resumed = header_text(&headers, LAST_EVENT_ID.as_str())?.map(str::to_owned);
    let after = match resumed.or(query.after_seq).filter(|text| !text.is_empty()) {
        None => 0,
        Some(text) => seq_of(&text)?,
    };
    let watch = run.watched.watch(&found.row.id);
    let now = Instant::now();
    let tail =
        EventTail { run, row: found.row, after, watch, wrote_at: now, until: now + LONGEST, ended: false };
    let frames = stream::unfold(tail, |tail| async {
        let (frame, tail) = tail.next().await?;
        Some((Ok::<Bytes, Infallible>(frame), tail))
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")];
    Ok((headers, Body::from_stream(frames)).into_response())
}

fn seq_of(text: &str) -> Result<i64, Error> {
    let seq = text.parse::<i64>().ok().filter(|seq| *seq >= 0);
    seq.ok_or_else(|| Error::Invalid("afterSeq must be an integer of at least 0".to_owned()))
}

/// One reader of a growing log. It holds nothing but the seq that it has written.
struct EventTail {
    run: Arc<RunService>,
    row: RunRow,
    after: i64,
    watch: RunWatch,
    wrote_at: Instant,
    until: Instant,
    ended: bool,
}

impl EventTail {
    /// What comes next, when it is there; `None` after the terminal event of the run, and after the longest time of a stream.
    async fn next(mut self) -> Option<(Bytes, EventTail)> {
        while !self.ended && Instant::now() < self.until {
            // A store that is away for a moment ends the stream: the client resumes where it was.
            let page = self.run.store.events_page(&self.row.id, self.after, PAGE, &[]).await.ok()?;
            let next_after_seq = page.next_after_seq;
            let page = events_shown(&self.row.id, page).ok()?;
            if let Some(last) = page.events.last() {
                self.after = last.seq;
                self.ended = page.events.iter().any(ends_run);
                self.wrote_at = Instant::now();
                return Some((written(&page.events), self));
            }
            // The end may have been read by an earlier connection of the same client.
            let found = self.run.store.run(&self.row.id).await.ok()??;
            if found.row.ended_at.is_some() && self.after >= found.row.last_seq {
                return None;
            }
            self.row = found.row;
            if self.row.last_seq > self.after {
                // What is removed after its retention leaves a gap.
                self.after = self.after.max(next_after_seq);
                continue;
            }
            let silent = self.wrote_at.elapsed();
            let stop = self.run.stop.clone();
            let most = self.until.saturating_duration_since(Instant::now());
            let waited = self.watch.changed(KEEP_ALIVE.saturating_sub(silent).min(most));
            stop.run_until_cancelled(waited).await?;
            if self.wrote_at.elapsed() >= KEEP_ALIVE {
                self.wrote_at = Instant::now();
                return Some((Bytes::from_static(b": keep-alive\n\n"), self));
            }
        }
        None
    }
}

/// Whether this is the last event of its run.
fn ends_run(event: &RunEvent) -> bool {
    #[derive(Deserialize)]
    struct End {
        scope: Option<String>,
    }
    let is_end = event.kind == proto_schemas::requests::run::RunEventType::TerminalStatus;
    let scope = || serde_json::from_str::<End>(event.payload.get()).ok().and_then(|end| end.scope);
    is_end && scope().as_deref() == Some("run")
}

fn written(events: &[RunEvent]) -> Bytes {
    let mut text = String::new();
    for event in events {
        let data = serde_json::to_string(event).unwrap_or_default();
        let kind = kind_word(event.kind);
        // JSON has no line breaks but in strings, where they are escaped.
        let _ = write!(text, "id: {}\nevent: {kind}\ndata: {data}\n\n", event.seq);
    }
    text.into()
}
