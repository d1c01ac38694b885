//! A revoked agent that races against its revocation, and a stolen token that wants to become more than a token.

use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{Curve, Key};
use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::support::agent::{TestIdentity, TestTokens, at, hello, public_key, text};
use crate::support::socket::TestSocket;
use crate::support::{TestServer, printed, until, within};

/// Of each kind.
const RACES: usize = 40;
/// How many logins, refreshes or connections an agent tries while it is revoked.
const TRIES: usize = 5;
/// Many callers from one address, each with a few calls of its own.
const HIGH_LIMITS: &str = "limits.registrations_per_minute = 60000\nlimits.logins_per_minute = 60000";

/// Asks as the operator on a data folder, as a command does, but without starting one.
async fn operator(data: &Path, method: &str, params: &Value) -> Option<Value> {
    let stream = UnixStream::connect(data.join("aund.sock")).await.ok()?;
    let (read, mut write) = stream.into_split();
    let line = json!({ "method": method, "params": params }).to_string() + "\n";
    write.write_all(line.as_bytes()).await.ok()?;
    let mut answer = String::new();
    BufReader::new(read).read_line(&mut answer).await.ok()?;
    serde_json::from_str(&answer).ok()
}

/// The folder of the process that answers `auth.*`.
/// Revokes an agent after a part of a millisecond, another one in each race.
async fn revoke(server: &TestServer, aid: &str, race: usize) {
    sleep(Duration::from_micros(150 * race as u64)).await;
    let params = json!({ "aid": aid, "reason": "keyCompromise" });
    let answer = within("a revocation", operator(&server.data(), "ca.revoke_cert", &params)).await;
    let answer = answer.expect("the operator is answered");
    assert_eq!(answer["result"]["revoked"], true, "{answer}");
}

/// Whether anything of a login still works.
async fn works(server: &TestServer, tokens: &TestTokens) -> bool {
    let socket = server.socket().await;
    let connected = socket.try_call("auth.connect", &hello(socket.nonce(), &tokens.access)).await.is_ok();
    socket.close().await;
    connected || refresh(server, &tokens.refresh).await["success"] == true
}

/// A socket of another address each time: the failures of one are counted.
async fn socket_elsewhere(server: &TestServer) -> TestSocket {
    static SOCKETS: AtomicU16 = AtomicU16::new(0);
    let [a, b] = SOCKETS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    server.socket_from([127, 77, b, a.max(1)]).await
}

async fn refresh(server: &TestServer, token: &str) -> Value {
    let socket = socket_elsewhere(server).await;
    let answer = socket.call("auth.refresh_token", &json!({ "refresh_token": token })).await;
    socket.close().await;
    answer
}

fn tokens(answer: &Value) -> TestTokens {
    TestTokens { access: text(&answer["access_token"]), refresh: text(&answer["refresh_token"]) }
}

/// Logs in again and again while it is revoked: logins that began before, on a socket that is there.
async fn login_race(server: &TestServer, race: usize) -> bool {
    let agent = server.register(&format!("login-{race}")).await;
    let socket = socket_elsewhere(server).await;
    let mut begun = Vec::new();
    for _ in 0..TRIES {
        begun.push(socket.call("auth.aid_login1", &agent.login1()).await);
    }
    let logins: Vec<Value> = begun.iter().map(|begun| agent.login2(begun)).collect();
    let attempts = async {
        let mut got = Vec::new();
        for login in &logins {
            got.extend(socket.try_call("auth.aid_login2", login).await.ok());
        }
        got
    };
    let (got, ()) = join(attempts, revoke(server, &agent.aid, race)).await;
    any_works(server, got.iter().map(tokens).collect()).await
}

/// Refreshes again and again while it is revoked.
async fn refresh_race(server: &TestServer, race: usize) -> bool {
    let agent = server.register(&format!("refresh-{race}")).await;
    let first = server.login(&agent).await;
    let socket = socket_elsewhere(server).await;
    let attempts = async {
        let mut got = vec![first];
        for _ in 0..TRIES {
            let token = json!({ "refresh_token": got[got.len() - 1].refresh });
            match socket.try_call("auth.refresh_token", &token).await {
                Ok(next) if next["success"] == true => got.push(tokens(&next)),
                _ => break,
            }
        }
        got
    };
    let (got, ()) = join(attempts, revoke(server, &agent.aid, race)).await;
    any_works(server, got).await
}

async fn any_works(server: &TestServer, got: Vec<TestTokens>) -> bool {
    let mut any = false;
    for tokens in &got {
        any |= works(server, tokens).await;
    }
    any
}

