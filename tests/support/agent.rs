//! An agent as the SDKs are one: a key, a certificate, and one socket after another.
//!
//! It registers and logs in with the crate `client`. Its session is a [`TestSocket`], because tests look at what a well-behaved
//! client hides: the order of answers and events, frames as they were written, and how exactly a socket ends.

use std::ops::Deref;

use ::client::{Aid, ClientConnection, auth};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{Certificate, Curve, Key};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};

use super::socket::TestSocket;
use super::{ISSUER, TestServer, within};

/// An AID with its key and its certificate, connected or not.
#[derive(Clone)]
pub struct TestIdentity {
    pub aid: String,
    pub key: Key,
    pub cert: String,
}

/// What a login gives.
#[derive(Clone)]
pub struct TestTokens {
    pub access: String,
    pub refresh: String,
}

/// A session: an identity and the socket it is connected on.
pub struct ConnectedAgent {
    pub identity: TestIdentity,
    pub tokens: TestTokens,
    /// What `auth.connect` answered.
    pub welcome: Value,
    device: String,
    slot: String,
    socket: TestSocket,
}

/// The AID of a name in our domain.
pub fn aid(name: &str) -> String {
    format!("{name}.{ISSUER}")
}

/// A public key as it goes over the wire.
pub fn public_key(key: &Key) -> String {
    STANDARD.encode(key.public().spki_der())
}

fn agent_id(aid: &str) -> Aid {
    Aid::parse(aid).expect("a test has a good name")
}

pub fn random_hex(bytes: usize) -> String {
    let mut random = vec![0; bytes];
    SystemRandom::new().fill(&mut random).expect("the system has randomness");
    hex::encode(random)
}

impl TestServer {
    /// A registered, logged-in and connected agent.
    pub async fn agent(&self, name: &str) -> ConnectedAgent {
        let identity = self.register(name).await;
        self.connect(&identity, |_| ()).await
    }

    /// A fresh key with a certificate for this name.
    pub async fn register(&self, name: &str) -> TestIdentity {
        let (aid, key) = (self.aid(name), Key::generate(Curve::P256));
        let connection = self.client().await;
        let created = auth::create_aid(&connection, &agent_id(&aid), &key).await;
        connection.close().await;
        TestIdentity { aid, key, cert: created.expect("a free name can be registered") }
    }

    /// Both halves of a login.
    pub async fn login(&self, who: &TestIdentity) -> TestTokens {
        self.try_login(who).await.unwrap_or_else(|error| panic!("{} cannot log in: {error}", who.aid))
    }

    pub async fn try_login(&self, who: &TestIdentity) -> Result<TestTokens, Value> {
        let connection = self.client().await;
        let login = auth::log_in(&connection, &agent_id(&who.aid), &who.key, &who.cert).await;
        connection.close().await;
        match login {
            Ok(tokens) => Ok(TestTokens { access: tokens.access_token, refresh: tokens.refresh_token }),
            Err(::client::Error::Refused { error, .. }) => Err(error),
            Err(error) => panic!("{} got no answer: {error}", who.aid),
        }
    }

    /// The crate `client` on a fresh socket without TLS, from the address that is this test's.
    pub async fn client(&self) -> ClientConnection {
        let url = format!("ws://gateway.{}/aun", self.issuer);
        let open = ClientConnection::over(self.tcp().await, &url);
        within("a connection", open).await.expect("the server sends its challenge")
    }

    /// The same name with a new key.
    pub async fn rekey(&self, who: &TestIdentity) -> TestIdentity {
        let begun = self.ask("auth.aid_login1", &who.login1()).await.expect("the first half of a login");
        let (nonce, key) = (text(&begun["nonce"]), Key::generate(Curve::P256));
        let new_public_key = public_key(&key);
        let signature = who.sign(&format!("{nonce}{new_public_key}"));
        let params = json!({
            "aid": who.aid, "request_id": begun["request_id"], "nonce": nonce, "new_public_key": new_public_key,
            "signature": signature,
        });
        let rekeyed = self.ask("auth.rekey", &params).await.expect("a new key is accepted");
        TestIdentity { aid: who.aid.clone(), key, cert: text(&rekeyed["cert"]) }
    }

