//! What an operator types, and what `aund` answers.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use certs::dev::Pki;
use certs::{Certificate, Curve, Key, Urls};
use serde_json::Value;

use crate::support::{ISSUER, TestServer, aund, now, on_sqlite, printed, split, until};

fn said(output: &Output) -> String {
    printed(&output.stdout) + &printed(&output.stderr)
}

/// Every file and folder below a folder, with its mode.
fn modes(folder: &Path) -> Vec<(String, bool, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder can be read").map(|entry| entry.expect("an entry")) {
        let (path, meta) = (entry.path(), entry.metadata().expect("it is there"));
        found.push((path.display().to_string(), meta.is_dir(), meta.permissions().mode() & 0o777));
        if meta.is_dir() {
            found.extend(modes(&path));
        }
    }
    found
}

#[test]
fn help_and_version_are_where_unix_people_look() {
    let here = tempfile::tempdir().unwrap();
    for words in [&["--help"][..], &["-h"], &["serve", "--help"], &["help"]] {
        let output = aund(words, here.path());
        assert!(output.status.success(), "{words:?}");
        assert!(printed(&output.stdout).contains("Usage"), "{}", said(&output));
    }
    let help = printed(&aund(&["--help"], here.path()).stdout);
    for word in [
        "serve", "check", "schema", "certs", "doctor", "bench", "tasks", "--config", "--issuer", "--listen",
        "--data", "--store", "--bus", "--only",
    ] {
        assert!(help.contains(word), "{word} in {help}");
    }
    let version = aund(&["--version"], here.path());
    assert!(printed(&version.stdout).starts_with("aund "), "{}", said(&version));
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0, "asking leaves nothing behind");
}

#[test]
fn a_word_that_is_no_command_is_a_usage_error() {
    let here = tempfile::tempdir().unwrap();
    for words in [&["dance"][..], &["--dance"], &["serve", "--listen"], &["certs", "revoke"]] {
        let output = aund(words, here.path());
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(printed(&output.stdout).is_empty() && !printed(&output.stderr).is_empty());
    }
}

#[test]
fn check_prints_the_effective_settings() {
    let here = tempfile::tempdir().unwrap();
    fs::write(here.path().join("mine.toml"), "issuer = \"aid.example\"\nlimits.sockets = 77\n").unwrap();
    let output = aund(&["check", "--config", "mine.toml", "--data", "elsewhere"], here.path());
    assert!(output.status.success(), "{}", said(&output));
    let shown = printed(&output.stdout);
    for word in ["aid.example", "elsewhere", "77", "127.0.0.1:20001", "sqlite:"] {
        assert!(shown.contains(word), "{word} in {shown}");
    }
    assert!(!here.path().join("elsewhere").exists(), "checking makes nothing");

    fs::write(here.path().join("again.toml"), &shown).unwrap();
    assert!(
        aund(&["check", "--config", "again.toml"], here.path()).status.success(),
        "its answer is a configuration"
    );
    let defaults = aund(&["check"], here.path());
    assert!(printed(&defaults.stdout).contains("agents.localhost"));
}

#[test]
fn a_password_is_never_shown() {
    let here = tempfile::tempdir().unwrap();
    let output = aund(&["check", "--store", "postgres://me:hunter2@db.example/aund"], here.path());
    assert!(!said(&output).contains("hunter2"), "{}", said(&output));
}

#[test]
fn a_configuration_that_cannot_be_used_ends_with_64_and_a_sentence() {
    let here = tempfile::tempdir().unwrap();
    for (text, word) in [
        ("isuer = 'x'", "did you mean issuer"),
        ("[limits]\nsokets = 1", "did you mean sockets"),
        ("[limits]\nsockets = 'many'", "line 2"),
        ("listen = ['nowhere']", "nowhere"),
        ("store.url = 'mysql://x'", "store"),
        ("bus.url = 'pigeon:'", "bus"),
        ("issuer = 'NOT a domain'", "issuer"),
        ("tls.cert = 'only-one.crt'", "tls"),
        ("only = ['unknown']", "unknown"),
        ("limits.calls_per_second = 0", "calls_per_second"),
        ("this is not TOML", "line 1"),
    ] {
        fs::write(here.path().join("bad.toml"), text).unwrap();
        for words in [
            &["check", "--config", "bad.toml"][..],
            &["serve", "--config", "bad.toml"],
            &["--config", "bad.toml"],
        ] {
            let output = aund(words, here.path());
            let said = printed(&output.stderr);
            assert_eq!(output.status.code(), Some(64), "{text}: {said}");
            assert!(said.contains(word), "{word} in {said}");
            assert!(said.trim().lines().count() <= 3, "one sentence: {said}");
        }
    }
    let output = aund(&["serve", "--config", "not-there.toml"], here.path());
    assert_eq!(output.status.code(), Some(64));
    assert!(printed(&output.stderr).contains("not-there.toml"));
    assert!(!here.path().join("data").exists(), "nothing is made before the configuration is sound");
}

