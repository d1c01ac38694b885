//! One WebSocket as the SDKs use it: what is sent, what comes back, and how it ends.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Mutex;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::http::TestByteStream;
use super::{TestServer, within};

/// One socket. Its challenge has been read; nothing else has been said on it.
pub struct TestSocket {
    pub challenge: Value,
    pub(super) state: Mutex<SocketState>,
    pub(super) last_id: AtomicU64,
}

/// How a socket ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Closed {
    pub code: u16,
    pub reason: String,
}

pub(super) struct SocketState {
    pub(super) stream: WebSocketStream<Box<dyn TestByteStream>>,
    /// What arrived while something else was waited for.
    pub(super) events: VecDeque<Value>,
    ended: Option<Closed>,
}

impl TestServer {
    /// A fresh socket without TLS.
    pub async fn socket(&self) -> TestSocket {
        self.socket_over(self.tcp().await).await
    }

    /// A fresh socket from this address of the loopback network: limits count by address.
    pub async fn socket_from(&self, source: [u8; 4]) -> TestSocket {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((source, 0).into()).expect("an address of the loopback network");
        let dial = socket.connect((self.host(), self.plain_port).into());
        let stream = within("a connection", dial).await.expect("the server accepts connections");
        self.socket_over(stream).await
    }

    /// A socket on a connection without TLS.
    pub async fn socket_over(&self, stream: TcpStream) -> TestSocket {
        TestSocket::open(Box::new(stream), &format!("ws://gateway.{}/aun", self.issuer)).await
    }

    /// A fresh socket whose receiving end is small, so that whatever is not read soon waits at the server.
    pub async fn narrow_socket(&self) -> TestSocket {
        let socket = self.client_socket();
        socket.set_recv_buffer_size(4096).expect("a size");
        let dial = socket.connect((self.host(), self.plain_port).into());
        let stream = within("a connection", dial).await.expect("the server accepts connections");
        self.socket_over(stream).await
    }

    /// A fresh socket with TLS, to a server that can be trusted.
    pub async fn tls_socket(&self, path: &str) -> TestSocket {
        let host = format!("gateway.{}", self.issuer);
        let pipe = self.tls(&host).await.expect("the server's certificate can be trusted");
        TestSocket::open(pipe, &format!("wss://{host}{path}")).await
    }
}

impl TestSocket {
    async fn open(pipe: Box<dyn TestByteStream>, url: &str) -> TestSocket {
        let dial = within("the upgrade to WebSocket", client_async(url, pipe)).await;
        let (stream, _) = dial.expect("the server upgrades to WebSocket");
        let state = SocketState { stream, events: VecDeque::new(), ended: None };
        let socket =
            TestSocket { challenge: Value::Null, state: Mutex::new(state), last_id: AtomicU64::new(0) };
        let challenge = socket.next_event().await;
        assert_eq!(challenge["method"], "challenge", "the first frame is the challenge");
        agrees("challenge", &challenge["params"]);
        TestSocket { challenge: challenge["params"].clone(), ..socket }
    }

    pub fn nonce(&self) -> &str {
        self.challenge["nonce"].as_str().expect("a challenge has a nonce")
    }

    /// The result of a call, which must succeed.
    pub async fn call(&self, method: &str, params: &Value) -> Value {
        self.try_call(method, params).await.unwrap_or_else(|error| panic!("{method} failed: {error}"))
    }

    /// The error of a call, which must fail.
    pub async fn call_error(&self, method: &str, params: &Value) -> Value {
        match self.try_call(method, params).await {
            Ok(result) => panic!("{method} succeeded with {result}"),
            Err(error) => error,
        }
    }

    pub async fn try_call(&self, method: &str, params: &Value) -> Result<Value, Value> {
        outcome(self.whole_answer(method, params).await)
    }

