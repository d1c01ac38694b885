//! An agent as the SDKs are one: a key, a certificate, and one socket after another.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{Certificate, Curve, Key};
use futures_util::{SinkExt, StreamExt};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::http::Pipe;
use super::{ISSUER, World, within};

/// Somebody with a key and a certificate, connected or not.
#[derive(Clone)]
pub struct Identity {
    pub aid: String,
    pub key: Key,
    pub cert: String,
}

/// What a login gives.
#[derive(Clone)]
pub struct Tokens {
    pub access: String,
    pub refresh: String,
}

/// A session: an identity and the socket it is connected on.
pub struct Agent {
    pub identity: Identity,
    pub tokens: Tokens,
    /// What `auth.connect` answered.
    pub welcome: Value,
    wire: Wire,
}

/// One socket. Its challenge has been read; nothing else has been said on it.
pub struct Wire {
    pub challenge: Value,
    socket: Mutex<Socket>,
    last_id: AtomicU64,
}

/// How a socket ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Closed {
    pub code: u16,
    pub reason: String,
}

struct Socket {
    stream: WebSocketStream<Box<dyn Pipe>>,
    /// What arrived while something else was waited for.
    events: VecDeque<Value>,
    ended: Option<Closed>,
}

/// The AID of a name in our domain.
pub fn aid(name: &str) -> String {
    format!("{name}.{ISSUER}")
}

/// A public key as it goes over the wire.
pub fn public_key(key: &Key) -> String {
    STANDARD.encode(key.public().spki_der())
}

pub fn random_hex(bytes: usize) -> String {
    let mut random = vec![0; bytes];
    SystemRandom::new().fill(&mut random).expect("the system has randomness");
    hex::encode(random)
}

impl World {
    /// A registered, logged-in and connected agent.
    pub async fn agent(&self, name: &str) -> Agent {
        let identity = self.register(name).await;
        self.connect(&identity, |_| ()).await
    }

    /// A fresh key with a certificate for this name.
    pub async fn register(&self, name: &str) -> Identity {
        let key = Key::generate(Curve::P256);
        let params = json!({ "aid": aid(name), "public_key": public_key(&key), "curve": "P-256" });
        let created = self.ask("auth.create_aid", &params).await.expect("a free name can be registered");
        Identity { aid: aid(name), key, cert: text(&created["cert"]) }
    }

    /// Both halves of a login, each on a socket of its own.
    pub async fn login(&self, who: &Identity) -> Tokens {
        self.try_login(who).await.unwrap_or_else(|error| panic!("{} cannot log in: {error}", who.aid))
    }

    pub async fn try_login(&self, who: &Identity) -> Result<Tokens, Value> {
        let begun = self.ask("auth.aid_login1", &who.login1()).await?;
        let done = self.ask("auth.aid_login2", &who.login2(&begun)).await?;
        Ok(Tokens { access: text(&done["access_token"]), refresh: text(&done["refresh_token"]) })
    }

    /// A login and a session, after `change` has had its way with the parameters of `auth.connect`.
    pub async fn connect(&self, who: &Identity, change: impl FnOnce(&mut Value)) -> Agent {
        let tokens = self.login(who).await;
        self.connect_with(who, &tokens, change).await
    }

    /// A session with tokens that are there already.
    pub async fn connect_with(
        &self,
        who: &Identity,
        tokens: &Tokens,
        change: impl FnOnce(&mut Value),
    ) -> Agent {
        let wire = self.wire().await;
        let mut hello = hello(wire.nonce(), &tokens.access);
        change(&mut hello);
        let welcome = wire.call("auth.connect", &hello).await;
        Agent { identity: who.clone(), tokens: tokens.clone(), welcome, wire }
    }

    /// A call before login on a socket of its own, as the SDKs do it: the result, or the error.
    pub async fn ask(&self, method: &str, params: &Value) -> Result<Value, Value> {
        let wire = self.wire().await;
        let answer = wire.try_call(method, params).await;
        wire.hang_up().await;
        answer
    }

    /// The error of a call before login.
    pub async fn ask_error(&self, method: &str, params: &Value) -> Value {
        match self.ask(method, params).await {
            Ok(result) => panic!("{method} succeeded with {result}"),
            Err(error) => error,
        }
    }

