//! Who one is: keys, names, tokens, and whom to trust.

use std::fs;

use certs::dev::Pki;
use serde_json::{Value, json};
use tokio::process::Command;

use super::HIGH_LIMITS;
use super::agent_cli::{AgentCli, mode};
use crate::support::agent::ConnectedAgent;
use crate::support::{ISSUER, TestServer, now, printed, within};

#[tokio::test]
async fn an_agent_is_made_once_and_registering_it_again_changes_nothing() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::new(&server);
    let said = cli.run(&["register", "alice"]).await;
    assert!(said.contains(&server.aid("alice")) && said.contains(&cli.agent("alice").display().to_string()));
    let key = fs::read(cli.agent("alice").join("key.pem")).unwrap();
    for folder in [&cli.home, &cli.agent("alice")] {
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
    }
    for file in ["key.pem", "cert.pem", "gateway"] {
        assert_eq!(mode(&cli.agent("alice").join(file)), 0o600, "{file}");
    }

    let again: Value = serde_json::from_str(&cli.run(&["register", "alice", "--json"]).await).unwrap();
    assert_eq!(again["aid"], server.aid("alice"));
    assert_eq!(fs::read(cli.agent("alice").join("key.pem")).unwrap(), key);
    let status: Value = serde_json::from_str(&cli.run(&["call", "alice", "meta.status"]).await).unwrap();
    assert_eq!((&status["aid"], &status["slot_id"]), (&json!(server.aid("alice")), &json!("cli")));
}

#[tokio::test]
async fn a_name_of_somebody_else_leaves_no_key_behind() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    server.register("carol").await;
    let cli = AgentCli::new(&server);
    let sentence = cli.run_refused(&["register", "carol"]).await;
    assert!(sentence.contains("4090") && sentence.contains(&server.aid("carol")), "{sentence}");
    assert!(!cli.agent("carol").exists());
    let sentence = cli.run_refused(&["register", "abc"]).await;
    assert!(sentence.contains("4 to 63"), "{sentence}");
}

#[tokio::test]
async fn any_method_can_be_called_and_a_refusal_ends_with_1() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let mut cli = AgentCli::with(&server, &["alice"]).await;
    let pong: Value = serde_json::from_str(&cli.run(&["call", "alice", "meta.ping"]).await).unwrap();
    assert_eq!(pong["pong"], true);
    let sentence = cli.run_refused(&["call", "alice", "meta.dance", "{}"]).await;
    assert!(sentence.contains("meta.dance") && sentence.contains("-32601"), "{sentence}");
    let output = cli.output_of(&["call", "alice", "meta.dance", "--json"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(printed(&output.stderr).contains("-32601"));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("a program reads JSON");
    assert_eq!(answer["error"]["code"], -32601);
    let sentence = cli.run_refused(&["send", "alice", "nobody1", "hello"]).await;
    assert!(sentence.contains("message.send") && sentence.contains("nobody1"), "{sentence}");

    let sentence = cli.run_refused(&["call", "carol", "meta.ping"]).await;
    assert!(sentence.contains(&format!("aund register {}", cli.name("carol"))), "{sentence}");
    for words in
        [&["call", "alice"][..], &["call", "alice", "meta.ping", "[1"], &["listen"], &["send", "alice"]]
    {
        assert_eq!(cli.output_of(words).await.status.code(), Some(2), "{words:?}");
    }
    cli.gateway = "127.0.0.1:1".to_owned();
    let sentence = cli.run_refused(&["call", "alice", "meta.ping"]).await;
    assert!(sentence.contains("no gateway answers at 127.0.0.1:1"), "{sentence}");
}

#[tokio::test]
async fn a_server_that_the_root_does_not_vouch_for_is_refused() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::new(&server);
    let other = cli.folder.join("other.crt");
    fs::write(&other, Pki::new(ISSUER, now()).root.certificate().pem()).unwrap();
    let sentence = cli.run_refused(&["register", "alice", "--root", "other.crt"]).await;
    assert!(sentence.contains("did not issue") && sentence.contains("other.crt"), "{sentence}");
    assert!(!cli.home.exists(), "nothing was made for a server like that");

    cli.run(&["register", "alice"]).await;
    let sentence = cli.run_refused(&["call", "alice", "meta.ping", "--root", "other.crt"]).await;
    assert!(sentence.contains("did not issue"), "{sentence}");
}

