//! An event stream of a run, as a watcher reads it.

use std::pin::Pin;

use anyhow::{Context as _, ensure};
use axum::body::{Body, BodyDataStream};
use futures_util::StreamExt as _;
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::agent::BenchEndpoint;

use super::http::host;

/// What begins the line with the seq of an event.
const ID: &[u8] = b"id: ";

/// What begins the line with the whole event.
const DATA: &[u8] = b"data: ";

/// A stream on a connection of its own.
pub(super) struct RunEventStream {
    body: Pin<Box<BodyDataStream>>,
    frames: FrameReader,
    /// The connection lives as long as these.
    _sender: SendRequest<Body>,
    _connection: JoinSet<()>,
}

/// A whole event.
pub(super) struct WatchedEvent {
    pub(super) seq: u64,
    data: Value,
}

/// Finds the events in what has arrived.
#[derive(Default)]
struct FrameReader {
    unread: Vec<u8>,
}

impl RunEventStream {
    /// Opens a stream of what follows this seq.
    pub(super) async fn open(
        endpoint: &BenchEndpoint,
        token: &str,
        run: &str,
        after: u64,
    ) -> anyhow::Result<Self> {
        let (mut sender, connection) = handshake(TokioIo::new(endpoint.stream().await?)).await?;
        let mut task = JoinSet::new();
        task.spawn(async move {
            // A connection that breaks ends the stream, which reports it.
            let _ = connection.await;
        });
        let request = Request::get(format!("/api/v1/runs/{run}/events?afterSeq={after}"))
            .header("Host", host())
            .header("Accept", "text/event-stream")
            .header("Authorization", format!("Bearer {token}"))
            .body(Body::empty())?;
        let answer = sender.send_request(request).await.context("a stream was not opened")?;
        ensure!(answer.status().is_success(), "a stream was answered with {}", answer.status());
        let body = Box::pin(Body::new(answer.into_body()).into_data_stream());
        Ok(Self { body, frames: FrameReader::default(), _sender: sender, _connection: task })
    }

    /// The seqs of the next events, those that have come together.
    pub(super) async fn next(&mut self) -> anyhow::Result<Vec<u64>> {
        let piece = self.body.next().await.context("the server ended a stream")??;
        self.frames.read(&piece, seq_of)
    }

    /// The next events as a whole, those that have come together.
    pub(super) async fn next_events(&mut self) -> anyhow::Result<Vec<WatchedEvent>> {
        let piece = self.body.next().await.context("the server ended a stream")??;
        self.frames.read(&piece, WatchedEvent::read)
    }
}

impl WatchedEvent {
    fn read(frame: &[u8]) -> anyhow::Result<Option<Self>> {
        let Some(seq) = seq_of(frame)? else { return Ok(None) };
        let data = member(frame, DATA).context("an event of a stream has no data")?;
        Ok(Some(Self { seq, data: serde_json::from_slice(data)? }))
    }

    /// Whether a command ends with it. Every command of the bench must be completed.
    pub(super) fn ends(&self, command: &str) -> anyhow::Result<bool> {
        let is_end = self.data["type"] == "terminal_status" && self.data["commandId"] == command;
        let payload = &self.data["payload"];
        ensure!(!is_end || payload["status"] == "completed", "a turn was not completed: {payload}");
        Ok(is_end)
    }

    /// The text that it adds to a message; none if it is anything else than a part of a message.
    pub(super) fn part(&self) -> Option<&str> {
        let payload = &self.data["payload"];
        let is_part = self.data["type"] == "assistant_message" && payload["partial"] == true;
        payload["text"].as_str().filter(|_| is_part)
    }
}

impl FrameReader {
    /// What is wanted of the events that are whole with this piece. Of comments, which keep the connection, it is nothing.
    fn read<T>(
        &mut self,
        piece: &[u8],
        of_frame: impl Fn(&[u8]) -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<Vec<T>> {
        self.unread.extend_from_slice(piece);
        let (mut found, mut begin) = (Vec::new(), 0);
        while let Some(length) = self.unread[begin..].windows(2).position(|two| two == b"\n\n") {
            let frame = &self.unread[begin..begin + length];
            begin += length + 2;
            found.extend(of_frame(frame)?);
        }
        self.unread.drain(..begin);
        Ok(found)
    }
}

fn seq_of(frame: &[u8]) -> anyhow::Result<Option<u64>> {
    let Some(seq) = member(frame, ID) else { return Ok(None) };
    Ok(Some(str::from_utf8(seq)?.parse::<u64>().context("the id of an event is no number")?))
}

/// The rest of the line that begins so.
fn member<'a>(frame: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    frame.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_when_it_is_whole() {
        let mut reader = FrameReader::default();
        let mut read = |piece: &[u8]| reader.read(piece, seq_of);
        assert_eq!(read(b"id: 7\nevent: plan\ndata: {}\n\n: keep-").unwrap(), [7]);
        assert!(read(b"alive\n\nid: 8\nevent: plan\ndata: {}\n").unwrap().is_empty());
        assert_eq!(read(b"\nid: 9\ndata: {}\n\n").unwrap(), [8, 9]);
        assert!(read(b"id: x\n\n").is_err());
    }

    #[test]
    fn an_event_says_what_it_adds_and_what_ends_with_it() {
        let event = |data: &str| {
            let frame = format!("id: 3\nevent: x\ndata: {data}");
            WatchedEvent::read(frame.as_bytes()).unwrap().unwrap()
        };
        let part =
            event(r#"{"type":"assistant_message","payload":{"itemId":"m","partial":true,"text":"a\nb"}}"#);
        assert_eq!((part.seq, part.part()), (3, Some("a\nb")));
        assert!(!part.ends("c").unwrap());
        let whole = event(r#"{"type":"assistant_message","payload":{"text":"a"}}"#);
        assert_eq!(whole.part(), None);
        let end = |status: &str| {
            let payload = format!(r#"{{"scope":"command","status":"{status}"}}"#);
            event(&format!(r#"{{"type":"terminal_status","commandId":"c","payload":{payload}}}"#))
        };
        assert!(end("completed").ends("c").unwrap() && !end("failed").ends("d").unwrap());
        assert!(end("failed").ends("c").is_err());
        assert!(WatchedEvent::read(b": keep-alive").unwrap().is_none());
    }
}
