//! A store that fails: callers are told to retry, nothing half-done stays, and it goes on by itself.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use certs::{Curve, Key};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

use crate::support::agent::{aid, public_key, text};
use crate::support::blocker::Blocker;
use crate::support::database::TestDatabase;
use crate::support::{TestServer, on_sqlite, split, until, within};

fn creation(name: &str) -> Value {
    json!({ "aid": aid(name), "public_key": public_key(&Key::generate(Curve::P256)), "curve": "P-256" })
}

fn is_unavailable(error: &Value) -> bool {
    error["code"] == 5003 && error["data"]["kind"] == "unavailable" && error["data"]["retryable"] == true
}

#[tokio::test]
async fn while_the_store_is_held_by_somebody_else_callers_are_told_to_retry() {
    if !on_sqlite() {
        return;
    }
    let server = TestServer::start().await;
    let alice = server.agent("alice").await;
    let blocker = Blocker::hold(&server, "ca", "certificates");

    let error = server.ask_error("auth.create_aid", &creation("carol")).await;
    assert!(is_unavailable(&error), "{error}");
    assert!(!error["message"].to_string().contains("sqlite"), "the cause stays on our side: {error}");
    assert_eq!(alice.call("meta.ping", &json!({})).await["pong"], true, "what needs no store goes on");
    assert_eq!(
        server.get(&format!("/pki/cert/{}", alice.aid())).await.text(),
        alice.identity.cert,
        "reading goes on"
    );
    assert_eq!(server.get(&format!("/pki/cert/{}", aid("carol"))).await.status, 404, "nothing half-done");

    blocker.release();
    server.register("carol").await;
}

#[tokio::test]
async fn a_login_that_cannot_be_stored_is_no_failed_login() {
    if !on_sqlite() {
        return;
    }
    let server = TestServer::start().await;
    let alice = server.register("alice").await;
    let begun = server.ask("auth.aid_login1", &alice.login1()).await.unwrap();
    let blocker = Blocker::hold(&server, "auth", "refresh_tokens");
    let params = alice.login2(&begun);
    let error = server.ask_error("auth.aid_login2", &params).await;
    assert!(is_unavailable(&error), "clients stop for good at a failed login: {error}");
    blocker.release();
    server.ask("auth.aid_login2", &params).await.expect("the same login can be completed");
}

#[tokio::test]
async fn a_full_disk_loses_nothing_that_was_answered() {
    if !on_sqlite() {
        return;
    }
    let mut server =
        TestServer::prepared("limits.registrations_per_minute = 60000\nlimits.preauth_calls = 100000");
    server.start_on_a_full_disk(640);
    let socket = server.socket().await;
    let mut answered = Vec::new();
    let refused = loop {
        let name = format!("agent{}", answered.len());
        match socket.try_call("auth.create_aid", &creation(&name)).await {
            Ok(created) => {
                answered.push((aid(&name), created["cert"].as_str().expect("a certificate").to_owned()))
            }
            Err(error) => break (aid(&name), error),
        }
        assert!(answered.len() < 5000, "the disk never gets full");
    };
    assert!(is_unavailable(&refused.1), "{}", refused.1);
    assert!(!answered.is_empty());
    assert_eq!(server.get("/health").await.status, 200, "the server lives on");
    assert_eq!(
        server.get(&format!("/pki/cert/{}", answered[0].0)).await.text(),
        answered[0].1,
        "reading goes on"
    );

    server.kill();
    server.start_again();
    for (aid, cert) in &answered {
        assert_eq!(server.get(&format!("/pki/cert/{aid}")).await.text(), *cert);
    }
    assert_eq!(
        server.get(&format!("/pki/cert/{}", refused.0)).await.status,
        404,
        "what was refused did not happen"
    );
    server.register("after-all").await;
}