#[tokio::test]
async fn a_root_is_trusted_on_first_use_and_then_no_other() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let mut cli = AgentCli::new(&server);
    cli.folder.push("elsewhere");
    fs::create_dir(&cli.folder).unwrap();
    let first = cli.output_of(&["register", "alice"]).await;
    assert!(first.status.success(), "{}", printed(&first.stderr));
    let kept = cli.home.join(format!("roots/{}.crt", cli.gateway));
    let said = printed(&first.stderr);
    assert!(said.contains("trusting the root") && said.contains(&kept.display().to_string()), "{said}");
    assert_eq!(fs::read_to_string(&kept).unwrap(), server.root().pem());
    let second = cli.output_of(&["call", "alice", "meta.ping"]).await;
    assert_eq!(printed(&second.stderr), "", "said once");

    fs::write(&kept, Pki::new(ISSUER, now()).root.certificate().pem()).unwrap();
    let sentence = cli.run_refused(&["call", "alice", "meta.ping"]).await;
    assert!(sentence.contains("did not issue") && sentence.contains("remove"), "{sentence}");
}

#[tokio::test]
async fn tokens_are_kept_and_renewed_and_a_login_helps_where_they_are_refused() {
    let server = TestServer::start().await;
    let cli = AgentCli::with(&server, &["alice"]).await;
    let ping = ["call", "alice", "meta.ping"];
    cli.run(&ping).await;
    let first = cli.tokens("alice");
    assert_eq!(mode(&cli.agent("alice").join("tokens.json")), 0o600);
    cli.run(&ping).await;
    assert_eq!(cli.tokens("alice"), first, "a good token is used again");

    let mut old = first.clone();
    old["expires_at"] = json!(now());
    cli.set_tokens("alice", &old);
    cli.run(&ping).await;
    let second = cli.tokens("alice");
    assert!(second["refresh_token"] != first["refresh_token"] && second["expires_at"] != old["expires_at"]);
    assert!((server.metric("aund_requests_total{method=\"auth.aid_login2\"").await - 1.0).abs() < 0.1);

    let mut wrong = second.clone();
    wrong["access_token"] = json!("not-a-token");
    cli.set_tokens("alice", &wrong);
    cli.run(&ping).await;
    cli.set_tokens("alice", &json!({ "access_token": "x", "refresh_token": "y", "expires_at": 0 }));
    cli.run(&ping).await;
    fs::write(cli.agent("alice").join("tokens.json"), "no tokens").unwrap();
    cli.run(&ping).await;
}

#[tokio::test]
async fn the_address_of_the_gateway_is_remembered() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let mut cli = AgentCli::with(&server, &["alice"]).await;
    let mut command = Command::new(crate::support::program());
    command.args(["call", &cli.name("alice"), "meta.ping", "--home"]).arg(&cli.home).current_dir(&cli.folder);
    assert!(within("a command", command.output()).await.unwrap().status.success());
    for gateway in [
        format!("wss://gateway.{ISSUER}:{}/aun", server.tls_port),
        format!("ws://127.0.0.1:{}/aun", server.plain_port),
        format!("localhost:{}", server.tls_port),
    ] {
        cli.gateway = gateway;
        cli.run(&["call", "alice", "meta.ping"]).await;
    }
}

#[tokio::test]
async fn a_token_for_http_is_all_that_is_printed_and_the_server_accepts_it() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice"]).await;
    let output = cli.output_of(&["agents", "token", "alice"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output.stderr));
    let token = printed(&output.stdout);
    assert!(token.ends_with('\n') && token.split_whitespace().count() == 1, "{token:?}");
    let bob = server.agent("bobby").await;
    assert_eq!(caller(&server, &bob, token.trim()).await, server.aid("alice"));
    assert_eq!(cli.tokens("alice")["access_token"], token.trim(), "it is kept for the next command");

    // Each has its whole hour, and those before it stay valid.
    let next: Value = serde_json::from_str(&cli.run(&["agent", "token", "alice", "--json"]).await).unwrap();
    assert_eq!(next["aid"], server.aid("alice"));
    assert!(next["expires_at"].as_i64().unwrap() > now() + 3500, "{next}");
    let second = next["access_token"].as_str().unwrap();
    assert_ne!(second, token.trim());
    for token in [second, token.trim()] {
        assert_eq!(caller(&server, &bob, token).await, server.aid("alice"));
    }

    assert!(cli.run(&["agents", "token", "--help"]).await.contains("one hour"));
    let sentence = cli.run_refused(&["agents", "token", "nobody1"]).await;
    assert!(sentence.contains("aund register nobody1"), "{sentence}");
}

/// Whom the server takes for the caller of a request with this token: the sender of what it sends.
pub(super) async fn caller(server: &TestServer, to: &ConnectedAgent, token: &str) -> Value {
    let params = json!({ "to": to.aid(), "payload": { "text": "over HTTP" } });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "message.send", "params": params });
    let request = server.http("POST", "/rpc").header("Content-Type", "application/json").bearer(token);
    let answer = request.body(call.to_string()).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let (sent, event) = (answer.json(), to.next_event().await);
    assert_eq!(event["params"]["message_id"], sent["result"]["message_id"], "{sent}");
    event["params"]["from"].clone()
}