    /// A fresh socket without TLS.
    pub async fn wire(&self) -> Wire {
        Wire::open(Box::new(self.tcp().await), "ws", "/aun").await
    }

    /// A fresh socket with TLS, to a server that can be trusted.
    pub async fn secure_wire(&self, path: &str) -> Wire {
        let pipe =
            self.tls(&format!("gateway.{ISSUER}")).await.expect("the server's certificate can be trusted");
        Wire::open(pipe, "wss", path).await
    }
}

impl Identity {
    /// A signature in the form of `auth.*`.
    pub fn sign(&self, text: &str) -> String {
        STANDARD.encode(self.key.sign(text.as_bytes()))
    }

    pub fn certificate(&self) -> Certificate {
        Certificate::from_pem(&self.cert).expect("an agent's certificate can be read")
    }

    /// The parameters of `auth.aid_login1`.
    pub fn login1(&self) -> Value {
        json!({ "aid": self.aid, "cert": self.cert, "client_nonce": random_hex(12) })
    }

    /// The parameters of `auth.aid_login2`, given the answer to the first half.
    pub fn login2(&self, begun: &Value) -> Value {
        let (nonce, client_time) = (text(&begun["nonce"]), "1794701761.8452365");
        let signature = self.sign(&format!("{nonce}:{client_time}"));
        json!({
            "aid": self.aid, "request_id": begun["request_id"], "nonce": nonce,
            "client_time": client_time, "signature": signature,
        })
    }
}

impl Deref for Agent {
    type Target = Wire;

    fn deref(&self) -> &Wire {
        &self.wire
    }
}

impl Agent {
    pub fn aid(&self) -> &str {
        &self.identity.aid
    }
}

/// The parameters of `auth.connect` as a current SDK sends them.
pub fn hello(nonce: &str, token: &str) -> Value {
    json!({
        "nonce": nonce,
        "auth": { "method": "kite_token", "token": token },
        "protocol": { "min": "1.0", "max": "1.0" },
        "device": { "id": "laptop", "type": "sdk" },
        "client": { "slot_id": "default", "sdk_lang": "python", "sdk_version": "0.5.25" },
        "delivery_mode": { "mode": "fanout", "routing": "", "affinity_ttl_ms": 0 },
        "capabilities": { "e2ee": true, "group_e2ee": true, "p2p_peer_pull_v1": true },
    })
}