/// Asks for a certificate of another key while it is revoked, and logs in with it.
async fn rekey_race(server: &TestServer, race: usize) -> bool {
    let agent = server.register(&format!("rekey-{race}")).await;
    let socket = socket_elsewhere(server).await;
    let begun = socket.call("auth.aid_login1", &agent.login1()).await;
    let (nonce, key) = (text(&begun["nonce"]), Key::generate(Curve::P256));
    let params = json!({
        "aid": agent.aid, "request_id": begun["request_id"], "nonce": nonce, "new_public_key": public_key(&key),
        "signature": agent.sign(&format!("{nonce}{}", public_key(&key))),
    });
    // The other way round: the revocation is on its way, and the new key comes in between.
    let attempt = async {
        sleep(Duration::from_micros(100 * race as u64)).await;
        socket.try_call("auth.rekey", &params).await
    };
    let (rekeyed, ()) = join(attempt, revoke(server, &agent.aid, RACES / 2)).await;
    let current = server.get(&format!("/pki/cert/{}", agent.aid)).await.status;
    let logged_in = match rekeyed {
        Ok(rekeyed) => {
            let after = TestIdentity { aid: agent.aid.clone(), key, cert: text(&rekeyed["cert"]) };
            server.try_login(&after).await.is_ok()
        }
        Err(_) => false,
    };
    logged_in || current != 404
}

/// Connects several devices while it is revoked. Gives them, because those that survive are counted at the end.
async fn connect_race(server: &TestServer, race: usize) -> Vec<TestSocket> {
    let agent = server.register(&format!("connect-{race}")).await;
    let tokens = server.login(&agent).await;
    let sockets = join_all((0..TRIES).map(|_| server.socket())).await;
    let attempts = sockets.iter().enumerate().map(|(number, socket)| {
        let mut params = hello(socket.nonce(), &tokens.access);
        at(&format!("device-{number}"), "default")(&mut params);
        async move {
            sleep(Duration::from_micros(400 * number as u64)).await;
            let _ = socket.try_call("auth.connect", &params).await;
        }
    });
    join(join_all(attempts), revoke(server, &agent.aid, race / 4)).await;
    sockets
}

#[tokio::test]
async fn nothing_of_an_agent_survives_its_revocation() {
    let server = TestServer::with(HIGH_LIMITS).await;
    // A few at a time: a race is one of moments, not of a queue in front of the store.
    let (mut logins, mut refreshes, mut rekeys, mut sockets) = (0, 0, 0, Vec::new());
    for first in (0..RACES).step_by(8) {
        let races = first..RACES.min(first + 8);
        let (logged_in, refreshed) = join(
            join_all(races.clone().map(|race| login_race(&server, race))),
            join_all(races.clone().map(|race| refresh_race(&server, race))),
        )
        .await;
        let (rekeyed, connected) = join(
            join_all(races.clone().map(|race| rekey_race(&server, race))),
            join_all(races.map(|race| connect_race(&server, race))),
        )
        .await;
        let survivors = |outcomes: Vec<bool>| outcomes.into_iter().filter(|survived| *survived).count();
        logins += survivors(logged_in);
        refreshes += survivors(refreshed);
        rekeys += survivors(rekeyed);
        sockets.extend(connected.into_iter().flatten());
    }
    println!("survivors of {RACES} each: {logins} by login, {refreshes} by refresh, {rekeys} by rekey");
    assert_eq!((logins, refreshes, rekeys), (0, 0, 0), "logins, refreshes and rekeys that survived");
    // Every agent of this server is revoked, so no session is left.
    server.at_most_sessions(0).await;
    drop(sockets);
}

#[tokio::test]
async fn an_authority_that_is_killed_while_it_revokes_leaves_no_token() {
    let mut server = TestServer::with(HIGH_LIMITS).await;
    let mut revoked = 0;
    for kill in 0..2 {
        let mut agents = Vec::new();
        for race in 0..RACES / 2 {
            let agent = server.register(&format!("killed-{kill}-{race}")).await;
            let tokens = server.login(&agent).await;
            agents.push((agent, tokens));
        }
        let mut asking = JoinSet::new();
        for (race, (agent, _)) in agents.iter().enumerate() {
            let (data, params) = (server.data(), json!({ "aid": agent.aid }));
            asking.spawn(async move {
                sleep(Duration::from_micros(400 * race as u64)).await;
                operator(&data, "ca.revoke_cert", &params).await
            });
        }
        sleep(Duration::from_micros(3000 + 3000 * kill)).await;
        server.kill();
        asking.shutdown().await;
        server.start_again();
        for (agent, tokens) in &agents {
            // Whoever was not revoked yet is none of this test's business.
            if server.get(&format!("/pki/cert/{}", agent.aid)).await.status != 404 {
                continue;
            }
            revoked += 1;
            assert_eq!(refresh(&server, &tokens.refresh).await["success"], false, "{}", agent.aid);
            until("the access token has ended", || async {
                let socket = server.socket().await;
                let params = hello(socket.nonce(), &tokens.access);
                socket.try_call("auth.connect", &params).await.err()
            })
            .await;
        }
        server.at_most_sessions(0).await;
    }
    println!("{revoked} of {RACES} were revoked before the authority was killed");
}

