//! A store that does not do its part: callers are told to come again, nothing half-done stays, and it goes on by itself.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use certs::{Curve, Key};
use serde_json::{Value, json};

use crate::world::agent::{aid, public_key};
use crate::world::{World, on_sqlite};

/// Somebody else who writes to one of the server's databases and does not finish until told to.
struct Blocker(Child);

impl Blocker {
    fn hold(world: &World, file: &str) -> Blocker {
        let script = "import sqlite3, sys\n\
                      held = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)\n\
                      held.execute('BEGIN EXCLUSIVE')\n\
                      print('held', flush=True)\n\
                      sys.stdin.readline()\n\
                      held.execute('ROLLBACK')\n\
                      print('free', flush=True)\n";
        let mut child = Command::new("python3")
            .args(["-c", script])
            .arg(world.data().join(file))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is there");
        assert_eq!(line(&mut child), "held");
        Blocker(child)
    }

    fn release(mut self) {
        writeln!(self.0.stdin.as_mut().expect("a pipe")).expect("it listens");
        assert_eq!(line(&mut self.0), "free");
        let _ = self.0.wait();
    }
}

fn line(child: &mut Child) -> String {
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("a pipe");
    BufReader::with_capacity(1, stdout).read_line(&mut line).expect("it speaks");
    line.trim().to_owned()
}

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
    let blocker = Blocker::hold(&world, "ca.db");

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
    let blocker = Blocker::hold(&world, "auth.db");
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
