//! An event stream of a run, as a watcher reads it.

use std::pin::Pin;

use anyhow::{Context as _, ensure};
use axum::body::{Body, BodyDataStream};
use futures_util::StreamExt as _;
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;

use crate::agent::BenchEndpoint;

use super::http::host;

/// What begins the line with the seq of an event.
const ID: &[u8] = b"id: ";

/// A stream on a connection of its own.
pub(super) struct RunEventStream {
    body: Pin<Box<BodyDataStream>>,
    frames: FrameReader,
    /// The connection lives as long as these.
    _sender: SendRequest<Body>,
    _connection: JoinSet<()>,
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
        self.frames.read(&piece)
    }
}

impl FrameReader {
    /// The seqs of the events that are whole with this piece. Comments, which keep the connection, have none.
    fn read(&mut self, piece: &[u8]) -> anyhow::Result<Vec<u64>> {
        self.unread.extend_from_slice(piece);
        let (mut seqs, mut begin) = (Vec::new(), 0);
        while let Some(length) = self.unread[begin..].windows(2).position(|two| two == b"\n\n") {
            let frame = &self.unread[begin..begin + length];
            begin += length + 2;
            if let Some(seq) = frame.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(ID)) {
                seqs.push(str::from_utf8(seq)?.parse().context("the id of an event is no number")?);
            }
        }
        self.unread.drain(..begin);
        Ok(seqs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_when_it_is_whole() {
        let mut reader = FrameReader::default();
        assert_eq!(reader.read(b"id: 7\nevent: plan\ndata: {}\n\n: keep-").unwrap(), [7]);
        assert!(reader.read(b"alive\n\nid: 8\nevent: plan\ndata: {}\n").unwrap().is_empty());
        assert_eq!(reader.read(b"\nid: 9\ndata: {}\n\n").unwrap(), [8, 9]);
        assert!(reader.read(b"id: x\n\n").is_err());
    }
}
