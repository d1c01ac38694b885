//! The socket under the JSON-RPC client: frames out, answers in, and the events between them to whoever listens.

use crate::error::Error;
use crate::events::{EventReaders, ReceivedEvent};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use jsonrpsee_core::client::{ReceivedMessage, TransportReceiverT, TransportSenderT};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Bytes, Message};

/// How long the gateway may take to read a frame.
const SEND_TIMEOUT: Duration = Duration::from_secs(35);

/// How long a close may take to be sent.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Which way a frame went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameDirection {
    /// From the agent to the gateway.
    Sent,
    /// From the gateway to the agent.
    Received,
}

/// Is called with every frame, sent or received.
pub type FrameObserver = Arc<dyn Fn(FrameDirection, &Value) + Send + Sync>;

/// What a WebSocket runs over: TCP, or TLS over TCP.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

pub(crate) type ClientSocket = WebSocketStream<Box<dyn ByteStream>>;

/// Why the receiving side ended, for everybody who has a call under way. It is written before the JSON-RPC client learns that
/// there is an end.
pub(crate) type ConnectionEnd = Arc<OnceLock<Error>>;

/// The sending side. The connection keeps a clone, to close the socket while answers are still read.
#[derive(Clone)]
pub(crate) struct FrameSender {
    sink: Arc<Mutex<SplitSink<ClientSocket, Message>>>,
    observer: Option<FrameObserver>,
}

/// The receiving side.
pub(crate) struct FrameReceiver {
    stream: SplitStream<ClientSocket>,
    observer: Option<FrameObserver>,
    events: Option<Arc<EventReaders>>,
    end: ConnectionEnd,
}

/// What tells an event from an answer: "notifications MUST NOT contain `id`", and answers have no method.
#[derive(Deserialize)]
struct FrameHead<'a> {
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

pub(crate) fn split(
    socket: ClientSocket,
    observer: Option<FrameObserver>,
    events: Option<Arc<EventReaders>>,
) -> (FrameSender, FrameReceiver) {
    let (sink, stream) = socket.split();
    let sender = FrameSender { sink: Arc::new(Mutex::new(sink)), observer: observer.clone() };
    (sender, FrameReceiver { stream, observer, events, end: ConnectionEnd::default() })
}

impl FrameSender {
    async fn send_message(&self, message: Message) -> Result<(), Error> {
        let send = async { self.sink.lock().await.send(message).await };
        let sent = timeout(SEND_TIMEOUT, send).await;
        let sent = sent.map_err(|_| Error::Disconnected("the gateway stopped reading".to_owned()))?;
        sent.map_err(|error| Error::Disconnected(error.to_string()))
    }

    /// Sends a close with 1000, as the SDKs do.
    pub(crate) async fn send_close(&self) {
        let close = async { self.sink.lock().await.close().await };
        // A socket that cannot be closed has ended already, or will when it is dropped.
        let _ = timeout(CLOSE_TIMEOUT, close).await;
    }
}

impl TransportSenderT for FrameSender {
    type Error = Error;

    async fn send(&mut self, text: String) -> Result<(), Error> {
        observe(self.observer.as_ref(), FrameDirection::Sent, &text);
        self.send_message(Message::text(text)).await
    }

    async fn send_ping(&mut self) -> Result<(), Error> {
        self.send_message(Message::Ping(Bytes::new())).await
    }

    async fn close(&mut self) -> Result<(), Error> {
        self.send_close().await;
        Ok(())
    }
}

impl FrameReceiver {
    /// Where the end of this side will be written.
    pub(crate) fn end(&self) -> ConnectionEnd {
        self.end.clone()
    }

    /// The nonce of the challenge, which is the first frame on a socket.
    pub(crate) async fn challenge(&mut self) -> Result<String, Error> {
        let text = loop {
            match self.next_message().await? {
                Message::Text(text) => break text,
                _ => continue,
            }
        };
        observe(self.observer.as_ref(), FrameDirection::Received, &text);
        let frame: Value =
            serde_json::from_str(&text).map_err(|error| Error::Unexpected(error.to_string()))?;
        match frame["params"]["nonce"].as_str() {
            Some(nonce) if frame["method"] == "challenge" => Ok(nonce.to_owned()),
            _ => Err(Error::Unexpected("its first frame is not a challenge".to_owned())),
        }
    }

    /// The next answer or pong. Events on the way are published.
    async fn next_answer(&mut self) -> Result<ReceivedMessage, Error> {
        loop {
            match self.next_message().await? {
                Message::Text(text) => {
                    observe(self.observer.as_ref(), FrameDirection::Received, &text);
                    let Some(event) = event(&text)? else {
                        return Ok(ReceivedMessage::Text(text.to_string()));
                    };
                    if let Some(events) = &self.events {
                        events.publish_event(&event)?;
                    }
                }
                Message::Pong(_) => return Ok(ReceivedMessage::Pong),
                _ => {}
            }
        }
    }

    async fn next_message(&mut self) -> Result<Message, Error> {
        match self.stream.next().await {
            Some(Ok(Message::Close(Some(frame)))) => {
                Err(Error::Closed { code: frame.code.into(), reason: frame.reason.to_string() })
            }
            Some(Ok(Message::Close(None))) => Err(Error::Closed { code: 1005, reason: String::new() }),
            Some(Ok(message)) => Ok(message),
            Some(Err(error)) => Err(Error::Disconnected(error.to_string())),
            None => Err(Error::Disconnected("the gateway closed the socket".to_owned())),
        }
    }
}

impl TransportReceiverT for FrameReceiver {
    type Error = Error;

    async fn receive(&mut self) -> Result<ReceivedMessage, Error> {
        let received = self.next_answer().await;
        if let Err(error) = &received {
            // Only the first end counts, and this side ends once.
            let _ = self.end.set(error.clone());
        }
        received
    }
}

/// The event in a frame, unless it is an answer.
fn event(text: &str) -> Result<Option<ReceivedEvent>, Error> {
    let head: FrameHead = serde_json::from_str(text).map_err(|error| Error::Unexpected(error.to_string()))?;
    let Some(method) = head.method else { return Ok(None) };
    let params = match head.params {
        Some(params) => {
            serde_json::from_str(params.get()).map_err(|error| Error::Unexpected(error.to_string()))?
        }
        None => Value::Null,
    };
    Ok(Some(ReceivedEvent { method: method.into_owned(), params, text: text.to_owned() }))
}

fn observe(observer: Option<&FrameObserver>, direction: FrameDirection, text: &str) {
    if let Some(observer) = observer
        && let Ok(frame) = serde_json::from_str(text)
    {
        observer(direction, &frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_a_method_and_an_answer_has_none() {
        let text = r#"{"jsonrpc":"2.0","method":"event/a.b","params":{"n":1}}"#;
        let found = event(text).unwrap().unwrap();
        assert_eq!(
            (found.method.as_str(), &found.params["n"], found.text.as_str()),
            ("event/a.b", &1.into(), text)
        );
        assert!(event(r#"{"jsonrpc":"2.0","method":"event/a"}"#).unwrap().unwrap().params.is_null());
        for answer in [r#"{"jsonrpc":"2.0","id":"1","result":{"method":"x"}}"#, r#"{"id":null,"error":{}}"#] {
            assert!(event(answer).unwrap().is_none(), "{answer}");
        }
        assert!(event("[]").is_err() && event("no JSON").is_err());
    }
}