/// Where the log is on the same disk, it cannot be written either.
#[tokio::test]
async fn a_server_whose_log_cannot_be_written_goes_on() {
    let mut server = TestServer::prepared("log.level = \"debug\"");
    server.start_without_log();
    let (alice, bob) = (server.agent("alice").await, server.agent("bobby").await);
    let message = json!({ "to": bob.aid(), "message_id": "m-1", "payload": { "text": "hello" } });
    assert_eq!(alice.call("message.send", &message).await["status"], "delivered");
    server.terminate();
    assert!(server.ended().await.success());
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_given_up_and_can_be_made_again() {
    let server = TestServer::with("limits.call_timeout_ms = 1500").await;
    let alice = server.agent("alice").await;
    let begun = server.ask("auth.aid_login1", &alice.identity.login1()).await.unwrap();
    let further = alice.identity.request_cert(&begun, &Key::generate(Curve::P384));
    let blocker = Blocker::hold(&server, "ca", "certificates");
    let registration = creation("carol");
    for error in [
        server.ask_error("auth.create_aid", &registration).await,
        alice.call_error("auth.request_cert", &further).await,
    ] {
        assert_eq!(error["code"], -32004, "{error}");
        assert_eq!(error["data"]["kind"], "handler_timeout");
        assert_eq!(error["data"]["retryable"], true);
        assert!(
            text(&error["message"]).starts_with("rpc handler timeout"),
            "clients look for these words: {error}"
        );
    }
    assert_eq!(alice.call("meta.ping", &json!({})).await["pong"], true);

    blocker.release();
    let again = until("the same registration succeeds", || async {
        server.ask("auth.create_aid", &registration).await.ok()
    })
    .await;
    assert_eq!(
        server.get(&format!("/pki/cert/{}", aid("carol"))).await.text(),
        text(&again["cert"]),
        "once, whichever try it was"
    );
}

#[tokio::test]
async fn while_postgres_is_away_callers_are_told_to_retry() {
    if on_sqlite() {
        return;
    }
    let database = TestDatabase::new();
    let mut server = TestServer::prepared_on(database.store(), "");
    server.start_again();
    let alice = server.agent("alice").await;
    database.close();

    let refresh = json!({ "refresh_token": alice.tokens.refresh });
    let (creation, login) = (creation("carol"), alice.identity.login1());
    let (created, begun, refreshed, read, document) = futures_util::join!(
        server.ask_error("auth.create_aid", &creation),
        server.ask_error("auth.aid_login1", &login),
        server.ask_error("auth.refresh_token", &refresh),
        server.get("/pki/cert/alice.agents.localhost"),
        server.http("GET", "/agent.md").host(alice.aid()).send(),
    );
    for error in [created, begun, refreshed] {
        assert!(is_unavailable(&error), "clients stop for good at a failed login: {error}");
    }
    assert_eq!((read.status, document.status), (503, 503), "a 404 would mean that the name is free");
    assert_eq!(server.get("/health/live").await.status, 200);
    if !split() {
        until("nobody can log in", || async { (server.get("/health").await.status == 503).then_some(()) })
            .await;
    }
    assert_eq!(alice.call("meta.ping", &json!({})).await["pong"], true, "sessions go on");

    database.open();
    until("the store is back", || async { server.ask("auth.create_aid", &creation).await.ok() }).await;
    until("it is seen", || async { (server.get("/health").await.status == 200).then_some(()) }).await;
    server.connect(&alice.identity, |_| ()).await;
    assert_eq!(
        server.ask("auth.refresh_token", &refresh).await.unwrap()["success"],
        true,
        "nothing was used up"
    );
}

/// The same store, behind an address that tells the first who connects nothing.
async fn silent_once(store: &str) -> String {
    let (scheme, rest) = store.split_once('@').expect("a URL names a user");
    let (upstream, database) = rest.split_once('/').expect("a URL names a database");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let (tasks, upstream) = (TaskTracker::new(), upstream.to_owned());
    tasks.clone().spawn(async move {
        let _silent = listener.accept().await;
        while let Ok((mut near, _)) = listener.accept().await {
            let upstream = upstream.clone();
            tasks.spawn(async move {
                let Ok(mut far) = TcpStream::connect(upstream).await else { return };
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    format!("{scheme}@{address}/{database}")
}

// While the server starts, this thread waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_server_that_starts_waits_for_postgres() {
    if on_sqlite() {
        return;
    }
    let database = TestDatabase::new();
    let mut server = TestServer::prepared_on(silent_once(&database.store()).await, "");
    server.start_again();
    let log = server.log();
    assert!(log.contains("the PostgreSQL server does not answer yet"), "{log}");
    server.agent("alice").await;
}

#[tokio::test]
async fn a_server_that_waits_for_postgres_can_be_stopped() {
    // Once: it has no other store than the one that is not there.
    if !on_sqlite() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut server = tokio::process::Command::new(crate::support::program())
        .args([
            "serve",
            "--data",
            "data",
            "--listen",
            "127.0.0.1:0",
            "--store",
            "postgres://nobody@127.0.0.1:1/none",
        ])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut log = BufReader::new(server.stderr.take().unwrap()).lines();
    let waits = async {
        while let Some(line) = log.next_line().await.unwrap() {
            if line.contains("the PostgreSQL server does not answer yet") {
                return;
            }
        }
        panic!("it ended");
    };
    within("it waits", waits).await;
    let pid = server.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(within("it ends", server.wait()).await.unwrap().success());
}
