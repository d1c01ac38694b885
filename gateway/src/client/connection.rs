//! One WebSocket: calls with their answers, and the events between them.

use super::error::Error;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Bytes, Message};

/// How long a call may take; the SDKs wait as long.
const CALL_TIMEOUT: Duration = Duration::from_secs(35);

/// After so long without a frame the gateway is pinged, and after as long again the connection counts as lost.
const PING_AFTER: Duration = Duration::from_secs(30);

/// How long the server has to answer a close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Events that may wait while a call is under way. A client that falls behind further reconnects and pulls.
const MAX_PENDING_EVENTS: usize = 10_000;

/// Which way a frame went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameDirection {
    Sent,
    Received,
}

/// Is called with every frame, sent or received.
pub type FrameObserver = Arc<dyn Fn(FrameDirection, &Value) + Send + Sync>;

/// An event from the server: a frame that answers no call.
#[derive(Clone, Debug)]
pub struct ReceivedEvent {
    /// `event/message.received`, for example.
    pub method: String,
    pub params: Value,
    /// The frame as it came.
    pub text: String,
}

/// What a WebSocket runs over: TCP, or TLS over TCP.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

/// A socket whose challenge has been read.
pub struct ClientConnection {
    socket: WebSocketStream<Box<dyn ByteStream>>,
    nonce: String,
    events: VecDeque<ReceivedEvent>,
    last_id: u64,
    observer: Option<FrameObserver>,
}

impl ClientConnection {
    pub(super) async fn open(
        url: &str,
        stream: Box<dyn ByteStream>,
        observer: Option<FrameObserver>,
    ) -> Result<ClientConnection, Error> {
        let upgraded = tokio_tungstenite::client_async(url, stream).await;
        let (socket, _) = upgraded.map_err(|error| Error::Unexpected(error.to_string()))?;
        let mut connection =
            ClientConnection { socket, nonce: String::new(), events: VecDeque::new(), last_id: 0, observer };
        let (_, first) = connection.frame().await?;
        match first["params"]["nonce"].as_str() {
            Some(nonce) if first["method"] == "challenge" => connection.nonce = nonce.to_owned(),
            _ => return Err(Error::Unexpected("its first frame is not a challenge".to_owned())),
        }
        Ok(connection)
    }

    /// The nonce of the challenge, which `auth.connect` repeats.
    pub fn nonce(&self) -> &str {
        &self.nonce
    }

    /// The result of a call. Events that come first are kept for [`ClientConnection::next_event`].
    pub async fn call(&mut self, method: &str, params: &Value) -> Result<Value, Error> {
        self.last_id += 1;
        let id = json!(self.last_id.to_string());
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await?;
        let deadline = Instant::now() + CALL_TIMEOUT;
        loop {
            let late = |_| Error::TimedOut(method.to_owned());
            let (text, mut frame) = timeout_at(deadline, self.frame()).await.map_err(late)??;
            if frame["id"] == id {
                return match frame.get("error") {
                    Some(error) => Err(Error::refused(method, error)),
                    None => Ok(frame["result"].take()),
                };
            }
            self.keep_event(text, frame)?;
        }
    }

    /// The next event, however long it takes. May be dropped and called again.
    pub async fn next_event(&mut self) -> Result<ReceivedEvent, Error> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let (text, frame) = self.frame().await?;
            self.keep_event(text, frame)?;
        }
    }

    /// Whether an event waits already.
    pub fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// Ends the connection as the SDKs do, with 1000.
    pub async fn close(mut self) {
        let closed = async {
            let _ = self.socket.close(None).await;
            while let Some(Ok(_)) = self.socket.next().await {}
        };
        let _ = timeout(CLOSE_TIMEOUT, closed).await;
    }

    /// Keeps an event for later. An answer to a call that nobody waits for is dropped.
    fn keep_event(&mut self, text: String, mut frame: Value) -> Result<(), Error> {
        let Some(method) = frame["method"].as_str().map(str::to_owned) else { return Ok(()) };
        if self.events.len() == MAX_PENDING_EVENTS {
            return Err(Error::Disconnected("more events arrived than were read".to_owned()));
        }
        self.events.push_back(ReceivedEvent { method, params: frame["params"].take(), text });
        Ok(())
    }

    async fn send(&mut self, frame: Value) -> Result<(), Error> {
        if let Some(observer) = &self.observer {
            observer(FrameDirection::Sent, &frame);
        }
        let sent = timeout(CALL_TIMEOUT, self.socket.send(Message::text(frame.to_string()))).await;
        let sent = sent.map_err(|_| Error::Disconnected("the gateway stopped reading".to_owned()))?;
        sent.map_err(|error| Error::Disconnected(error.to_string()))
    }

    /// The next text frame. Pings are answered on the way, and one is sent where nothing arrives.
    async fn frame(&mut self) -> Result<(String, Value), Error> {
        let mut pinged = false;
        loop {
            let Ok(message) = timeout(PING_AFTER, self.socket.next()).await else {
                if pinged {
                    return Err(Error::Disconnected(format!("nothing arrived for {:?}", PING_AFTER * 2)));
                }
                pinged = true;
                let ping = self.socket.send(Message::Ping(Bytes::new())).await;
                ping.map_err(|error| Error::Disconnected(error.to_string()))?;
                continue;
            };
            pinged = false;
            match message {
                Some(Ok(Message::Text(text))) => return self.read(&text),
                Some(Ok(Message::Close(Some(frame)))) => {
                    return Err(Error::Closed { code: frame.code.into(), reason: frame.reason.to_string() });
                }
                Some(Ok(Message::Close(None))) => {
                    return Err(Error::Closed { code: 1005, reason: String::new() });
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(Error::Disconnected(error.to_string())),
                None => return Err(Error::Disconnected("the gateway closed the socket".to_owned())),
            }
        }
    }

    fn read(&self, text: &str) -> Result<(String, Value), Error> {
        let frame = serde_json::from_str(text).map_err(|error| Error::Unexpected(error.to_string()))?;
        if let Some(observer) = &self.observer {
            observer(FrameDirection::Received, &frame);
        }
        Ok((text.to_owned(), frame))
    }
}
