//! Which sessions of an agent exist beside each other, and what a session is told that is closed for another.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use crate::support::agent::{ConnectedAgent, TestIdentity, hello, text};
use crate::support::{ISSUER, TestServer, until, within};

fn at(device: &str, slot: &str) -> impl FnOnce(&mut Value) {
    move |hello| {
        hello["device"]["id"] = json!(device);
        hello["client"]["slot_id"] = json!(slot);
    }
}

fn short(ttl_ms: u64) -> impl FnOnce(&mut Value) {
    move |hello| hello["options"] = json!({ "kind": "short", "short_ttl_ms": ttl_ms })
}

async fn is_alive(agent: &ConnectedAgent) -> bool {
    agent.call("meta.ping", &json!({})).await["pong"] == true
}

async fn session_at(server: &TestServer, who: &TestIdentity, device: &str, slot: &str) -> ConnectedAgent {
    server.connect(who, at(device, slot)).await
}

#[tokio::test]
async fn a_new_session_in_the_same_slot_replaces_the_old_one_which_is_told_by_whom() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let old = server.connect(&alice, |hello| hello["extra_info"] = json!({ "pid": 1111 })).await;
    let new = server.connect(&alice, |hello| hello["extra_info"] = json!({ "app": "demo", "n": 1.50 })).await;

    let told = old.disconnected().await;
    assert_eq!(told["code"], 4009);
    assert_eq!(told["detail"]["aid"], alice.aid);
    assert_eq!(
        (&told["detail"]["device_id"], &told["detail"]["slot_id"]),
        (&json!("laptop"), &json!("default"))
    );
    let by = &told["detail"]["evicted_by"];
    assert_eq!((&by["device_id"], &by["slot_id"]), (&json!("laptop"), &json!("default")));
    assert_eq!(by["extra_info"], json!({ "app": "demo", "n": 1.50 }));
    assert_eq!(told["detail"]["self_extra_info"], json!({ "pid": 1111 }));
    assert_eq!(told["detail"]["new_extra_info"], by["extra_info"]);
    assert!(is_alive(&new).await);
}

#[tokio::test]
async fn a_new_session_without_extra_info_is_shown_so() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let old = server.connect(&alice, |_| ()).await;
    let _new = server.connect(&alice, |_| ()).await;
    let told = old.disconnected().await;
    assert!(told["detail"]["evicted_by"]["extra_info"].as_object().is_none_or(|info| info.is_empty()));
    for name in ["self_extra_info", "new_extra_info"] {
        assert_eq!(told["detail"].get(name), None, "{told}");
    }
}

#[tokio::test]
async fn slots_are_the_same_up_to_the_first_slash_colon_or_space() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let mut last = session_at(&server, &alice, "laptop", "evolclaw cli").await;
    for slot in ["evolclaw/web", "evolclaw:x", "evolclaw"] {
        let next = session_at(&server, &alice, "laptop", slot).await;
        let told = last.disconnected().await;
        assert_eq!(told["code"], 4009, "{slot}");
        assert_eq!(told["detail"]["evicted_by"]["slot_id"], slot);
        last = next;
    }
    let other = session_at(&server, &alice, "laptop", "evolclaw2/web").await;
    assert!(is_alive(&last).await && is_alive(&other).await, "another key is another slot");
}

#[tokio::test]
async fn the_same_slot_on_another_device_or_of_another_agent_is_another_slot() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let laptop = session_at(&server, &alice, "laptop", "default").await;
    let phone = session_at(&server, &alice, "phone", "default").await;
    let carol = server.agent("carol").await;
    assert!(is_alive(&laptop).await && is_alive(&phone).await && is_alive(&carol).await);
}

#[tokio::test]
async fn the_eleventh_slot_of_a_device_closes_the_oldest() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    let mut slots = Vec::new();
    for n in 0..10 {
        slots.push(server.connect_with(&alice, &tokens, at("laptop", &format!("slot{n}"))).await);
    }
    let elsewhere = server.connect_with(&alice, &tokens, at("phone", "default")).await;
    let eleventh = server.connect_with(&alice, &tokens, at("laptop", "slot10/x")).await;

    let told = slots.remove(0).disconnected().await;
    assert_eq!((&told["code"], &told["reason"]), (&json!(4015), &json!("long_connection_quota_exceeded")));
    assert_eq!(told["detail"]["quota_kind"], "aid_device_slot_quota_exceeded");
    assert_eq!(told["detail"]["limit"], 10);
    assert_eq!(told["detail"]["slot_id"], "slot0");
    assert_eq!(told["detail"]["evicted_by"]["slot_id"], "slot10/x");
    for agent in slots.iter().chain([&elsewhere, &eleventh]) {
        assert!(is_alive(agent).await);
    }
}

