//! Sockets that cost the server more than those who open them: announced frames, silent handshakes, floods of control frames,
//! answers that nobody reads.

use std::io::ErrorKind;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::support::{TestServer, until, within};

const MIB: u64 = 1 << 20;
const ANNOUNCED: u64 = MIB + (256 << 10);

/// A WebSocket without a library, from an address of the loopback network. Its challenge has been read.
async fn websocket(server: &TestServer, source: [u8; 4]) -> TcpStream {
    let mut stream = dial(server, source).await;
    let upgrade = "GET /aun HTTP/1.1\r\nHost: gateway\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(upgrade.as_bytes()).await.expect("the server reads");
    let (mut received, mut piece) = (Vec::new(), [0; 2048]);
    while !received.ends_with(b"}}") {
        let read = within("a challenge", stream.read(&mut piece)).await.expect("the server answers");
        assert!(read > 0, "the socket ended instead of a challenge");
        received.extend_from_slice(&piece[..read]);
    }
    stream
}

pub(super) async fn dial(server: &TestServer, source: [u8; 4]) -> TcpStream {
    dial_from(server, source, TcpSocket::new_v4().expect("a socket")).await
}

/// A socket that holds next to nothing that is not read, so that all of it waits at the server.
pub(super) async fn dial_narrow(server: &TestServer, source: [u8; 4]) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a size");
    dial_from(server, source, socket).await
}

async fn dial_from(server: &TestServer, source: [u8; 4], socket: TcpSocket) -> TcpStream {
    socket.bind((source, 0).into()).expect("an address of the loopback network");
    let dial = socket.connect((server.host(), server.plain_port).into());
    within("a connection", dial).await.expect("the server accepts connections")
}

/// The header of a masked text frame of so many bytes: 14 bytes.
fn announce(bytes: u64) -> Vec<u8> {
    let mut header = vec![0x81, 0xff];
    header.extend_from_slice(&bytes.to_be_bytes());
    header.extend_from_slice(&[0; 4]);
    header
}

/// Whether the server has closed it. What it has sent is read on the way.
fn is_closed(stream: &TcpStream) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match stream.try_read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

fn closed(streams: &[TcpStream]) -> usize {
    streams.iter().filter(|stream| is_closed(stream)).count()
}

#[tokio::test]
async fn announced_frames_cost_no_memory_before_login() {
    const SOCKETS: usize = 400;
    let server = TestServer::with_one_gateway("limits.auth_timeout_ms = 600000").await;
    let alice = server.agent("alice").await;
    let mut sockets = Vec::with_capacity(SOCKETS);
    for _ in 0..SOCKETS {
        sockets.push(websocket(&server, [127, 0, 0, 1]).await);
    }
    let before = server.memory();
    // 14 bytes each, and then a fifth of what they announce. A server that has had enough of it may close at any time.
    let payload = vec![b' '; 256 << 10];
    for socket in &mut sockets {
        let _ = socket.write_all(&announce(ANNOUNCED)).await;
    }
    for socket in &mut sockets {
        let _ = within("the server reads or closes", socket.write_all(&payload)).await;
    }
    assert_eq!(alice.call("meta.ping", &json!({})).await["pong"], true, "sessions do not notice");
    until("every one is closed, and its memory given back", || async {
        let grown = server.memory().saturating_sub(before);
        (closed(&sockets) == SOCKETS && grown < 40 * MIB).then_some(())
    })
    .await;
}

#[tokio::test]
async fn unfinished_frames_after_login_are_paid_by_who_sends_them() {
    // Eight of the largest frames: a setting that only a server with this defence has.
    let server = TestServer::with_one_gateway("limits.frame_total_bytes = 10485760").await;
    let (mallory, bob) = (server.agent("mallory").await, server.agent("bobby").await);
    let mut open = Vec::new();
    for n in 0..14 {
        let (device, slot) = (format!("device-{}", n % 7), format!("slot-{n}"));
        open.push(server.connect_device(&mallory, &device, &slot).await);
    }
    // The first MiB of a message that is never finished.
    for session in &open {
        let part = Frame::message(vec![b' '; 1 << 20], OpCode::Data(Data::Text), false);
        session.send_message(Message::Frame(part)).await;
        // Its answer says that all of it was read.
        session.send_message(Message::Ping("read?".into())).await;
        session.pong().await;
    }
    assert_eq!(open[0].closed().await.code, 1013, "the oldest of who holds most");
    let pong = bob.call("meta.ping", &json!({ "pad": "x".repeat(1_000_000) })).await;
    assert_eq!(pong["pong"], true, "others send large frames as ever");
    until("as many are closed as do not fit", || async {
        (server.metric("aund_closes_total{code=\"1013\"}").await >= 4.0).then_some(())
    })
    .await;
    assert!(server.metric("aund_closes_total{code=\"1013\"}").await <= 6.0, "and no more");
}

