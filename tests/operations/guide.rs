//! What `docs/operations.md` promises to whoever runs a server.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::support::blocker::Blocker;
use crate::support::{TestServer, on_sqlite, printed, setting, split, until};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate is inside the workspace")
        .to_owned()
}

/// Every metric as it stands in front of its value, a histogram by its own name.
fn names(metrics: &str) -> Vec<String> {
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types.map(|(name, kind)| format!("{name}{}", if kind == "counter" { "_total" } else { "" })).collect()
}

#[tokio::test]
async fn every_metric_is_in_the_reference() {
    let server = TestServer::start().await;
    let names = names(&server.metrics().await);
    assert!(names.len() > 10, "{names:?}");
    let reference = fs::read_to_string(root().join("docs/reference.md")).expect("there is a reference");
    for name in &names {
        assert!(reference.contains(&format!("| `{name}")), "{name} is not in docs/reference.md");
    }
}

#[tokio::test]
async fn a_store_counts_its_commits_and_what_they_stored() {
    let server = TestServer::start().await;
    let (alice, bob) = (server.agent("alice").await, server.agent("bobb").await);
    let count = async |what: &str, service: &str| {
        server.metric_of_all(&format!("aund_store_{what}{{service=\"{service}\"")).await
    };
    for service in ["auth", "ca"] {
        assert!(
            count("rows_total", service).await >= 2.0,
            "two agents were registered and logged in: {service}"
        );
    }
    let (rows, commits) = ("rows_total", "commit_duration_seconds_count");
    // Not at once: a device that connected before its gateway reached every process of the service is stored when it does.
    until("five messages, one after the other, are five rows and five commits", || async {
        let before = (count(rows, "message").await, count(commits, "message").await);
        for n in 1..=5 {
            let text = format!("message {n}");
            let message = json!({ "to": bob.aid(), "payload": { "type": "text", "text": text } });
            alice.call("message.send", &message).await;
        }
        let after = (count(rows, "message").await, count(commits, "message").await);
        ((after.0 - before.0, after.1 - before.1) == (5.0, 5.0)).then_some(())
    })
    .await;
    assert!(count("commit_duration_seconds_sum", "message").await > 0.0);
    for what in ["failures_total", "busy_total"] {
        assert_eq!(count(what, "message").await, 0.0, "{what}");
    }
    // What shares no commit with others counts as well.
    let before = (count(rows, "auth").await, count(commits, "auth").await);
    server.ask("auth.refresh_token", &json!({ "refresh_token": alice.tokens.refresh })).await.unwrap();
    let after = (count(rows, "auth").await, count(commits, "auth").await);
    assert!(after.0 > before.0 && after.1 > before.1, "a refresh is a commit: {before:?}, {after:?}");
    // The sender is answered a moment before its message is out of the queue.
    until("nothing waits", || async { (count("queue_bytes", "message").await == 0.0).then_some(()) }).await;
}

#[tokio::test]
async fn health_is_a_line_and_an_exit_code() {
    let mut server = TestServer::start().await;
    let data = server.data().display().to_string();
    let here = server.beside("");
    let health = |more: &[&str]| {
        let output = crate::support::aund(&[&["health", "--data", &data], more].concat(), &here);
        (output.status.code(), printed(&output.stdout) + &printed(&output.stderr))
    };
    let (code, line) = health(&["--needs", "ca"]);
    assert_eq!(code, Some(0), "{line}");
    assert!(line.starts_with("ok: ") && line.contains("ca up") && line.lines().count() == 1, "{line}");
    let (code, line) = health(&["--needs", "mail"]);
    assert_eq!(code, Some(1), "{line}");
    assert!(line.starts_with("aund: mail does not answer; ok: "), "{line}");

    server.terminate();
    server.ended().await;
    let (code, line) = health(&[]);
    assert_eq!(code, Some(1), "{line}");
    assert!(line.starts_with("aund: no server runs on "), "{line}");
}