#[test]
fn schema_prints_an_openrpc_document() {
    let here = tempfile::tempdir().unwrap();
    let output = aund(&["schema"], here.path());
    assert!(output.status.success());
    let document: Value = serde_json::from_slice(&output.stdout).expect("it is JSON and nothing else");
    assert!(document["openrpc"].as_str().is_some_and(|version| version.starts_with("1.3.")));
    let names: Vec<&str> =
        document["methods"].as_array().unwrap().iter().filter_map(|method| method["name"].as_str()).collect();
    assert!(names.contains(&"auth.create_aid") && names.contains(&"rpc.discover"), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("ca.")), "what is inside stays inside");
}

#[tokio::test]
async fn the_banner_says_where_to_go_next() {
    let server = TestServer::start().await;
    // The ports were read from it already; both answer.
    assert_eq!(server.get("/health").await.status, 200);
    assert_eq!(server.http("GET", "/health").over_tls("gateway.agents.localhost").send().await.status, 200);
    assert!(!server.log().contains("PRIVATE KEY"));
}

#[tokio::test]
async fn secrets_are_for_their_owner_alone() {
    let server = TestServer::start().await;
    let _alice = server.agent("alice").await;
    let data = server.data();
    assert_eq!(fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700, "the data folder");
    let mut keys = 0;
    for (path, is_folder, mode) in modes(&data) {
        let secret = [".key", ".sock", ".pem"].iter().any(|end| path.ends_with(end)) || path.contains(".db");
        if is_folder {
            assert_eq!(mode, 0o700, "{path}");
        } else if secret {
            assert_eq!(mode & 0o077, 0, "{path} {mode:o}");
        }
        keys += usize::from(path.ends_with(".key"));
    }
    assert!(keys >= 4, "root, registry, issuer and authority have their keys");
}

#[tokio::test]
async fn a_second_start_uses_the_same_authority_and_never_writes_over_it() {
    let mut server = TestServer::start().await;
    let root = server.root();
    let key = fs::read(server.data().join("pki/ca/issuer.key")).unwrap();
    server.restart().await;
    assert_eq!(server.root(), root);
    assert_eq!(fs::read(server.data().join("pki/ca/issuer.key")).unwrap(), key);
}

