//! A store that does not do its part: callers are told to come again, nothing half-done stays, and it goes on by itself.

use std::process::Command;

use certs::{Curve, Key};
use serde_json::{Value, json};

use crate::world::agent::{aid, public_key, random_hex, text};
use crate::world::blocker::Blocker;
use crate::world::{World, on_sqlite, printed, setting, until};

fn creation(name: &str) -> Value {
    json!({ "aid": aid(name), "public_key": public_key(&Key::generate(Curve::P256)), "curve": "P-256" })
}

fn is_unavailable(error: &Value) -> bool {
    error["code"] == 5003 && error["data"]["kind"] == "unavailable" && error["data"]["retryable"] == true
}

#[tokio::test]
async fn while_the_store_is_held_by_somebody_else_callers_are_told_to_come_again() {
    if !on_sqlite() {
        return;
    }
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let blocker = Blocker::hold(&world, "ca", "certificates");

    let error = world.ask_error("auth.create_aid", &creation("carol")).await;
    assert!(is_unavailable(&error), "{error}");
    assert!(!error["message"].to_string().contains("sqlite"), "the cause stays on our side: {error}");
    assert_eq!(alice.call("meta.ping", &json!({})).await["pong"], true, "what needs no store goes on");
    assert_eq!(
        world.get(&format!("/pki/cert/{}", alice.aid())).await.text(),
        alice.identity.cert,
        "reading goes on"
    );
    assert_eq!(world.get(&format!("/pki/cert/{}", aid("carol"))).await.status, 404, "nothing half-done");

    blocker.release();
    world.register("carol").await;
}

#[tokio::test]
async fn a_login_that_cannot_be_stored_is_no_failed_login() {
    if !on_sqlite() {
        return;
    }
    let world = World::start().await;
    let alice = world.register("alice").await;
    let begun = world.ask("auth.aid_login1", &alice.login1()).await.unwrap();
    let blocker = Blocker::hold(&world, "auth", "refresh_tokens");
    let params = alice.login2(&begun);
    let error = world.ask_error("auth.aid_login2", &params).await;
    assert!(is_unavailable(&error), "clients stop for good at a failed login: {error}");
    blocker.release();
    world.ask("auth.aid_login2", &params).await.expect("the same login can be completed");
}

#[tokio::test]
async fn a_full_disk_loses_nothing_that_was_answered() {
    if !on_sqlite() {
        return;
    }
    let mut world = World::prepared("limits.registrations_per_minute = 60000\nlimits.preauth_calls = 100000");
    world.start_on_a_full_disk(640);
    let wire = world.wire().await;
    let mut answered = Vec::new();
    let refused = loop {
        let name = format!("agent{}", answered.len());
        match wire.try_call("auth.create_aid", &creation(&name)).await {
            Ok(created) => {
                answered.push((aid(&name), created["cert"].as_str().expect("a certificate").to_owned()))
            }
            Err(error) => break (aid(&name), error),
        }
        assert!(answered.len() < 5000, "the disk never gets full");
    };
    assert!(is_unavailable(&refused.1), "{}", refused.1);
    assert!(!answered.is_empty());
    assert_eq!(world.get("/health").await.status, 200, "the server lives on");
    assert_eq!(
        world.get(&format!("/pki/cert/{}", answered[0].0)).await.text(),
        answered[0].1,
        "reading goes on"
    );

    world.kill();
    world.start_again();
    for (aid, cert) in &answered {
        assert_eq!(world.get(&format!("/pki/cert/{aid}")).await.text(), *cert);
    }
    assert_eq!(
        world.get(&format!("/pki/cert/{}", refused.0)).await.status,
        404,
        "what was refused did not happen"
    );
    world.register("after-all").await;
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_given_up_and_can_be_made_again() {
    let world = World::with("limits.call_timeout_ms = 1500").await;
    let alice = world.agent("alice").await;
    let blocker = Blocker::hold(&world, "ca", "certificates");
    let stranger = creation("carol");
    let session = json!({ "aid": alice.aid(), "public_key": public_key(&Key::generate(Curve::P384)), "curve": "P-384" });
    for error in [
        world.ask_error("auth.create_aid", &stranger).await,
        alice.call_error("auth.request_cert", &session).await,
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
        world.ask("auth.create_aid", &stranger).await.ok()
    })
    .await;
    assert_eq!(
        world.get(&format!("/pki/cert/{}", aid("carol"))).await.text(),
        text(&again["cert"]),
        "once, whichever try it was"
    );
}

/// A PostgreSQL database of the test's own, which can be closed without disturbing others.
struct Database {
    url: String,
    name: String,
}

impl Database {
    fn new() -> Database {
        let url = setting("AUND_TEST_POSTGRES_URL").expect("AUND_TEST_POSTGRES_URL says where PostgreSQL is");
        let database = Database { url, name: format!("t{}", random_hex(8)) };
        database.run(&format!("CREATE DATABASE {}", database.name));
        database
    }

    fn store(&self) -> String {
        let (server, _) = self.url.rsplit_once('/').expect("a URL names a database");
        format!("{server}/{}", self.name)
    }

    /// Throws everybody out and lets nobody in.
    fn close(&self) {
        self.run(&format!("ALTER DATABASE {} WITH ALLOW_CONNECTIONS false", self.name));
        self.run(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'",
            self.name
        ));
    }

    fn open(&self) {
        self.run(&format!("ALTER DATABASE {} WITH ALLOW_CONNECTIONS true", self.name));
    }

    fn run(&self, sql: &str) {
        let output = Command::new("psql").args(["--no-psqlrc", "--quiet", &self.url, "-c", sql]).output();
        let output = output.expect("psql is there");
        assert!(output.status.success(), "{}", printed(&output.stderr));
    }
}

#[tokio::test]
async fn while_postgres_is_away_callers_are_told_to_come_again() {
    if on_sqlite() {
        return;
    }
    let database = Database::new();
    let mut world = World::prepared_on(database.store(), "");
    world.start_again();
    let alice = world.agent("alice").await;
    database.close();

    let refresh = json!({ "refresh_token": alice.tokens.refresh });
    let (creation, login) = (creation("carol"), alice.identity.login1());
    let (created, begun, refreshed, read, document) = futures_util::join!(
        world.ask_error("auth.create_aid", &creation),
        world.ask_error("auth.aid_login1", &login),
        world.ask_error("auth.refresh_token", &refresh),
        world.get("/pki/cert/alice.agents.localhost"),
        world.http("GET", "/agent.md").host(alice.aid()).send(),
    );
    for error in [created, begun, refreshed] {
        assert!(is_unavailable(&error), "clients stop for good at a failed login: {error}");
    }
    assert_eq!((read.status, document.status), (503, 503), "a 404 would mean that the name is free");
    assert_eq!(world.get("/health").await.status, 200);
    assert_eq!(alice.call("meta.ping", &json!({})).await["pong"], true, "sessions go on");

    database.open();
    until("the store is back", || async { world.ask("auth.create_aid", &creation).await.ok() }).await;
    world.connect(&alice.identity, |_| ()).await;
    assert_eq!(
        world.ask("auth.refresh_token", &refresh).await.unwrap()["success"],
        true,
        "nothing was used up"
    );
}