#[tokio::test]
async fn the_eleventh_device_of_an_agent_closes_the_oldest() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    let mut devices = Vec::new();
    for n in 0..10 {
        devices.push(server.connect_with(&alice, &tokens, at(&format!("device{n}"), "default")).await);
    }
    let second_slot = server.connect_with(&alice, &tokens, at("device0", "other")).await;
    let eleventh = server.connect_with(&alice, &tokens, at("device10", "default")).await;

    for gone in [devices.remove(0), second_slot] {
        let told = gone.disconnected().await;
        assert_eq!(told["code"], 4015);
        assert_eq!(told["detail"]["quota_kind"], "aid_devices_quota_exceeded");
        assert_eq!(told["detail"]["limit"], 10);
        assert_eq!(told["detail"]["device_id"], "device0");
        assert_eq!(told["detail"]["evicted_by"]["device_id"], "device10");
    }
    for agent in devices.iter().chain([&eleventh]) {
        assert!(is_alive(agent).await);
    }
}

#[tokio::test]
async fn a_slot_that_was_left_is_free_again() {
    let server = TestServer::start().await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    let mut slots = Vec::new();
    for n in 0..10 {
        slots.push(server.connect_with(&alice, &tokens, at("laptop", &format!("slot{n}"))).await);
    }
    slots.remove(9).close().await;
    server.at_most_sessions(9).await;
    let _tenth = server.connect_with(&alice, &tokens, at("laptop", "slot10")).await;
    for agent in &slots {
        assert!(agent.events_so_far().await.is_empty(), "nobody was closed");
    }
}

#[tokio::test]
async fn the_eleventh_short_connection_is_refused_with_4013() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    let long = server.connect_with(&alice, &tokens, |_| ()).await;
    let mut shorts = Vec::new();
    for _ in 0..10 {
        shorts.push(server.connect_with(&alice, &tokens, short(60_000)).await);
    }
    let socket = server.socket().await;
    let mut eleventh = hello(socket.nonce(), &tokens.access);
    short(60_000)(&mut eleventh);
    let error = socket.call_error("auth.connect", &eleventh).await;
    assert_eq!(error["code"], 4013, "{error}");
    assert!(text(&error["message"]).contains("short_connection_capacity_exceeded"));
    assert_eq!(socket.closed().await.code, 4013);

    let elsewhere = server
        .connect_with(&alice, &tokens, |hello| {
            at("laptop", "other")(hello);
            short(60_000)(hello);
        })
        .await;
    for agent in shorts.iter().chain([&long, &elsewhere]) {
        assert!(is_alive(agent).await);
    }
}

#[tokio::test]
async fn short_and_long_connections_never_replace_each_other() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let first = server.connect(&alice, |_| ()).await;
    let brief = server.connect(&alice, short(60_000)).await;
    assert!(is_alive(&first).await, "a short one came and the long one stays");
    let second = server.connect(&alice, |_| ()).await;
    assert_eq!(first.disconnected().await["code"], 4009);
    assert!(is_alive(&brief).await && is_alive(&second).await, "a long one came and the short one stays");
}

#[tokio::test]
async fn a_short_connection_ends_after_its_quiet_time_and_says_so() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let brief = server.connect(&alice, short(500)).await;
    let told = brief.disconnected().await;
    assert_eq!((&told["code"], &told["detail"]["aid"]), (&json!(4014), &json!(alice.aid)));
    assert_eq!(told["detail"]["ttl_ms"], 500);
    assert!(told["detail"]["idle_ms"].as_u64().unwrap() >= 500, "{told}");
}

#[tokio::test]
async fn every_call_renews_the_quiet_time_of_a_short_connection() {
    let server = TestServer::with("limits.calls_per_second = 1000000").await;
    let alice = server.register("alice").await;
    let (busy, idle) = (
        server.connect(&alice, short(1500)).await,
        server
            .connect(&alice, |hello| {
                at("phone", "default")(hello);
                short(1500)(hello);
            })
            .await,
    );
    let long = server.connect(&alice, at("tablet", "default")).await;
    let gone = idle.disconnected();
    tokio::pin!(gone);
    let told = loop {
        tokio::select! {
            told = &mut gone => break told,
            alive = is_alive(&busy) => assert!(alive),
        }
    };
    assert_eq!(told["code"], 4014);
    assert!(is_alive(&busy).await, "it was never quiet");
    assert!(is_alive(&long).await, "long connections have no quiet time");
}

#[tokio::test]
async fn a_device_may_serve_many_agents() {
    let server = TestServer::shared().await;
    let mut sharing = Vec::new();
    for name in [
        "alice", "carol", "david", "erin", "frank", "grace", "heidi", "ivan", "judy", "mallory", "niaj",
        "olivia",
    ] {
        sharing.push(server.agent(name).await);
    }
    for agent in &sharing {
        assert!(is_alive(agent).await, "AIDs per device are not limited");
    }
}