#[tokio::test]
async fn half_an_authority_is_refused_and_left_alone() {
    let server = TestServer::prepared("");
    fs::create_dir_all(server.data().join("pki")).unwrap();
    fs::write(server.data().join("pki/root.crt"), "precious").unwrap();
    let output = server.aund(&["serve", "--listen", "127.0.0.1:0"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(printed(&output.stderr).contains("pki"), "{}", said(&output));
    assert_eq!(fs::read_to_string(server.data().join("pki/root.crt")).unwrap(), "precious");
}

#[tokio::test]
async fn the_folder_of_another_domain_is_refused() {
    let mut server = TestServer::start().await;
    server.terminate();
    server.ended().await;
    let output = server.aund(&["serve", "--issuer", "other.example", "--listen", "127.0.0.1:0"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(
        printed(&output.stderr).contains("other.example") && printed(&output.stderr).contains(ISSUER),
        "{}",
        said(&output)
    );
}

#[tokio::test]
async fn a_port_or_a_folder_in_use_is_said_in_a_sentence() {
    let server = TestServer::start().await;
    let other = TestServer::prepared("");
    let taken = format!("127.0.0.1:{}", server.tls_port);
    let output = other.aund(&["serve", "--listen", &taken]).await;
    let sentence = printed(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{sentence}");
    assert!(sentence.contains(&taken) && sentence.to_lowercase().contains("in use"), "{sentence}");

    let output = server.aund(&["serve", "--listen", "127.0.0.1:0"]).await;
    let sentence = printed(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{sentence}");
    assert!(sentence.contains("another aund"), "{sentence}");
    assert_eq!(server.get("/health").await.status, 200, "the first one goes on");
}

#[tokio::test]
async fn certificates_can_be_shown_and_the_root_exported() {
    let mut server = TestServer::start().await;
    let alice = server.register("alice").await;
    let serial = alice.certificate().serial().to_owned();
    for running in [true, false] {
        if !running {
            server.terminate();
            server.ended().await;
        }
        let output = server.aund(&["certs", "show"]).await;
        let all = printed(&output.stdout);
        assert!(
            output.status.success() && all.contains(ISSUER) && all.contains(server.root().fingerprint()),
            "{}",
            said(&output)
        );
        for which in [&alice.aid, &serial] {
            let output = server.aund(&["certs", "show", which]).await;
            let one = printed(&output.stdout);
            assert!(output.status.success(), "{}", said(&output));
            assert!(
                one.contains(&serial) && one.contains("active_signing") && one.contains("BEGIN CERTIFICATE"),
                "{one}"
            );
        }
        let output = server.aund(&["certs", "show", "nobody1.agents.localhost"]).await;
        assert_eq!(output.status.code(), Some(1));
        assert!(printed(&output.stderr).contains("nobody1"), "{}", said(&output));

        let output = server.aund(&["certs", "export-root"]).await;
        assert_eq!(Certificate::from_pem(&printed(&output.stdout)), Ok(server.root()));
    }
    let file = server.beside("exported.crt");
    let output = server.aund(&["certs", "export-root", file.to_str().unwrap()]).await;
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(fs::read_to_string(file).unwrap(), server.root().pem());
}

#[tokio::test]
async fn certs_says_what_is_missing_where_no_server_ever_ran() {
    let server = TestServer::prepared("");
    for words in
        [&["certs", "show"][..], &["certs", "revoke", "alice.agents.localhost"], &["certs", "export-root"]]
    {
        let output = server.aund(words).await;
        assert_eq!(output.status.code(), Some(1), "{words:?}: {}", said(&output));
        assert!(printed(&output.stderr).contains("data"), "{}", said(&output));
    }
    assert!(!server.data().join("pki").exists(), "looking makes no authority");
}

#[tokio::test]
async fn the_doctor_looks_at_a_running_and_at_a_stopped_server() {
    let mut server = TestServer::start().await;
    let running = server.aund(&["doctor"]).await;
    let report = said(&running);
    for word in ["clock", "store"] {
        assert!(report.to_lowercase().contains(word), "{word} in {report}");
    }
    server.terminate();
    server.ended().await;
    let stopped = server.aund(&["doctor"]).await;
    assert!(matches!(stopped.status.code(), Some(0 | 1)), "{}", said(&stopped));
    assert!(!said(&stopped).contains("panicked"), "{}", said(&stopped));
}

#[tokio::test]
async fn the_doctor_finds_a_key_that_others_can_read() {
    let mut server = TestServer::start().await;
    server.terminate();
    server.ended().await;
    let key = server.data().join("pki/ca/issuer.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let output = server.aund(&["doctor"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("issuer.key") || said(&output).contains("chmod"), "{}", said(&output));
}

#[tokio::test]
async fn the_doctor_finds_keys_that_the_store_does_not_know() {
    // In a server of many processes the keys of auth are elsewhere, and nobody runs who could be asked.
    if !on_sqlite() || split() {
        return;
    }
    let mut server = TestServer::start().await;
    let good = said(&server.aund(&["doctor"]).await);
    assert!(good.contains("the store of ca knows the keys in pki"), "{good}");
    server.terminate();
    server.ended().await;
    let good = said(&server.aund(&["doctor"]).await);
    assert!(good.contains("the store of ca knows the keys in pki"), "{good}");

    let data = server.data();
    let mut other = TestServer::start().await;
    other.terminate();
    other.ended().await;
    for file in ["login.crt", "login.key"] {
        fs::rename(data.join("pki/auth").join(file), data.join(file)).unwrap();
        fs::copy(other.data().join("pki/auth").join(file), data.join("pki/auth").join(file)).unwrap();
    }
    let output = server.aund(&["doctor"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("pki/auth/login.crt is not known to the store"), "{}", said(&output));

    fs::rename(data.join("login.key"), data.join("pki/auth/login.key")).unwrap();
    let output = server.aund(&["doctor"]).await;
    assert!(said(&output).contains("login.crt and"), "a key of another certificate: {}", said(&output));
    fs::rename(data.join("login.crt"), data.join("pki/auth/login.crt")).unwrap();

    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(data.join(format!("ca.db{end}")));
    }
    let output = server.aund(&["doctor"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("ca.db is missing"), "{}", said(&output));
    assert!(!data.join("ca.db").exists(), "looking makes no store");
}

#[tokio::test]
async fn a_damaged_store_is_said_at_the_start() {
    if !on_sqlite() {
        return;
    }
    let mut server = TestServer::start().await;
    server.terminate();
    server.ended().await;
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(server.data().join(format!("ca.db{end}")));
    }
    fs::write(server.data().join("ca.db"), "this is no database, however long it may be".repeat(100))
        .unwrap();
    let output = server.aund(&["serve", "--listen", "127.0.0.1:0"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(printed(&output.stderr).contains("ca"), "{}", said(&output));
}

#[tokio::test]
async fn logs_go_to_stderr_as_text_or_json_and_hold_no_secret() {
    let server = TestServer::with("log.format = \"json\"\nlog.level = \"debug\"").await;
    let alice = server.agent("alice").await;
    alice.call("meta.status", &serde_json::json!({})).await;
    let log = server.log();
    assert!(
        log.lines().filter(|line| !line.is_empty()).all(|line| serde_json::from_str::<Value>(line).is_ok()),
        "{log:.500}"
    );
    for secret in [&alice.tokens.access, &alice.tokens.refresh, &"PRIVATE KEY".to_owned()] {
        assert!(!log.contains(secret.as_str()));
    }
}

#[tokio::test]
async fn a_certificate_of_ones_own_serves_the_listener() {
    let (here, pki, key) =
        (tempfile::tempdir().unwrap(), Pki::new(ISSUER, now()), Key::generate(Curve::P256));
    let nowhere = "http://nowhere.example/".to_owned();
    let urls = Urls { ca_issuers: nowhere.clone(), ocsp: nowhere.clone(), crl: nowhere };
    let (name, names) = (format!("gateway.{ISSUER}"), [format!("*.{ISSUER}")]);
    let issued =
        pki.issuer.issue_service(&name, &key.public(), &names, &[], &urls, now() - 60, now() + 86_400);
    let (crt, pem) = (here.path().join("own.crt"), here.path().join("own.key"));
    let above = pki.issuer.certificate().pem().to_owned() + pki.registry.certificate().pem();
    fs::write(&crt, issued.unwrap().pem().to_owned() + &above).unwrap();
    fs::write(&pem, key.to_pem()).unwrap();

    let settings = format!("tls.cert = \"{}\"\ntls.key = \"{}\"", crt.display(), pem.display());
    let server = TestServer::with(&settings).await;
    assert!(server.tls_trusting(pki.root.certificate(), &name).await.is_ok());
    assert!(server.tls(&name).await.is_err(), "its own authority did not make it");
}

#[test]
fn a_data_folder_that_cannot_be_is_said_in_a_sentence() {
    let here = tempfile::tempdir().unwrap();
    fs::write(here.path().join("file"), "not a folder").unwrap();
    let output = aund(&["serve", "--data", "file/data", "--listen", "127.0.0.1:0"], here.path());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(printed(&output.stderr).contains("file/data"), "{}", said(&output));
}

#[tokio::test]
async fn a_bench_that_is_told_to_stop_takes_its_servers_along() {
    let here = tempfile::tempdir().unwrap();
    let mut command = Command::new(crate::support::program());
    command.args(["bench", "--only", "ping", "--seconds", "60"]).env("TMPDIR", here.path());
    let mut bench = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let folders = || fs::read_dir(here.path()).unwrap().count();
    let children = || -> Vec<String> {
        let (process, mut found) = (bench.id(), Vec::new());
        // A process belongs to the thread that started it.
        for thread in fs::read_dir(format!("/proc/{process}/task")).unwrap() {
            let list = fs::read_to_string(thread.unwrap().path().join("children")).unwrap_or_default();
            found.extend(list.split_whitespace().map(str::to_owned));
        }
        found
    };
    let servers = until("it has started its servers", || async {
        let servers = children();
        (folders() > 0 && servers.len() > 1).then_some(servers)
    })
    .await;

    let sent = Command::new("kill").args(["-TERM", &bench.id().to_string()]).status();
    assert!(sent.unwrap().success());
    let status = until("it ends", || std::future::ready(bench.try_wait().unwrap())).await;
    assert_eq!(status.code(), Some(1), "it has not measured everything");
    for server in servers {
        let gone = || std::future::ready((!Path::new("/proc").join(&server).exists()).then_some(()));
        until("its server ends", gone).await;
    }
    assert_eq!(folders(), 0, "and nothing is left behind");
}