impl Wire {
    async fn open(pipe: Box<dyn Pipe>, scheme: &str, path: &str) -> Wire {
        let url = format!("{scheme}://gateway.{ISSUER}{path}");
        let dial = within("the upgrade to WebSocket", client_async(url, pipe)).await;
        let (stream, _) = dial.expect("the server upgrades to WebSocket");
        let socket = Socket { stream, events: VecDeque::new(), ended: None };
        let wire = Wire { challenge: Value::Null, socket: Mutex::new(socket), last_id: AtomicU64::new(0) };
        let challenge = wire.next_event().await;
        assert_eq!(challenge["method"], "challenge", "the first frame is the challenge");
        agrees("challenge", &challenge["params"]);
        Wire { challenge: challenge["params"].clone(), ..wire }
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
        let id = format!("rpc-{:x}", self.last_id.fetch_add(1, Ordering::Relaxed));
        let frame = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&frame.to_string()).await;
        let mut answer = self.answer(&json!(id)).await;
        assert!(answer.get("result").is_some() != answer.get("error").is_some(), "one of the two: {answer}");
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].take()),
        }
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
        let mut socket = self.socket.lock().await;
        within("the server reads", socket.stream.send(message)).await
    }

    /// The answer to what was sent as it stands, whatever its id.
    pub async fn answer_to(&self, text: &str) -> Value {
        self.send(text).await;
        let mut socket = self.socket.lock().await;
        loop {
            match socket.read().await {
                Ok(frame) if frame.get("id").is_some() || frame.is_array() => return frame,
                Ok(event) => socket.events.push_back(event),
                Err(closed) => panic!("the socket ended instead of an answer to {:.200}: {closed:?}", text),
            }
        }
    }

    /// The next frame of any kind.
    pub async fn next(&self) -> Value {
        let mut socket = self.socket.lock().await;
        if let Some(event) = socket.events.pop_front() {
            return event;
        }
        socket.read().await.unwrap_or_else(|closed| panic!("the socket ended instead of a frame: {closed:?}"))
    }

    /// The next frame as it was written.
    pub async fn next_text(&self) -> String {
        let mut socket = self.socket.lock().await;
        loop {
            match within("a frame", socket.stream.next()).await {
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
        self.socket.lock().await.events.drain(..).collect()
    }

    /// The frames that were kept while the socket's end was waited for.
    pub async fn kept(&self) -> Vec<Value> {
        self.socket.lock().await.events.drain(..).collect()
    }

    /// How the server closes this socket; events on the way are kept for [`Wire::next_event`].
    pub async fn closed(&self) -> Closed {
        let mut socket = self.socket.lock().await;
        loop {
            match socket.read().await {
                Ok(frame) => socket.events.push_back(frame),
                Err(closed) => return closed,
            }
        }
    }

    /// `event/gateway.disconnect`, and the close with the same code behind it.
    pub async fn dismissed(&self) -> Value {
        let event = self.next_event().await;
        assert_eq!(event["method"], "event/gateway.disconnect", "{event}");
        let closed = self.closed().await;
        assert_eq!(event["params"]["code"], closed.code, "the event and the close agree: {event} {closed:?}");
        agrees("event/gateway.disconnect", &event["params"]);
        event["params"].clone()
    }

    /// What the next pong says.
    pub async fn pong(&self) -> String {
        let mut socket = self.socket.lock().await;
        loop {
            match within("a pong", socket.stream.next()).await {
                Some(Ok(Message::Pong(bytes))) => return String::from_utf8_lossy(&bytes).into_owned(),
                Some(Ok(_)) => {}
                ended => panic!("the socket ended instead of a pong: {ended:?}"),
            }
        }
    }

    /// Nothing is wrong with this socket: a call is answered, if only with a refusal.
    pub async fn is_open(&self) -> bool {
        let _ = self.try_call("meta.ping", &json!({})).await;
        true
    }

    /// Closes as the SDKs do, with 1000.
    pub async fn hang_up(&self) {
        let mut socket = self.socket.lock().await;
        let _ = within("a close", socket.stream.close(None)).await;
    }

    async fn answer(&self, id: &Value) -> Value {
        let mut socket = self.socket.lock().await;
        loop {
            match socket.read().await {
                Ok(frame) if frame.get("id") == Some(id) => return frame,
                Ok(event) => socket.events.push_back(event),
                Err(closed) => panic!("the socket ended instead of an answer: {closed:?}"),
            }
        }
    }
}

impl Socket {
    /// The next frame from the socket, or how it ended. 1006 is an end without a close frame.
    async fn read(&mut self) -> Result<Value, Closed> {
        loop {
            if let Some(Closed { code, reason }) = &self.ended {
                return Err(Closed { code: *code, reason: reason.clone() });
            }
            match within("a frame", self.stream.next()).await {
                Some(Ok(Message::Text(text))) => {
                    return Ok(serde_json::from_str(&text).expect("a frame is JSON"));
                }
                Some(Ok(Message::Close(Some(frame)))) => {
                    self.ended = Some(Closed { code: frame.code.into(), reason: frame.reason.to_string() });
                }
                Some(Ok(Message::Close(None))) => {
                    self.ended = Some(Closed { code: 1005, reason: String::new() })
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Binary(_))) => panic!("the server sent a binary frame"),
                Some(Err(problem)) => self.ended = Some(Closed { code: 1006, reason: problem.to_string() }),
                None => self.ended = Some(Closed { code: 1006, reason: String::new() }),
            }
        }
    }
}

/// Holds the parameters of an event against the law.
pub fn agrees(event: &str, params: &Value) {
    let law = proto_schemas::events().iter().find(|law| law.name == event).expect("the law knows the event");
    let schema = proto_schemas::standalone(&law.doc()["params"]);
    if let Err(flaw) = jsonschema::validate(&schema, params) {
        panic!("{event} breaks its schema: {flaw} in {params}");
    }
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not text")).to_owned()
}