    /// A login and a session; `change` may change the parameters of `auth.connect`.
    pub async fn connect(&self, who: &TestIdentity, change: impl FnOnce(&mut Value)) -> ConnectedAgent {
        let tokens = self.login(who).await;
        self.connect_with(who, &tokens, change).await
    }

    /// A session with tokens that are there already.
    pub async fn connect_with(
        &self,
        who: &TestIdentity,
        tokens: &TestTokens,
        change: impl FnOnce(&mut Value),
    ) -> ConnectedAgent {
        ConnectedAgent::open(self.socket().await, who, tokens, change).await
    }

    /// The same agent on a device whose socket holds next to nothing that is not read.
    pub async fn connect_narrow(&self, first: &ConnectedAgent, device: &str) -> ConnectedAgent {
        ConnectedAgent::open(
            self.narrow_socket().await,
            &first.identity,
            &first.tokens,
            at(device, "default"),
        )
        .await
    }

    /// The same agent once more, on another device or in another slot.
    pub async fn connect_device(&self, first: &ConnectedAgent, device: &str, slot: &str) -> ConnectedAgent {
        self.connect_with(&first.identity, &first.tokens, at(device, slot)).await
    }

    /// The same agent with a short connection, to which nothing is told.
    pub async fn connect_short(&self, first: &ConnectedAgent) -> ConnectedAgent {
        let short = |hello: &mut Value| hello["options"] = json!({ "kind": "short", "short_ttl_ms": 60_000 });
        self.connect_with(&first.identity, &first.tokens, short).await
    }

    /// The same agent again after its connection or the server has gone.
    pub async fn reconnect(&self, before: &ConnectedAgent) -> ConnectedAgent {
        self.connect_with(&before.identity, &before.tokens, at(&before.device, &before.slot)).await
    }

    /// A call before login on a socket of its own, as the SDKs do it: the result, or the error.
    pub async fn ask(&self, method: &str, params: &Value) -> Result<Value, Value> {
        let socket = self.socket().await;
        let answer = socket.try_call(method, params).await;
        socket.close().await;
        answer
    }

    /// The error of a call before login.
    pub async fn ask_error(&self, method: &str, params: &Value) -> Value {
        match self.ask(method, params).await {
            Ok(result) => panic!("{method} succeeded with {result}"),
            Err(error) => error,
        }
    }
}

impl TestIdentity {
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

    /// The parameters of `auth.request_cert` for this key, given the answer to the first half of a login.
    pub fn request_cert(&self, begun: &Value, key: &Key) -> Value {
        self.request_cert_on(begun, key, key.curve().as_str())
    }

    /// The same with a curve of the test's choice.
    pub fn request_cert_on(&self, begun: &Value, key: &Key, curve: &str) -> Value {
        let (nonce, public_key) = (text(&begun["nonce"]), public_key(key));
        let signed = format!("auth.request_cert:{nonce}:{curve}:{public_key}");
        json!({
            "aid": self.aid, "public_key": public_key, "curve": curve, "request_id": begun["request_id"],
            "nonce": nonce, "signature": self.sign(&signed), "proof": STANDARD.encode(key.sign(signed.as_bytes())),
        })
    }
}

impl Deref for ConnectedAgent {
    type Target = TestSocket;

    fn deref(&self) -> &TestSocket {
        &self.socket
    }
}

impl ConnectedAgent {
    async fn open(
        socket: TestSocket,
        who: &TestIdentity,
        tokens: &TestTokens,
        change: impl FnOnce(&mut Value),
    ) -> ConnectedAgent {
        let mut hello = hello(socket.nonce(), &tokens.access);
        change(&mut hello);
        let welcome = socket.call("auth.connect", &hello).await;
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (device, slot) = (word(&hello["device"]["id"]), word(&hello["client"]["slot_id"]));
        ConnectedAgent { identity: who.clone(), tokens: tokens.clone(), welcome, device, slot, socket }
    }

    pub fn aid(&self) -> &str {
        &self.identity.aid
    }

    pub fn device(&self) -> &str {
        &self.device
    }

    pub fn slot(&self) -> &str {
        &self.slot
    }
}

/// Changes the parameters of `auth.connect` to another device and slot.
pub fn at(device: &str, slot: &str) -> impl FnOnce(&mut Value) {
    move |hello| {
        hello["device"]["id"] = json!(device);
        hello["client"]["slot_id"] = json!(slot);
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

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not text")).to_owned()
}