#[tokio::test]
async fn of_many_that_come_at_once_to_one_slot_one_stays() {
    let server = TestServer::start().await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    let coming = (0..8).map(|_| server.connect_with(&alice, &tokens, |_| ()));
    let came = futures_util::future::join_all(coming).await;
    server.at_most_sessions(1).await;
    let mut staying = 0;
    for session in &came {
        match session.close_event().await {
            None => staying += 1,
            Some(told) => assert_eq!(told["code"], 4009, "{told}"),
        }
    }
    assert_eq!(staying, 1);
}

#[tokio::test]
async fn a_device_without_slots_is_one_instance() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let old = session_at(&server, &alice, "laptop", "").await;
    let new = session_at(&server, &alice, "laptop", "").await;
    let told = old.disconnected().await;
    assert_eq!((&told["code"], &told["detail"]["device_id"]), (&json!(4009), &json!("laptop")));
    let elsewhere = session_at(&server, &alice, "phone", "").await;
    assert!(is_alive(&new).await && is_alive(&elsewhere).await);
}

/// What the server answers its operator on the socket in its data folder.
async fn ask_as_operator(server: &TestServer, method: &str, params: Value) -> Value {
    let socket = server.gateway_data().join("aund.sock");
    let mut stream = within("a socket", UnixStream::connect(socket)).await.expect("the server listens there");
    let line = json!({ "method": method, "params": params }).to_string() + "\n";
    stream.write_all(line.as_bytes()).await.expect("it is read");
    let mut answer = String::new();
    within("an answer", BufReader::new(stream).read_line(&mut answer)).await.expect("it is answered");
    serde_json::from_str(&answer).expect("an answer is JSON")
}

#[tokio::test]
async fn whoever_may_ask_learns_the_sessions_of_an_agent_on_all_gateways() {
    let server = TestServer::start().await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    let long = server
        .connect_with(&alice, &tokens, |hello| {
            at("phone", "app/1")(hello);
            hello["capabilities"] = json!({ "p2p_peer_pull_v1": true });
        })
        .await;
    let brief = server
        .connect_with(&alice, &tokens, |hello| {
            at("laptop", "cli")(hello);
            short(60_000)(hello);
        })
        .await;
    let query = async |params: Value| {
        let mut answer = ask_as_operator(&server, "gateway.query_sessions", params).await;
        answer["result"].take()
    };
    let both = until("both sessions are known", || async {
        let known = query(json!({ "aid": alice.aid })).await;
        (known["sessions"].as_array().map_or(0, Vec::len) == 2).then_some(known)
    })
    .await;
    assert_eq!(both["online"], true);
    let [first, second] = [&both["sessions"][0], &both["sessions"][1]];
    for (session, agent) in [(first, &long), (second, &brief)] {
        assert_eq!(session["connection_id"], agent.welcome["connection"]["id"], "{session}");
        assert_eq!(session["kind"], agent.welcome["connection"]["kind"], "{session}");
        assert_eq!(session["aid"], alice.aid);
        assert_eq!(session["delivery_mode"]["mode"], "fanout");
    }
    assert_eq!((&first["device_id"], &first["slot_id"]), (&json!("phone"), &json!("app/1")));
    assert_eq!(first["capabilities"], json!({ "p2p_peer_pull_v1": true }));
    assert!(first["created_at_ms"].as_i64() < second["created_at_ms"].as_i64(), "{both}");

    for (params, online, sessions) in [
        (json!({ "aid": alice.aid, "long_only": true }), true, json!([first])),
        (json!({ "aid": alice.aid, "device_id": "laptop" }), false, json!([second])),
        (json!({ "aid": alice.aid, "device_id": "laptop", "long_only": true }), false, json!([])),
        (json!({ "aid": format!("nobody.{ISSUER}") }), false, json!([])),
    ] {
        assert_eq!(
            query(params.clone()).await,
            json!({ "online": online, "sessions": sessions }),
            "{params}"
        );
    }
    // Offline would be a wrong answer about an agent whose sessions are not here.
    let elsewhere = json!({ "aid": "alice.other.example" });
    let refused = ask_as_operator(&server, "gateway.query_sessions", elsewhere).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");

    let status = ask_as_operator(&server, "gateway.status", json!({})).await["result"].take();
    assert_eq!((&status["issuer"], &status["domain_sessions"]), (&json!(ISSUER), &json!(1)), "{status}");
    assert_eq!(status["namespaces"]["message"], "up", "{status}");
    assert!(is_alive(&long).await && is_alive(&brief).await);
}

#[tokio::test]
async fn every_answer_names_the_role_of_a_session_as_the_seed_does() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let (socket, tokens) = (server.socket().await, server.login(&alice).await);
    let welcome = socket.call("auth.connect", &hello(socket.nonce(), &tokens.access)).await;
    let status = socket.call("meta.status", &json!({})).await;
    assert_eq!((&welcome["identity"]["role"], &status["role"]), (&json!("user"), &json!("user")));
}