#[tokio::test]
async fn silent_handshakes_of_one_address_keep_nobody_out() {
    const SLOTS: usize = 48;
    let settings = format!("limits.handshakes = {SLOTS}\nlimits.handshake_timeout_ms = 600000");
    let server = TestServer::with_one_gateway(&settings).await;
    let attacker = [127, 0, 9, 9];
    let mut slow = dial(&server, attacker).await;
    slow.write_all(b"GET /health HTTP/1.1\r\n").await.expect("the server reads");
    // Takes several sockets, to register, to log in, to connect: meanwhile those words have been read.
    server.agent("before").await;
    let mut silent = Vec::new();
    for _ in 0..2 * SLOTS {
        silent.push(dial(&server, attacker).await);
    }
    for name in ["alice", "bobby", "carol"] {
        let agent = server.agent(name).await;
        assert_eq!(agent.call("meta.ping", &json!({})).await["pong"], true);
    }
    assert!(server.tls(&format!("gateway.{}", server.issuer)).await.is_ok(), "over TLS, too");
    until("the oldest silent ones are closed", || async {
        silent[..SLOTS].iter().all(is_closed).then_some(())
    })
    .await;
    assert!(!is_closed(&silent[2 * SLOTS - 1]), "the youngest one is not");
    slow.write_all(b"Host: gateway\r\nConnection: close\r\n\r\n").await.expect("it is open");
    let mut answer = Vec::new();
    within("an answer", slow.read_to_end(&mut answer)).await.expect("an answer");
    assert!(answer.starts_with(b"HTTP/1.1 200"), "who speaks, if slowly, stays before those who are silent");
}

#[tokio::test]
async fn control_frames_do_not_put_off_the_end_of_a_login() {
    let settings = "limits.auth_timeout_ms = 1000\nlimits.write_timeout_ms = 600000";
    let server = TestServer::with_one_gateway(settings).await;
    let masked = |first: u8| [first, 0x80, 0, 0, 0, 0];
    let pings = masked(0x89).repeat(16 << 10);
    // A message in fragments of no bytes, which never becomes one.
    let fragments = masked(0x00).repeat(16 << 10);
    for (begin, flood) in [(masked(0x89), pings), (masked(0x01), fragments)] {
        let mut socket = websocket(&server, [127, 0, 0, 1]).await;
        socket.write_all(&begin).await.expect("the server reads");
        let (mut reads, mut writes) = socket.into_split();
        let flooding = async { while writes.write_all(&flood).await.is_ok() {} };
        let reading = async {
            let mut bytes = vec![0; 64 << 10];
            while reads.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
        };
        within("a socket that never logs in is closed", async { tokio::join!(flooding, reading) }).await;
    }
    assert_eq!(server.metric("aund_closes_total{code=\"4008\"}").await, 2.0, "by the deadline of a login");
}

#[tokio::test]
async fn answers_that_nobody_reads_do_not_fill_the_memory() {
    const READERS: usize = 150;
    let settings =
        "limits.write_timeout_ms = 600000\nlimits.call_timeout_ms = 120000\nlimits.calls_per_second = 100000";
    let server = TestServer::with_one_gateway(settings).await;
    let alice = server.register("alice").await;
    let token = server.login(&alice).await.access;
    let discover = r#"{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}"#;
    let one = server.http("POST", "/rpc").bearer(&token).body(discover).send().await.body.len();
    // Together 450 MiB: several times what may wait to be read.
    let members = ((3 << 20) / one).clamp(1, 50);
    let body = format!("[{}]", vec![discover; members].join(","));
    let request = format!(
        "POST /rpc HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let before = server.memory();
    let mut never_read = Vec::new();
    for _ in 0..READERS {
        let mut stream = dial_narrow(&server, [127, 0, 9, 9]).await;
        stream.write_all(request.as_bytes()).await.expect("the server reads");
        never_read.push(stream);
        let answered = never_read.len() as f64 + 1.0;
        until("it is answered", || async {
            let counted = server.metric("aund_http_responses_total{route=\"/rpc\"").await;
            (counted >= answered).then_some(())
        })
        .await;
    }
    until("only a part of the answers is kept", || async {
        // Memory is given back while something happens.
        server.get("/health").await;
        (server.memory().saturating_sub(before) < 320 * MIB).then_some(())
    })
    .await;
    let answer = server.http("POST", "/rpc").bearer(&token).body(body.as_str()).send().await;
    let whole = answer.json().as_array().map(Vec::len);
    assert_eq!((answer.status, whole), (200, Some(members)), "who reads gets all of it");
    assert!(server.metric("aund_refused_sockets_total{reason=\"http_unread\"}").await >= 1.0);
    drop(never_read);
}