/// `/health`, `/health/readiness` and `/health/live`.
async fn healths(server: &TestServer) -> [u16; 3] {
    let status = async |path: &str| server.get(path).await.status;
    [status("/health").await, status("/health/readiness").await, status("/health/live").await]
}

#[tokio::test]
async fn a_process_whose_store_is_held_is_live_and_not_ready() {
    // Where the server is many processes, each answers for its own stores: the gateway has none.
    if !on_sqlite() {
        return;
    }
    let server = TestServer::start().await;
    assert_eq!(healths(&server).await, [200_u16; 3]);
    assert_eq!(server.get("/health/live").await.json()["status"], "live");
    let up = async |service: &str| {
        server.metric_of_all(&format!("aund_store_up{{service=\"{service}\"")).await == 1.0
    };
    let data = server.data().display().to_string();
    let cases: [(&str, &str, [u16; 3]); 2] =
        [("message", "letter", [200, 503, 200]), ("auth", "refresh_tokens", [503, 503, 200])];
    for (service, table, held) in cases {
        until(&format!("the store of {service} is seen"), || async { up(service).await.then_some(()) }).await;
        let blocker = Blocker::hold(&server, service, table);
        until("it is held", || async { (!up(service).await).then_some(()) }).await;
        if !split() {
            assert_eq!(healths(&server).await, held, "{service}");
            let health = server.get("/health").await.json();
            assert_eq!((&health["stores"][service], &health["ready"]), (&json!("down"), &json!(false)));
            let output = crate::support::aund(&["health", "--data", &data], &server.beside(""));
            let said = printed(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains(&format!("the store of {service} does not answer")), "{said}");
            let live = crate::support::aund(&["health", "--live", "--data", &data], &server.beside(""));
            assert!(live.status.success(), "{}", printed(&live.stderr));
        }
        blocker.release();
        until("it answers again", || async { up(service).await.then_some(()) }).await;
        assert_eq!(healths(&server).await, [200_u16; 3], "{service}");
    }
}

#[tokio::test]
async fn top_shows_what_a_server_has_done() {
    let free =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
    // The processes of a split server have it in any case.
    let settings = if split() { String::new() } else { format!("status.listen = \"{free}\"") };
    let server = TestServer::with(&settings).await;
    let alice = server.agent("alice").await;
    alice.call("message.query_online", &json!({ "aids": [alice.aid()] })).await;
    let address = server.status_of_gateways().first().cloned().unwrap_or_else(|| free.to_string());
    let (data, nobody) = (server.data().display().to_string(), "127.0.0.1:1");
    for words in [&["top", "--once", "--data", &data][..], &["top", "--once", &address, nobody]] {
        let output = crate::support::aund(words, &server.beside(""));
        let text = printed(&output.stdout);
        assert!(output.status.success(), "{}", printed(&output.stderr));
        assert!(text.lines().next().is_some_and(|line| line.starts_with("process ")), "{text}");
        // A gateway that shares its port with another may not be the one that was called.
        let method = if split() { "" } else { "auth.create_aid" };
        assert!(text.lines().any(|line| line.starts_with(method)), "{text}");
        // The one on the data folder is the one that makes certificates; the others of several are gateways here.
        let stores = text.lines().any(|line| line.starts_with("store of "));
        assert_eq!(stores, !split() || words.contains(&"--data"), "{text}");
        assert_eq!(
            text.contains("127.0.0.1:1              does not answer"),
            words.contains(&nobody),
            "{text}"
        );
    }
    let output = crate::support::aund(&["top", "--once", nobody], &server.beside(""));
    assert_eq!(output.status.code(), Some(1));
}

