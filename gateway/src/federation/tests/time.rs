//! What time does to links: they prove themselves anew, and whoever falls silent is asked whether he is still there.

use super::rig::{LONG, OURS, Rig, THEIRS};
use crate::federation::HelloParams;
use crate::federation::peer_state::Outbound;
use crate::gateway::GatewayState;
use crate::session;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use services::kernel::World;
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
async fn a_link_does_not_outlive_the_certificates_and_the_next_call_makes_another() {
    let rig = Rig::new().await;
    let ends = [&rig.fed, &rig.there.fed].map(|fed| fed.card.identity.certificate().not_after());
    // A moment before the first of the two: the link is good for that moment.
    rig.fed.clock.advance_ms(ends[0].min(ends[1]) * 1000 - 50 - rig.fed.clock.now_ms());
    for relay_id in ["r1", "r2"] {
        let call = rig.send(relay_id);
        let mut there = rig.link().await;
        let frame = there.next().await.unwrap();
        there.answer(&frame).await;
        assert_eq!(call.await.unwrap().unwrap(), relay_id);
        assert!(there.next().await.is_none(), "its time is over");
        rig.until(|peer| peer.outbound == Outbound::Idle).await;
    }
    assert_eq!(rig.there.upgrades.load(Ordering::SeqCst), 2, "each call had a link of its own");
    let [peer] = &rig.peers().list()[..] else { panic!("one peer") };
    assert_eq!((peer.failed, &peer.last_error), (0, &None), "that is nobody's fault");
}

/// The gateway of the other domain, on a socket of ours.
struct Visitor {
    socket: WebSocketStream<DuplexStream>,
    gateway: Arc<GatewayState>,
}

impl Visitor {
    /// Comes in and says hello. Our side looks at the clock every few milliseconds. Both sides are on one thread, so
    /// that whoever reads has answered by then.
    async fn new(rig: &Rig) -> Visitor {
        let mut config = rig.fed.config.clone();
        (config.limits.ping_interval_ms, config.limits.ping_timeout_ms) = (10, 10);
        let mut world = World::local(OURS, Path::new("unused"), config.store_url().unwrap());
        world.clock = rig.fed.clock.clone();
        let url = format!("wss://gateway.{OURS}/aun");
        let gateway = GatewayState::new(config, url, &world, Arc::default(), Some(rig.fed.clone()));
        let (near, far) = tokio::io::duplex(1 << 16);
        let near = WebSocketStream::from_raw_socket(near, Role::Server, None).await;
        gateway.tracker.spawn(session::run(gateway.clone(), near, [127, 0, 0, 1].into()));
        let socket = WebSocketStream::from_raw_socket(far, Role::Client, None).await;
        let mut visitor = Visitor { socket, gateway };
        visitor.hello(rig).await;
        visitor
    }

    async fn hello(&mut self, rig: &Rig) {
        let nonce = self.text().await["params"]["nonce"].as_str().unwrap().to_owned();
        let theirs = &rig.there.fed;
        let now = theirs.clock.now_ms();
        let hello = HelloParams::new(&theirs.card, THEIRS, OURS, &nonce, theirs.ids.secret(), now);
        let ask = json!({ "jsonrpc": "2.0", "id": 1, "method": "federation.hello", "params": hello });
        self.socket.send(Message::text(ask.to_string())).await.unwrap();
        let welcome = self.text().await;
        assert_eq!(welcome["result"]["issuer"], OURS, "{welcome}");
    }

    /// The next message; pings are answered while the one after them is waited for.
    async fn next(&mut self) -> Message {
        timeout(LONG, self.socket.next()).await.expect("nothing came").unwrap().unwrap()
    }

    async fn text(&mut self) -> Value {
        let Message::Text(text) = self.next().await else { panic!("a text was expected") };
        serde_json::from_str(&text).unwrap()
    }

    /// Two pings: the first may have been under way before something changed.
    async fn is_pinged(&mut self) {
        for _ in 0..2 {
            let message = self.next().await;
            assert!(matches!(message, Message::Ping(_)), "{message:?}");
        }
    }

    /// The code and the reason of the close reason. One ping may have been under way before it.
    async fn close_reason(&mut self) -> (u16, String) {
        let mut message = self.next().await;
        if let Message::Ping(_) = message {
            message = self.next().await;
        }
        let Message::Close(Some(frame)) = message else { panic!("{message:?} instead of a close reason") };
        (frame.code.into(), frame.reason.to_string())
    }
}

#[tokio::test]
async fn whoever_came_to_us_proves_himself_anew_after_a_day() {
    let rig = Rig::new().await;
    let mut visitor = Visitor::new(&rig).await;
    visitor.is_pinged().await;
    rig.fed.clock.advance_ms(DAY_MS - 1);
    visitor.is_pinged().await;
    rig.fed.clock.advance_ms(1);
    assert_eq!(visitor.close_reason().await, (1001, "this link has to authenticate again".to_owned()));
}

#[tokio::test]
async fn whoever_came_to_us_does_not_outlive_his_certificate() {
    let rig = Rig::new().await;
    let ends = rig.there.fed.card.identity.certificate().not_after();
    rig.fed.clock.advance_ms(ends * 1000 - 1 - rig.fed.clock.now_ms());
    let mut visitor = Visitor::new(&rig).await;
    visitor.is_pinged().await;
    rig.fed.clock.advance_ms(1);
    assert_eq!(visitor.close_reason().await, (1001, "this link has to authenticate again".to_owned()));
}

#[tokio::test]
async fn whoever_came_to_us_and_fell_silent_is_left() {
    let rig = Rig::new().await;
    let mut visitor = Visitor::new(&rig).await;
    assert_eq!(rig.fed.guests.of(THEIRS), 1);
    // Nothing is read here meanwhile, so nothing is answered.
    visitor.gateway.tracker.close();
    timeout(LONG, visitor.gateway.tracker.wait()).await.unwrap();
    assert_eq!(rig.fed.guests.of(THEIRS), 0, "nobody counts on it any more");
    let mut last_words = Vec::new();
    visitor.socket.get_mut().read_to_end(&mut last_words).await.unwrap();
    let reason = b"no answer to a ping";
    let close_reason = [&[0x88, 2 + reason.len() as u8][..], &1001_u16.to_be_bytes(), reason].concat();
    assert!(last_words.ends_with(&close_reason), "{}", last_words.escape_ascii());
}
