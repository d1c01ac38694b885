//! How long links last, outbound and inbound: until a certificate expires, for a day, or until a ping is not answered.

use super::support::two_domains::{LONG, OURS, THEIRS, TwoDomains};
use crate::admission::Admission;
use crate::federation::wire::hello::HelloParams;
use crate::gateway::GatewayState;
use crate::incoming::IncomingFrames;
use crate::session;
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use kernel::{BytesOwner, World};
use proto_schemas::requests::gateway::OutboundState;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::io::{AsyncReadExt as _, DuplexStream};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

const DAY_MS: i64 = 24 * 3_600_000;

#[tokio::test]
async fn a_link_ends_with_the_first_certificate_and_the_next_call_makes_another() {
    let domains = TwoDomains::new().await;
    let ends = [&domains.fed, &domains.remote.fed].map(|fed| fed.identity.leaf.certificate().not_after());
    // 50 ms before the first of the two expires.
    domains.fed.clock.advance_ms(ends[0].min(ends[1]) * 1000 - 50 - domains.fed.clock.now_ms());
    for relay_id in ["r1", "r2"] {
        let call = domains.send(relay_id);
        let mut link = domains.accepted_link().await;
        let frame = link.next().await.unwrap();
        link.answer(&frame).await;
        assert_eq!(call.await.unwrap().unwrap(), relay_id);
        assert!(link.next().await.is_none(), "a certificate expired");
        domains.until(|peer| peer.outbound == OutboundState::Idle).await;
    }
    assert_eq!(domains.remote.upgrades.load(Ordering::SeqCst), 2, "each call had a link of its own");
    let [peer] = &domains.peers().list()[..] else { panic!("one peer") };
    assert_eq!((peer.failed, &peer.last_error), (0, &None), "that is not a failure");
}

/// The gateway of the other domain, connected to a socket of ours.
struct ConnectedPeer {
    socket: WebSocketStream<DuplexStream>,
    gateway: Arc<GatewayState>,
}

impl ConnectedPeer {
    /// Connects and says hello. Our side pings, and checks the clock, every few milliseconds. Both sides run on one thread:
    /// the peer answers pings while it reads, and only then.
    async fn new(domains: &TwoDomains) -> ConnectedPeer {
        let mut config = domains.fed.config.clone();
        (config.limits.ping_interval_ms, config.limits.ping_timeout_ms) = (10, 10);
        let mut world = World::local(OURS, Path::new("unused"), config.store_url().unwrap());
        world.clock = domains.fed.clock.clone();
        let url = format!("wss://gateway.{OURS}/aun");
        let admission = Arc::new(Admission::new(&config, &world));
        let gateway =
            GatewayState::new(config, url, &world, Arc::default(), admission, Some(domains.fed.clone()));
        let (local, remote) = tokio::io::duplex(1 << 16);
        let (owner, budget) = (BytesOwner::of_address([127, 0, 0, 1].into()), gateway.frame_budget.clone());
        let local = IncomingFrames::new(local, Bytes::new(), 64 << 10, owner, budget);
        let local = WebSocketStream::from_raw_socket(local, Role::Server, None).await;
        gateway.tracker.spawn(session::run(gateway.clone(), local, [127, 0, 0, 1].into()));
        let socket = WebSocketStream::from_raw_socket(remote, Role::Client, None).await;
        let mut peer = ConnectedPeer { socket, gateway };
        peer.hello(domains).await;
        peer
    }

    async fn hello(&mut self, domains: &TwoDomains) {
        let nonce = self.text().await["params"]["nonce"].as_str().unwrap().to_owned();
        let theirs = &domains.remote.fed;
        let now = theirs.clock.now_ms();
        let hello = HelloParams::new(&theirs.identity, THEIRS, OURS, &nonce, theirs.ids.secret(), now);
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "federation.hello", "params": hello });
        self.socket.send(Message::text(request.to_string())).await.unwrap();
        let welcome = self.text().await;
        assert_eq!(welcome["result"]["issuer"], OURS, "{welcome}");
    }

    /// The next WebSocket message; a ping is answered while the one after it is awaited.
    async fn next(&mut self) -> Message {
        timeout(LONG, self.socket.next()).await.expect("nothing came").unwrap().unwrap()
    }

    async fn text(&mut self) -> Value {
        let Message::Text(text) = self.next().await else { panic!("a text was expected") };
        serde_json::from_str(&text).unwrap()
    }

    /// Receives two pings: the first may have been sent before something changed.
    async fn is_pinged(&mut self) {
        for _ in 0..2 {
            let message = self.next().await;
            assert!(matches!(message, Message::Ping(_)), "{message:?}");
        }
    }

    /// The code and the reason of the close frame. One ping may have been sent before it.
    async fn close_reason(&mut self) -> (u16, String) {
        let mut message = self.next().await;
        if let Message::Ping(_) = message {
            message = self.next().await;
        }
        let Message::Close(Some(frame)) = message else { panic!("{message:?} instead of a close frame") };
        (frame.code.into(), frame.reason.to_string())
    }
}

#[tokio::test]
async fn an_inbound_link_is_closed_after_a_day() {
    let domains = TwoDomains::new().await;
    let mut peer = ConnectedPeer::new(&domains).await;
    peer.is_pinged().await;
    domains.fed.clock.advance_ms(DAY_MS - 1);
    peer.is_pinged().await;
    domains.fed.clock.advance_ms(1);
    assert_eq!(peer.close_reason().await, (1001, "this link has to authenticate again".to_owned()));
}

#[tokio::test]
async fn an_inbound_link_is_closed_when_its_certificate_expires() {
    let domains = TwoDomains::new().await;
    let ends = domains.remote.fed.identity.leaf.certificate().not_after();
    domains.fed.clock.advance_ms(ends * 1000 - 1 - domains.fed.clock.now_ms());
    let mut peer = ConnectedPeer::new(&domains).await;
    peer.is_pinged().await;
    domains.fed.clock.advance_ms(1);
    assert_eq!(peer.close_reason().await, (1001, "this link has to authenticate again".to_owned()));
}

#[tokio::test]
async fn an_inbound_link_that_does_not_answer_pings_is_closed() {
    let domains = TwoDomains::new().await;
    let mut peer = ConnectedPeer::new(&domains).await;
    assert_eq!(domains.fed.inbound.count(THEIRS), 1);
    // The peer reads nothing meanwhile, so it answers no ping.
    peer.gateway.tracker.close();
    timeout(LONG, peer.gateway.tracker.wait()).await.unwrap();
    assert_eq!(domains.fed.inbound.count(THEIRS), 0, "it is not counted any more");
    let mut rest = Vec::new();
    peer.socket.get_mut().read_to_end(&mut rest).await.unwrap();
    let reason = b"no answer to a ping";
    let close_frame = [&[0x88, 2 + reason.len() as u8][..], &1001_u16.to_be_bytes(), reason].concat();
    assert!(rest.ends_with(&close_frame), "{}", rest.escape_ascii());
}