#[tokio::test]
async fn a_traced_call_is_found_in_the_log_of_every_process_it_passed() {
    const ID: &str = "c0ffee00c0ffee00c0ffee00c0ffee00";
    let server = TestServer::with("log.level = \"debug\"").await;
    let alice = server.agent("alice").await;
    let params = json!({ "aids": [alice.aid()], "_trace": { "trace_id": ID, "mode": "log" } });
    alice.call("message.query_online", &params).await;
    let lines = || {
        let log = server.log();
        log.lines().filter(|line| line.contains(ID)).map(str::to_owned).collect::<Vec<_>>()
    };
    // The answer is on its way before the line about it is written.
    let processes = if split() { 2 } else { 1 };
    let found =
        until("the trace is in the log", || async { Some(lines()).filter(|found| found.len() >= processes) });
    let found = found.await;
    assert!(found.iter().all(|line| line.contains("message.query_online")), "{found:?}");
    assert_eq!(found.iter().any(|line| line.contains("over the mesh")), split(), "{found:?}");
}

#[tokio::test]
async fn a_backup_taken_while_the_server_runs_is_the_server() {
    let tool = if on_sqlite() { "sqlite3" } else { "pg_dump" };
    if split() || Command::new(tool).arg("--version").output().is_err() {
        eprintln!("SKIPPED: a backup is taken of one process, where there is {tool}");
        return;
    }
    let mut server = TestServer::start().await;
    let (alice, bob) = (server.agent("alice").await, server.agent("bobb").await);
    let send =
        |n: u32| json!({ "to": bob.aid(), "payload": { "type": "text", "text": format!("message {n}") } });
    for n in 1..=3 {
        alice.call("message.send", &send(n)).await;
    }
    let backup = server.beside("backup");
    back_up(&server, &backup);
    alice.call("message.send", &send(4)).await;
    server.kill();

    let mut restored = TestServer::prepared_on(server.store().to_owned(), "");
    restore(&server, &backup, &restored.data());
    restored.start_again();
    assert_eq!(restored.root(), server.root());
    let (alice, bob) = (restored.reconnect(&alice).await, restored.reconnect(&bob).await);
    let pulled = bob.call("message.pull", &json!({ "after_seq": 0 })).await;
    let texts: Vec<_> =
        pulled["messages"].as_array().expect("messages").iter().map(|row| &row["payload"]["text"]).collect();
    assert_eq!(texts, ["message 1", "message 2", "message 3"], "as it was when the backup was taken");
    let sent = alice.call("message.send", &send(5)).await;
    assert_eq!(sent["seq"], 4, "and life goes on");
    restored.agent("carol").await;
}

/// The script of the guide.
fn back_up(server: &TestServer, to: &Path) {
    let mut script = Command::new(root().join("gateway/deploy/backup"));
    script.arg(server.data()).arg(to).env("AUND_BIN", crate::support::program());
    if !on_sqlite() {
        let (url, prefix) = server.store().split_once("?schema_prefix=").expect("a store of the test's own");
        script.arg(url).env("AUND_SCHEMA_PREFIX", prefix);
    }
    let output = script.output().expect("there is a shell");
    assert!(output.status.success(), "{}", printed(&output.stderr));
}

/// Puts the backup where a new server will look for it; on PostgreSQL everything is lost first.
fn restore(server: &TestServer, backup: &Path, data: &Path) {
    let run = |command: &mut Command| {
        let output = command.output().expect("it can be started");
        assert!(output.status.success(), "{}", printed(&output.stderr));
    };
    run(Command::new("cp").arg("-R").arg(backup).arg(data));
    assert!(!data.join("message-index.db").exists());
    let dump = data.join("services.dump");
    if dump.exists() {
        let url = setting("AUND_TEST_POSTGRES_URL").expect("it is where the store is");
        let (_, prefix) = server.store().split_once("?schema_prefix=").expect("a store of the test's own");
        let services: BTreeSet<_> = proto_schemas::namespaces().iter().map(|space| space.service).collect();
        let drop = services.into_iter().filter(|service| *service != "gateway");
        let drop: Vec<_> = drop.map(|service| format!("DROP SCHEMA {prefix}{service} CASCADE")).collect();
        run(Command::new("psql").args(["--quiet", "--command", &drop.join("; "), &url]));
        run(Command::new("pg_restore").args(["--no-owner", "--dbname", &url]).arg(&dump));
    }
}
