//! Addresses: limits count clients, not the balancer before them, and an IPv6 network is not as many clients as it has addresses.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use certs::dev::Pki;
use certs::{Curve, Key};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::cpu::{is_rate_limit, log_in, made_up};
use super::sockets::dial;
use crate::support::agent::{hello, public_key};
use crate::support::http::tls_over;
use crate::support::socket::TestSocket;
use crate::support::{ISSUER, TestServer, now, printed, until, within};

/// A setting that only a server with this defence has.
const PROXIES: &str = "proxies = ['127.99.0.1']\nlimits.preauth_calls = 1000";
const BALANCER: [u8; 4] = [127, 99, 0, 1];

const REQUEST: &[u8] = b"GET /health/live HTTP/1.1\r\nHost: gateway\r\n\r\n";

fn version_1(client: &str) -> Vec<u8> {
    let (family, balancer) =
        if client.contains(':') { ("TCP6", "2001:db8::1") } else { ("TCP4", "127.0.0.1") };
    format!("PROXY {family} {client} {balancer} 40000 443\r\n").into_bytes()
}

/// With a field that the server does not know.
fn version_2(client: &str) -> Vec<u8> {
    let (family, [source, destination]) = match client.parse().expect("an address") {
        IpAddr::V4(client) => (0x11, [client.octets().to_vec(), vec![127, 0, 0, 1]]),
        IpAddr::V6(client) => (0x21, [client.octets().to_vec(), Ipv6Addr::LOCALHOST.octets().to_vec()]),
    };
    let rest = [source, destination, vec![156, 64, 1, 187], vec![0xe0, 0, 1, 7]].concat();
    let length = u8::try_from(rest.len()).expect("a short header");
    [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[0x21, family, 0, length], &rest].concat()
}

/// A connection as the balancer opens it for a client.
async fn proxied(server: &TestServer, header: &[u8]) -> TcpStream {
    let mut stream = dial(server, BALANCER).await;
    stream.write_all(header).await.expect("the server reads");
    stream
}

async fn socket_of(server: &TestServer, client: &str) -> TestSocket {
    server.socket_over(proxied(server, &version_1(client)).await).await
}

/// What is answered to a request on a connection; nothing if it is closed instead.
async fn answer(stream: &mut TcpStream, sent: &[u8]) -> String {
    // A server that refuses may close before it has read everything.
    let _ = stream.write_all(sent).await;
    let mut bytes = [0; 4096];
    let read = within("an answer, or the end", stream.read(&mut bytes)).await.unwrap_or(0);
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

#[tokio::test]
async fn a_client_behind_a_balancer_is_limited_and_another_client_of_it_is_not() {
    let settings = format!("{PROXIES}\nlimits.login_failures_per_minute = 5");
    let server = TestServer::with_one_gateway(&settings).await;
    let alice = server.register("alice").await;
    let liar = made_up(&Pki::new(ISSUER, now() - 86_400), "liar");
    let attacker = socket_of(&server, "198.51.100.7").await;
    for _ in 0..5 {
        let error = attacker.call_error("auth.aid_login1", &liar.login1()).await;
        assert!(!is_rate_limit(&error), "{error}");
    }
    assert!(is_rate_limit(&attacker.call_error("auth.aid_login1", &liar.login1()).await));
    let again = server.socket_over(proxied(&server, &version_2("198.51.100.7")).await).await;
    assert!(
        is_rate_limit(&again.call_error("auth.aid_login1", &liar.login1()).await),
        "one client, both versions"
    );

    let bystander = socket_of(&server, "203.0.113.9").await;
    log_in(&bystander, &alice).await.expect("another client of the same balancer logs in");
    let bystander = server.socket_over(proxied(&server, &version_2("2001:db8::9")).await).await;
    log_in(&bystander, &alice).await.expect("and one that comes over IPv6");
    for health_check in [&b"PROXY UNKNOWN\r\n"[..], b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"] {
        let mut own = proxied(&server, health_check).await;
        assert!(answer(&mut own, REQUEST).await.starts_with("HTTP/1.1 200"), "the balancer itself asks");
    }
}

#[tokio::test]
async fn the_header_comes_before_tls() {
    let server = TestServer::with_one_gateway(PROXIES).await;
    let name = format!("gateway.{ISSUER}");
    for header in [version_1("198.51.100.7"), version_2("2001:db8::7")] {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((BALANCER, 0).into()).expect("an address of the loopback network");
        let dialled = socket.connect((server.host(), server.tls_port).into());
        let mut stream = within("a connection", dialled).await.expect("the server accepts connections");
        stream.write_all(&header).await.expect("the server reads");
        let mut tls = tls_over(stream, &server.root(), &name).await.expect("TLS after the header");
        tls.write_all(REQUEST).await.expect("the server reads");
        let mut start = [0; 12];
        within("an answer", tls.read_exact(&mut start)).await.expect("a whole answer");
        assert_eq!(&start, b"HTTP/1.1 200");
    }
}

#[tokio::test]
async fn a_header_from_anybody_else_is_refused_and_a_balancer_has_to_send_one() {
    let server = TestServer::with_one_gateway(PROXIES).await;
    for header in [version_1("198.51.100.7"), version_2("198.51.100.7")] {
        let mut other = dial(&server, [127, 98, 0, 1]).await;
        let answered = answer(&mut other, &[&header, REQUEST].concat()).await;
        assert!(answered.starts_with("HTTP/1.1 400"), "{answered}");
    }
    let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(100));
    for not_a_header in [REQUEST, b"PROXY TCP4 nobody 127.0.0.1 1 2\r\n", long.as_bytes()] {
        let mut balancer = dial(&server, BALANCER).await;
        assert_eq!(answer(&mut balancer, &[not_a_header, REQUEST].concat()).await, "");
    }
    assert!(server.metric("aund_refused_sockets_total{reason=\"proxy_header\"}").await >= 3.0);
}