#[tokio::test]
async fn revoked_tokens_close_live_sessions_and_the_key_logs_in_again() {
    let server = TestServer::shared().await;
    let (alice, carol) = (server.agent("alice").await, server.agent("carol").await);
    let short = server.connect_short(&alice).await;
    let revoked =
        operator(&server.data_of("auth"), "auth.revoke_tokens", &json!({ "aid": alice.aid() })).await;
    assert_eq!(revoked.expect("the operator is answered")["result"]["revoked"], true);
    for session in [&alice, &short] {
        assert_eq!(session.disconnected().await["code"], 4001);
    }
    assert!(!works(&server, &alice.tokens).await);
    let again = server.connect(&alice.identity, |_| ()).await;
    assert_eq!(again.call("meta.ping", &json!({})).await["pong"], true);
    assert_eq!(carol.call("meta.ping", &json!({})).await["pong"], true, "nobody else is touched");
}

#[tokio::test]
async fn a_command_revokes_the_tokens_of_an_agent() {
    let server = TestServer::start().await;
    let alice = server.agent("alice").await;
    let data = server.data_of("auth");
    let words = ["certs", "revoke-tokens", alice.aid(), "--data", data.to_str().expect("a path is text")];
    let output = crate::support::aund(&words, &server.beside(""));
    assert!(output.status.success(), "{}", printed(&output.stderr));
    assert!(printed(&output.stdout).contains(alice.aid()), "it says what it did");
    assert_eq!(alice.disconnected().await["code"], 4001);
}

#[tokio::test]
async fn a_stolen_token_becomes_no_certificate() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    // All that the thief has is the access token, and a key of its own.
    let thief = server.connect_with(&alice, &tokens, |_| ()).await;
    let key = Key::generate(Curve::P384);
    let mut wanted = json!({ "aid": alice.aid, "public_key": public_key(&key), "curve": "P-384" });
    let refused = thief.try_call("auth.request_cert", &wanted).await;
    assert!(refused.is_err(), "a session alone got a certificate: {refused:?}");
    let begun = server.ask("auth.aid_login1", &alice.login1()).await.expect("a certificate is public");
    let nonce = text(&begun["nonce"]);
    let own =
        STANDARD.encode(key.sign(format!("auth.request_cert:{nonce}:P-384:{}", public_key(&key)).as_bytes()));
    for (name, value) in [("request_id", text(&begun["request_id"])), ("nonce", nonce)] {
        wanted[name] = json!(value);
    }
    (wanted["signature"], wanted["proof"]) = (json!(own), json!(own));
    let refused = thief.try_call("auth.request_cert", &wanted).await;
    assert!(refused.is_err(), "a key signed for itself: {refused:?}");

    // The agent itself gets one, and nobody logs in with it: only the key of the active certificate on P-256 does.
    let issued = thief.call("auth.request_cert", &alice.request_cert(&begun, &key)).await;
    let further = TestIdentity { aid: alice.aid.clone(), key, cert: text(&issued["cert"]) };
    assert!(server.try_login(&further).await.is_err());
    server.login(&alice).await;
}

#[tokio::test]
async fn a_rekey_ends_refresh_tokens_and_a_revocation_the_others() {
    let server = TestServer::start().await;
    let alice = server.register("alice").await;
    let stolen = server.login(&alice).await;
    let after = server.rekey(&alice).await;
    let refreshed = refresh(&server, &stolen.refresh).await;
    assert_eq!((&refreshed["success"], &refreshed["relogin_required"]), (&json!(false), &json!(true)));
    assert!(server.try_login(&alice).await.is_err(), "the old key logs nobody in");
    // SDKs go on with the access token they have.
    let session = server.connect_with(&after, &stolen, |_| ()).await;
    revoke(&server, &alice.aid, 0).await;
    assert_eq!(session.disconnected().await["code"], 4001);
    assert!(!works(&server, &stolen).await);
}

#[tokio::test]
async fn a_refresh_token_in_two_hands_ends_its_chain() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let spent = server.login(&alice).await.refresh;
    let mut current = text(&refresh(&server, &spent).await["refresh_token"]);
    current = text(&refresh(&server, &current).await["refresh_token"]);
    // For ten seconds the one that was used is only refused, because answers get lost. After that it shows that two have it.
    for _ in 0..25 {
        assert_eq!(refresh(&server, &spent).await["success"], false);
        let next = refresh(&server, &current).await;
        if next["success"] == false {
            assert_eq!(next["relogin_required"], true);
            assert!(server.try_login(&alice).await.is_ok(), "the key is as good as before");
            return;
        }
        current = text(&next["refresh_token"]);
        sleep(Duration::from_millis(800)).await;
    }
    panic!("a refresh token that was used again and again ended nothing");
}
