//! One WebSocket: calls with their answers, and the events between them.

use super::dial::Pipe;
use super::error::Error;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Bytes, Message};

/// How long a call may take; the SDKs wait as long.
const PATIENCE: Duration = Duration::from_secs(35);

/// After so much silence the other side is asked for a sign of life, and after as much again it counts as gone.
const SILENCE: Duration = Duration::from_secs(30);

/// How long the server has to answer a close.
const FAREWELL: Duration = Duration::from_secs(2);

/// Events that may wait while a call is under way. Whoever falls behind further comes back and pulls.
const EVENTS: usize = 10_000;

/// Which way a frame went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Out,
    In,
}

/// Sees every frame that passes.
pub type Tap = Arc<dyn Fn(Way, &Value) + Send + Sync>;

/// Something the server says by itself.
#[derive(Clone, Debug)]
pub struct Event {
    /// `event/message.received`, for example.
    pub method: String,
    pub params: Value,
    /// The frame as it came.
    pub text: String,
}

/// A socket whose challenge has been read.
pub struct Wire {
    socket: WebSocketStream<Box<dyn Pipe>>,
    nonce: String,
    events: VecDeque<Event>,
    last_id: u64,
    tap: Option<Tap>,
}

impl Wire {
    pub(super) async fn open(url: &str, pipe: Box<dyn Pipe>, tap: Option<Tap>) -> Result<Wire, Error> {
        let upgraded = tokio_tungstenite::client_async(url, pipe).await;
        let (socket, _) = upgraded.map_err(|error| Error::Odd(error.to_string()))?;
        let mut wire = Wire { socket, nonce: String::new(), events: VecDeque::new(), last_id: 0, tap };
        let (_, first) = wire.frame().await?;
        match first["params"]["nonce"].as_str() {
            Some(nonce) if first["method"] == "challenge" => wire.nonce = nonce.to_owned(),
            _ => return Err(Error::Odd("its first word is not a challenge".to_owned())),
        }
        Ok(wire)
    }

    /// The nonce of the challenge, which `auth.connect` repeats.
    pub fn nonce(&self) -> &str {
        &self.nonce
    }

    /// The result of a call. Events that come first are kept for [`Wire::next_event`].
    pub async fn call(&mut self, method: &str, params: &Value) -> Result<Value, Error> {
        self.last_id += 1;
        let id = json!(self.last_id.to_string());
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let late = |_| Error::Late(method.to_owned());
            let (text, mut frame) = timeout_at(deadline, self.frame()).await.map_err(late)??;
            if frame["id"] == id {
                return match frame.get("error") {
                    Some(error) => Err(Error::refused(method, error)),
                    None => Ok(frame["result"].take()),
                };
            }
            self.keep(text, frame)?;
        }
    }

    /// The next event, however long it takes. May be dropped and called again.
    pub async fn next_event(&mut self) -> Result<Event, Error> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let (text, frame) = self.frame().await?;
            self.keep(text, frame)?;
        }
    }

    /// Whether an event waits already.
    pub fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// Ends the connection as the SDKs do, with 1000.
    pub async fn close(mut self) {
        let close_reason = async {
            let _ = self.socket.close(None).await;
            while let Some(Ok(_)) = self.socket.next().await {}
        };
        let _ = timeout(FAREWELL, close_reason).await;
    }

    /// An answer without a call of ours is nobody's business, and dropped.
    fn keep(&mut self, text: String, mut frame: Value) -> Result<(), Error> {
        let Some(method) = frame["method"].as_str().map(str::to_owned) else { return Ok(()) };
        if self.events.len() == EVENTS {
            return Err(Error::Lost("more events came than could be looked at".to_owned()));
        }
        self.events.push_back(Event { method, params: frame["params"].take(), text });
        Ok(())
    }

    async fn send(&mut self, frame: Value) -> Result<(), Error> {
        if let Some(tap) = &self.tap {
            tap(Way::Out, &frame);
        }
        let sent = timeout(PATIENCE, self.socket.send(Message::text(frame.to_string()))).await;
        let sent = sent.map_err(|_| Error::Lost("the gateway reads no more".to_owned()))?;
        sent.map_err(|error| Error::Lost(error.to_string()))
    }

    /// The next frame that is text. Pings are answered on the way, and sent where nothing is heard.
    async fn frame(&mut self) -> Result<(String, Value), Error> {
        let mut asked = false;
        loop {
            let Ok(message) = timeout(SILENCE, self.socket.next()).await else {
                if asked {
                    return Err(Error::Lost(format!("nothing was heard for {:?}", SILENCE * 2)));
                }
                asked = true;
                let ping = self.socket.send(Message::Ping(Bytes::new())).await;
                ping.map_err(|error| Error::Lost(error.to_string()))?;
                continue;
            };
            asked = false;
            match message {
                Some(Ok(Message::Text(text))) => return self.read(&text),
                Some(Ok(Message::Close(Some(frame)))) => {
                    return Err(Error::Closed { code: frame.code.into(), reason: frame.reason.to_string() });
                }
                Some(Ok(Message::Close(None))) => {
                    return Err(Error::Closed { code: 1005, reason: String::new() });
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(Error::Lost(error.to_string())),
                None => return Err(Error::Lost("the gateway hung up".to_owned())),
            }
        }
    }

    fn read(&self, text: &str) -> Result<(String, Value), Error> {
        let frame = serde_json::from_str(text).map_err(|error| Error::Odd(error.to_string()))?;
        if let Some(tap) = &self.tap {
            tap(Way::In, &frame);
        }
        Ok((text.to_owned(), frame))
    }
}