#[tokio::test]
async fn a_header_that_is_sent_slowly_ends_at_the_deadline_and_silence_keeps_nobody_out() {
    let settings = format!("{PROXIES}\nlimits.handshake_timeout_ms = 2000\nlimits.handshakes = 24");
    let server = TestServer::with_one_gateway(&settings).await;
    let slow = [version_1("198.51.100.7"), version_2("198.51.100.7")].map(|header| async {
        let (mut stream, mut header) = (dial(&server, BALANCER).await, header.into_iter().cycle());
        // The first 20 bytes of either version are no whole header; the deadline comes before they are sent.
        for _ in 0..20 {
            let _ = stream.write_all(&[header.next().expect("it repeats")]).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        answer(&mut stream, REQUEST).await
    });
    assert_eq!(join_all(slow).await, ["", ""], "both are closed");

    let mut silent = Vec::new();
    for _ in 0..64 {
        silent.push(dial(&server, BALANCER).await);
    }
    let mut client = proxied(&server, &version_1("203.0.113.9")).await;
    assert!(answer(&mut client, REQUEST).await.starts_with("HTTP/1.1 200"));
    let mut direct = dial(&server, [127, 98, 0, 1]).await;
    assert!(answer(&mut direct, REQUEST).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_64_is_one_address_a_56_has_the_limits_of_four_and_a_48_of_sixteen() {
    let server = TestServer::with_one_gateway(&format!("{PROXIES}\nlimits.sockets_per_address = 2")).await;
    let mut held = Vec::new();
    let mut is_served = async |client: &str| {
        let mut stream = proxied(&server, &version_2(client)).await;
        let served = answer(&mut stream, REQUEST).await.starts_with("HTTP/1.1 200");
        // A socket counts as long as it is open.
        held.extend(served.then_some(stream));
        served
    };
    assert!(is_served("2001:db8:0:1::1").await && is_served("2001:db8:0:1:ffff::2").await);
    assert!(!is_served("2001:db8:0:1::3").await, "a third address of the same /64");
    for subnet in 2..5 {
        for host in 1..3 {
            assert!(is_served(&format!("2001:db8:0:{subnet}::{host}")).await, "/64 {subnet}");
        }
    }
    assert!(!is_served("2001:db8:0:5::1").await, "a fifth /64 of the same /56");
    for network in 1..4 {
        for subnet in 1..9 {
            assert!(is_served(&format!("2001:db8:0:{network}0{subnet}::1")).await, "/56 {network}");
        }
    }
    assert!(!is_served("2001:db8:0:900::1").await, "a fifth /56 of the same /48, which has 32 sockets");
    assert!(is_served("2001:db8:1::1").await, "another /48");
    drop(held);
    until("what is closed is free again", || async {
        let mut stream = proxied(&server, &version_1("2001:db8:0:1::9")).await;
        answer(&mut stream, REQUEST).await.starts_with("HTTP/1.1 200").then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_address_and_its_network_register_so_many_agents_per_day() {
    let settings =
        format!("{PROXIES}\nlimits.registrations_per_day = 2\nlimits.registrations_per_day_per_prefix = 3");
    let server = TestServer::with_one_gateway(&settings).await;
    let register = async |client: &str, name: &str| -> Result<Value, Value> {
        let key = public_key(&Key::generate(Curve::P256));
        let params = json!({ "aid": format!("{name}.{ISSUER}"), "public_key": key });
        socket_of(&server, client).await.try_call("auth.create_aid", &params).await
    };
    for (subnet, (client, beside, elsewhere)) in [
        ("198.51.100.7", "198.51.100.8", "203.0.113.7"),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:100::1"),
    ]
    .into_iter()
    .enumerate()
    {
        let named = |what: &str| format!("{what}{subnet}");
        register(client, &named("first")).await.expect("the first of two");
        register(client, &named("second")).await.expect("the second of two");
        let refused = register(client, &named("third")).await.expect_err("an address may register two");
        assert!(is_rate_limit(&refused), "{refused}");
        assert!(refused["data"]["retry_after_ms"].as_u64().is_some_and(|ms| ms > 3_600_000), "{refused}");
        register(beside, &named("beside")).await.expect("the third of the network");
        let refused = register(beside, &named("fourth")).await.expect_err("a network may register three");
        assert!(refused["message"].as_str().is_some_and(|text| text.contains("network")), "{refused}");
        register(elsewhere, &named("elsewhere")).await.expect("another network");
    }
    for n in 0..4 {
        register("10.0.0.7", &format!("private{n}")).await.expect("private addresses are not counted by day");
        server.register(&format!("local{n}")).await;
    }
}

#[tokio::test]
async fn the_doctor_says_when_clients_share_an_address() {
    let server = TestServer::with_one_gateway(PROXIES).await;
    let doctor = async || printed(&server.aund_on_gateway(&["doctor"]).await.stdout);
    let mut sessions = Vec::new();
    for n in 0..20 {
        let agent = server.register(&format!("agent{n}")).await;
        let tokens = server.login(&agent).await;
        let socket = socket_of(&server, "203.0.113.9").await;
        socket.call("auth.connect", &hello(socket.nonce(), &tokens.access)).await;
        sessions.push(socket);
        if n == 18 {
            let report = doctor().await;
            assert!(!report.contains("203.0.113.9:"), "few may well share one: {report}");
        }
    }
    let report = doctor().await;
    assert!(report.contains("20 of 20 sessions come from 203.0.113.9:"), "{report}");
    assert!(report.contains("proxies = [\"203.0.113.9\"]"), "{report}");
}