    /// The frame that answers a call, with what stands beside the result.
    pub async fn whole_answer(&self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params).await;
        self.answer(&json!(id)).await
    }

    /// Makes a call whose answer is read later, and gives its id.
    pub async fn ask(&self, method: &str, params: &Value) -> String {
        let id = format!("rpc-{:x}", self.last_id.fetch_add(1, Ordering::Relaxed));
        let frame = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&frame.to_string()).await;
        id
    }

    /// A call without an id, which is never answered.
    pub async fn notify(&self, method: &str, params: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()).await;
    }

    /// A text as it stands.
    pub async fn send(&self, text: &str) {
        self.send_message(Message::text(text)).await;
    }

    pub async fn send_message(&self, message: Message) {
        self.try_send(message).await.expect("the server reads");
    }

    /// A server that has closed already does not read what comes after.
    pub async fn try_send(&self, message: Message) -> Result<(), Error> {
        let mut state = self.state.lock().await;
        within("the server reads", state.stream.send(message)).await
    }

    /// The answer to what was sent as it stands, whatever its id.
    pub async fn answer_to(&self, text: &str) -> Value {
        self.send(text).await;
        let mut state = self.state.lock().await;
        loop {
            match state.read().await {
                Ok(frame) if frame.get("id").is_some() || frame.is_array() => return frame,
                Ok(event) => state.events.push_back(event),
                Err(closed) => panic!("the socket ended instead of an answer to {:.200}: {closed:?}", text),
            }
        }
    }

    /// The next frame of any kind.
    pub async fn next(&self) -> Value {
        let mut state = self.state.lock().await;
        if let Some(event) = state.events.pop_front() {
            return event;
        }
        state.read().await.unwrap_or_else(|closed| panic!("the socket ended instead of a frame: {closed:?}"))
    }

    /// The next frame as it was written.
    pub async fn next_text(&self) -> String {
        let mut state = self.state.lock().await;
        loop {
            match within("a frame", state.stream.next()).await {
                Some(Ok(Message::Text(text))) => return text.to_string(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("something else than a frame came: {other:?}"),
            }
        }
    }

    /// The next notification.
    pub async fn next_event(&self) -> Value {
        let event = self.next().await;
        assert!(event.get("id").is_none(), "a notification has no id: {event}");
        event
    }

    /// What has arrived by now besides answers. A call and its answer make sure that nothing is still on its way.
    pub async fn events_so_far(&self) -> Vec<Value> {
        let _ = self.try_call("meta.ping", &json!({})).await;
        self.state.lock().await.events.drain(..).collect()
    }

    /// The frames that were kept while the socket's end was waited for.
    pub async fn kept(&self) -> Vec<Value> {
        self.state.lock().await.events.drain(..).collect()
    }

    /// How the server closes this socket; events on the way are kept for [`TestSocket::next_event`].
    pub async fn closed(&self) -> Closed {
        let mut state = self.state.lock().await;
        loop {
            match state.read().await {
                Ok(frame) => state.events.push_back(frame),
                Err(closed) => return closed,
            }
        }
    }

    /// `event/gateway.disconnect`, and the close with the same code behind it.
    pub async fn disconnected(&self) -> Value {
        let event = self.next_event().await;
        assert_eq!(event["method"], "event/gateway.disconnect", "{event}");
        let closed = self.closed().await;
        assert_eq!(event["params"]["code"], closed.code, "the event and the close agree: {event} {closed:?}");
        agrees("event/gateway.disconnect", &event["params"]);
        event["params"].clone()
    }

    /// What the next pong says.
    pub async fn pong(&self) -> String {
        let mut state = self.state.lock().await;
        loop {
            match within("a pong", state.stream.next()).await {
                Some(Ok(Message::Pong(bytes))) => return String::from_utf8_lossy(&bytes).into_owned(),
                Some(Ok(_)) => {}
                ended => panic!("the socket ended instead of a pong: {ended:?}"),
            }
        }
    }

    /// What the server said when it closed this socket, null if it said nothing, or `None` if the socket is open.
    pub async fn close_event(&self) -> Option<Value> {
        let ping = json!({ "jsonrpc": "2.0", "id": "close-event", "method": "meta.ping" }).to_string();
        let _ = self.try_send(Message::text(ping)).await;
        let mut state = self.state.lock().await;
        loop {
            match state.read().await {
                Ok(frame) if frame.get("id").is_some() => return None,
                Ok(event) => state.events.push_back(event),
                Err(_) => {
                    return Some(
                        state.events.pop_back().map_or(Value::Null, |event| event["params"].clone()),
                    );
                }
            }
        }
    }

    /// Whether a call is answered, if only with a refusal.
    pub async fn is_open(&self) -> bool {
        self.close_event().await.is_none()
    }

    /// Closes as the SDKs do, with 1000.
    pub async fn close(&self) {
        let mut state = self.state.lock().await;
        let _ = within("a close", state.stream.close(None)).await;
    }

    async fn answer(&self, id: &Value) -> Value {
        let mut state = self.state.lock().await;
        loop {
            match state.read().await {
                Ok(frame) if frame.get("id") == Some(id) => return frame,
                Ok(event) => state.events.push_back(event),
                Err(closed) => panic!("the socket ended instead of an answer: {closed:?}"),
            }
        }
    }
}

impl SocketState {
    /// The next frame from the socket, or how it ended.
    pub(super) async fn read(&mut self) -> Result<Value, Closed> {
        let text = self.read_text().await?;
        Ok(serde_json::from_str(&text).expect("a frame is JSON"))
    }

    /// The next frame as it was written, or how the socket ended. 1006 is an end without a close frame.
    pub(super) async fn read_text(&mut self) -> Result<Utf8Bytes, Closed> {
        loop {
            if let Some(Closed { code, reason }) = &self.ended {
                return Err(Closed { code: *code, reason: reason.clone() });
            }
            match frame(within("a frame", self.stream.next()).await) {
                Some(Ok(text)) => return Ok(text),
                Some(Err(closed)) => self.ended = Some(closed),
                None => {}
            }
        }
    }
}

/// The text in what came from a socket, or how the socket ended; nothing where it was neither.
pub(super) fn frame(came: Option<Result<Message, Error>>) -> Option<Result<Utf8Bytes, Closed>> {
    Some(match came {
        Some(Ok(Message::Text(text))) => Ok(text),
        Some(Ok(Message::Close(Some(frame)))) => {
            Err(Closed { code: frame.code.into(), reason: frame.reason.to_string() })
        }
        Some(Ok(Message::Close(None))) => Err(Closed { code: 1005, reason: String::new() }),
        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => return None,
        Some(Ok(Message::Binary(_))) => panic!("the server sent a binary frame"),
        Some(Err(problem)) => Err(Closed { code: 1006, reason: problem.to_string() }),
        None => Err(Closed { code: 1006, reason: String::new() }),
    })
}

/// The result in an answer, or the error.
pub(super) fn outcome(mut answer: Value) -> Result<Value, Value> {
    assert!(answer.get("result").is_some() != answer.get("error").is_some(), "one of the two: {answer}");
    match answer.get("error") {
        Some(error) => Err(error.clone()),
        None => Ok(answer["result"].take()),
    }
}

/// Checks the parameters of an event against its schema.
pub fn agrees(event: &str, params: &Value) {
    let known = proto_schemas::events().iter().find(|known| known.name == event);
    let schema = proto_schemas::standalone(&known.expect("the event has a schema").doc()["params"]);
    if let Err(flaw) = jsonschema::validate(&schema, params) {
        panic!("{event} breaks its schema: {flaw} in {params}");
    }
}
