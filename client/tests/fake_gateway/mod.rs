//! A gateway without TLS, which answers what a client needs and does what a test tells it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, watch};
use tokio_tungstenite::tungstenite::Message;
use tokio_util::task::TaskTracker;

pub struct FakeGateway {
    address: SocketAddr,
    shared: Arc<FakeInbox>,
}

/// What all connections share: an inbox of so many messages, and what became of it.
struct FakeInbox {
    stored: AtomicU64,
    acknowledged: AtomicU64,
    /// How many sessions there have been.
    sessions: watch::Sender<usize>,
    last_method: watch::Sender<String>,
    orders: broadcast::Sender<FakeOrder>,
}

/// What the session of the moment is to do.
#[derive(Clone)]
enum FakeOrder {
    /// Publish the event of this seq, so many times.
    Publish(u64, usize),
    DropConnection,
}

impl FakeGateway {
    pub async fn start() -> FakeGateway {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let shared = Arc::new(FakeInbox {
            stored: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            sessions: watch::Sender::new(0),
            last_method: watch::Sender::new(String::new()),
            orders: broadcast::Sender::new(64),
        });
        let (tasks, inbox) = (TaskTracker::new(), shared.clone());
        tasks.clone().spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tasks.spawn(serve(stream, inbox.clone()));
            }
        });
        FakeGateway { address, shared }
    }

    pub fn url(&self) -> String {
        format!("ws://{}/aun", self.address)
    }

    /// The inbox holds messages up to this seq from now on.
    pub fn store(&self, seq: u64) {
        self.shared.stored.store(seq, Ordering::SeqCst);
    }

    pub fn publish(&self, seq: u64) {
        self.order(FakeOrder::Publish(seq, 1));
    }

    /// So many events at once.
    pub fn flood(&self, many: usize) {
        self.order(FakeOrder::Publish(1, many));
    }

    pub fn drop_connection(&self) {
        self.order(FakeOrder::DropConnection);
    }

    pub fn acknowledged(&self) -> u64 {
        self.shared.acknowledged.load(Ordering::SeqCst)
    }

    /// Waits until there have been so many sessions.
    pub async fn connections(&self, many: usize) {
        let mut sessions = self.shared.sessions.subscribe();
        sessions.wait_for(|sessions| *sessions >= many).await.expect("the gateway lives");
    }

    /// Waits until this method is called.
    pub async fn called(&self, method: &str) {
        let mut last = self.shared.last_method.subscribe();
        last.wait_for(|last| last == method).await.expect("the gateway lives");
    }

    fn order(&self, order: FakeOrder) {
        assert!(self.shared.orders.send(order).is_ok(), "nobody is connected");
    }
}

async fn serve(stream: TcpStream, inbox: Arc<FakeInbox>) {
    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
    let challenge = json!({ "jsonrpc": "2.0", "method": "challenge", "params": { "nonce": "a-nonce" } });
    let _ = socket.send(Message::text(challenge.to_string())).await;
    let mut orders = inbox.orders.subscribe();
    let mut is_session = false;
    loop {
        tokio::select! {
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => {
                    let call: Value = serde_json::from_str(&text).expect("a client writes JSON");
                    let method = call["method"].as_str().expect("a client calls methods");
                    inbox.last_method.send_replace(method.to_owned());
                    let Some(result) = inbox.answer(method, &call["params"]) else { continue };
                    let answer = json!({ "jsonrpc": "2.0", "id": call["id"], "result": result });
                    let _ = socket.send(Message::text(answer.to_string())).await;
                    if method == "auth.connect" {
                        is_session = true;
                        inbox.sessions.send_modify(|sessions| *sessions += 1);
                    }
                }
                Some(Ok(_)) => {}
                _ => return,
            },
            Ok(order) = orders.recv(), if is_session => match order {
                FakeOrder::Publish(seq, many) => {
                    let event = json!({ "jsonrpc": "2.0", "method": "event/message.received", "params": row(seq) });
                    for _ in 0..many {
                        if socket.send(Message::text(event.to_string())).await.is_err() {
                            return;
                        }
                    }
                }
                FakeOrder::DropConnection => return,
            },
        }
    }
}

impl FakeInbox {
    /// The result of a call; none for a method that is never answered.
    fn answer(&self, method: &str, params: &Value) -> Option<Value> {
        let aid = &params["aid"];
        Some(match method {
            "auth.create_aid" => json!({ "aid": aid, "cert": "a certificate" }),
            "auth.aid_login1" => json!({
                "request_id": "a-request", "nonce": "another-nonce", "server_time": 0.0,
                "client_nonce_signature": "", "auth_cert": "", "auth_curve": "P-256",
            }),
            "auth.aid_login2" => json!({
                "status": "ok", "aid": aid, "access_token": "access", "refresh_token": "refresh", "expires_in": 3600,
            }),
            "auth.connect" => json!({
                "status": "ok", "protocol": "1.0", "server_time": 0.0, "authenticated": true,
                "identity": { "aid": "alice.agents.localhost" }, "connection": { "id": "1", "kind": "long" },
                "capabilities": { "namespaces": ["message"] },
            }),
            "message.pull" => self.page(params),
            "message.ack" => {
                let seq = params["seq"].as_u64().expect("a client acknowledges by seq");
                self.acknowledged.fetch_max(seq, Ordering::SeqCst);
                json!({ "success": true, "ack_seq": seq })
            }
            "meta.ping" => json!({ "pong": true }),
            _ => return None,
        })
    }

    /// Two messages at most, so that there is more than one page.
    fn page(&self, params: &Value) -> Value {
        let (after, stored) = (params["after_seq"].as_u64().unwrap_or(0), self.stored.load(Ordering::SeqCst));
        let last = stored.min(after + 2);
        let rows: Vec<Value> = (after + 1..=last).map(row).collect();
        json!({
            "messages": rows, "count": rows.len(), "latest_seq": last.max(after), "has_more": last < stored,
            "server_ack_seq": self.acknowledged.load(Ordering::SeqCst),
        })
    }
}

fn row(seq: u64) -> Value {
    json!({ "message_id": format!("m-{seq}"), "seq": seq, "from": "bobb.agents.localhost",
        "to": "alice.agents.localhost", "payload": { "type": "text", "text": "hello" } })
}
