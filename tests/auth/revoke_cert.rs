//! `auth.revoke_cert`: an agent logs out everywhere or ends for good, with its key and with nothing else.

use certs::{Certificate, Curve, Key};
use serde_json::{Value, json};

use super::begun;
use crate::client::agent_cli::AgentCli;
use crate::support::agent::{TestIdentity, hello, public_key, text};
use crate::support::{TestServer, printed, until};

/// The parameters of the second half, signed by `who`.
fn revocation(who: &TestIdentity, begun: &Value, what: &str, reason: &str) -> Value {
    let nonce = text(&begun["nonce"]);
    json!({
        "aid": who.aid, "request_id": begun["request_id"], "nonce": nonce, "what": what, "reason": reason,
        "signature": who.sign(&format!("auth.revoke_cert:{nonce}:{what}:{reason}")),
    })
}

async fn ocsp(server: &TestServer, serial: &str) -> Value {
    server.get(&format!("/pki/ocsp/{serial}")).await.json()["status"].clone()
}

async fn refreshed(server: &TestServer, token: &str) -> Value {
    server.ask("auth.refresh_token", &json!({ "refresh_token": token })).await.expect("an answer")["success"]
        .clone()
}

/// What tells that an agent is as it was: its session, its refresh token and its certificate.
async fn is_untouched(server: &TestServer, alice: &crate::support::agent::ConnectedAgent) {
    assert_eq!(alice.call("meta.ping", &json!({})).await["pong"], true);
    assert_eq!(ocsp(server, alice.identity.certificate().serial()).await, "good");
    server.login(&alice.identity).await;
}

#[tokio::test]
async fn an_agent_logs_out_everywhere_and_its_key_logs_in_again() {
    let server = TestServer::shared().await;
    let (alice, carol) = (server.agent("alice").await, server.agent("carol").await);
    let (phone, short) =
        (server.connect_device(&alice, "phone", "default").await, server.connect_short(&alice).await);
    let begun = begun(&server, &alice.identity).await;
    let params = revocation(&alice.identity, &begun, "tokens", "unspecified");
    let answer = server.ask("auth.revoke_cert", &params).await.expect("the key may do this");
    let expected = json!({ "status": "revoked", "aid": alice.aid(), "what": "tokens", "serials": [] });
    assert_eq!(answer, expected);

    for session in [&alice, &phone, &short] {
        assert_eq!(session.disconnected().await["code"], 4001);
    }
    let socket = server.socket().await;
    let error = socket.call_error("auth.connect", &hello(socket.nonce(), &alice.tokens.access)).await;
    assert_eq!(error["code"], 4001, "{error}");
    assert_eq!(refreshed(&server, &alice.tokens.refresh).await, false);
    let over_http = server.http("GET", "/agents").bearer(&alice.tokens.access).send().await;
    assert_eq!(over_http.status, 401, "{}", over_http.text());

    assert_eq!(ocsp(&server, alice.identity.certificate().serial()).await, "good", "the certificate stays");
    let again = server.connect(&alice.identity, |_| ()).await;
    is_untouched(&server, &again).await;
    is_untouched(&server, &carol).await;
}

#[tokio::test]
async fn an_agent_ends_for_good_as_if_the_operator_had_revoked_it() {
    let server = TestServer::shared().await;
    let (alice, carol) = (server.agent("alice").await, server.agent("carol").await);
    // On a second curve, and an earlier one on the first: all of them end.
    let key = Key::generate(Curve::P384);
    let first = begun(&server, &alice.identity).await;
    let further = alice.call("auth.request_cert", &alice.identity.request_cert(&first, &key)).await;
    let further = Certificate::from_pem(&text(&further["cert"])).expect("a certificate");
    let content =
        format!("---\naid: {}\nname: Alice\ntype: agent\nversion: 1.0.0\n---\n# Alice\n", alice.aid());
    let document = json!({ "aid": alice.aid(), "content": content });
    server.by_operator("agent.put_agent_md", &document).await.expect("a document is accepted");
    let input = json!({ "type": "text", "content": "please" });
    let task = carol.call("task.create", &json!({ "to": alice.aid(), "input": input })).await;
    assert_eq!(alice.next_event().await["method"], "event/task.updated");
    let login = begun(&server, &alice.identity).await;

    let mut params =
        revocation(&alice.identity, &begun(&server, &alice.identity).await, "aid", "keyCompromise");
    params.as_object_mut().expect("an object").remove("what");
    let answer = server.ask("auth.revoke_cert", &params).await.expect("the key may do this");
    assert_eq!((&answer["status"], &answer["what"]), (&json!("revoked"), &json!("aid")), "{answer}");
    assert_eq!(alice.disconnected().await["code"], 4001);
    let serials: Vec<String> = answer["serials"].as_array().expect("serials").iter().map(text).collect();
    for serial in [alice.identity.certificate().serial(), further.serial()] {
        assert!(serials.iter().any(|revoked| revoked == serial), "{serial} is not in {answer}");
        assert_eq!(ocsp(&server, serial).await, "revoked");
        let list = server.get("/pki/crl.json").await.json();
        assert!(list["revoked_serials"].as_array().expect("a list").contains(&json!(serial)));
    }

    assert_eq!(server.get(&format!("/pki/cert/{}", alice.aid())).await.status, 404);
    assert_eq!(refreshed(&server, &alice.tokens.refresh).await, false);
    for (method, params) in
        [("auth.aid_login1", alice.identity.login1()), ("auth.aid_login2", alice.identity.login2(&login))]
    {
        assert_eq!(server.ask_error(method, &params).await["code"], -32050, "{method}");
    }
    for key in [&alice.identity.key, &Key::generate(Curve::P256)] {
        let params = json!({ "aid": alice.aid(), "public_key": public_key(key), "curve": "P-256" });
        assert_eq!(server.ask_error("auth.create_aid", &params).await["code"], 4090, "the name stays taken");
    }
    until("its agent.md is withdrawn", || async {
        let found = server.by_operator("agent.get_agent_md", &json!({ "aid": alice.aid() })).await;
        (found.expect("the operator is answered")["found"] == false).then_some(())
    })
    .await;
    until("its task has ended", || async {
        let task = carol.call("task.get", &json!({ "task_id": task["task_id"] })).await;
        (task["status"] == "canceled" || task["status"] == "failed").then_some(())
    })
    .await;
    until("nobody can write to it", || async {
        let message = json!({ "to": alice.aid(), "payload": { "text": "hello" } });
        carol.try_call("message.send", &message).await.err().filter(|error| error["code"] == -32008)
    })
    .await;
    is_untouched(&server, &carol).await;
}

#[tokio::test]
async fn neither_another_key_nor_another_text_nor_a_token_ends_anything() {
    let server = TestServer::shared().await;
    let (alice, mallory) = (server.agent("alice").await, server.register("mallory").await);
    let own = || begun(&server, &alice.identity);
    let signed = |begun: &Value, who: &TestIdentity, text: &str| {
        json!({
            "aid": alice.aid(), "request_id": begun["request_id"], "nonce": begun["nonce"],
            "what": "aid", "reason": "unspecified", "signature": who.sign(text),
        })
    };
    let nonce = |begun: &Value| text(&begun["nonce"]);

    // A certificate is public, so everybody has a nonce for alice; its key is what counts.
    let first = own().await;
    let forged = signed(&first, &mallory, &format!("auth.revoke_cert:{}:aid:unspecified", nonce(&first)));
    assert_eq!(server.ask_error("auth.revoke_cert", &forged).await["code"], -32003);
    let tokens = format!("auth.revoke_cert:{}:tokens:unspecified", nonce(&first));
    assert_eq!(
        server.ask_error("auth.revoke_cert", &signed(&first, &alice.identity, &tokens)).await["code"],
        -32003
    );
    let other_reason = format!("auth.revoke_cert:{}:aid:keyCompromise", nonce(&first));
    let params = signed(&first, &alice.identity, &other_reason);
    assert_eq!(server.ask_error("auth.revoke_cert", &params).await["code"], -32003);
    // What signs a renewal or a login signs nothing else.
    for text in [nonce(&first), format!("{}:1794701761.8452365", nonce(&first))] {
        let params = signed(&first, &alice.identity, &text);
        assert_eq!(server.ask_error("auth.revoke_cert", &params).await["code"], -32003);
    }
    // A nonce of somebody else, and one of another login.
    let theirs = begun(&server, &mallory).await;
    let params =
        signed(&theirs, &alice.identity, &format!("auth.revoke_cert:{}:aid:unspecified", nonce(&theirs)));
    assert_eq!(server.ask_error("auth.revoke_cert", &params).await["code"], -32002);
    let mut params = revocation(&alice.identity, &own().await, "aid", "unspecified");
    params["request_id"] = first["request_id"].clone();
    assert_eq!(server.ask_error("auth.revoke_cert", &params).await["code"], -32002);
    // A session, and a token over HTTP.
    let without = json!({ "aid": alice.aid(), "request_id": first["request_id"], "nonce": first["nonce"], "what": "tokens" });
    assert_eq!(alice.call_error("auth.revoke_cert", &without).await["code"], -32602);
    let mut forged = signed(&first, &mallory, &format!("auth.revoke_cert:{}:aid:unspecified", nonce(&first)));
    assert_eq!(alice.call_error("auth.revoke_cert", &forged).await["code"], -32003);
    let body =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "auth.revoke_cert", "params": forged }).to_string();
    let by_token = server.http("POST", "/rpc").header("Content-Type", "application/json").body(body);
    let answer = by_token.bearer(&alice.tokens.access).send().await.json();
    assert_eq!(answer["error"]["code"], -32003, "{answer}");
    // Words that mean nothing are refused before anything is verified.
    for (name, value) in [
        ("what", json!("everything")),
        ("what", json!(7)),
        ("reason", json!("boredom")),
        ("reason", json!("cACompromise")),
    ] {
        forged[name] = value;
        let error = server.ask_error("auth.revoke_cert", &forged).await;
        assert_eq!(error["code"], -32602, "{name}: {error}");
        forged[name] = if name == "what" { json!("aid") } else { json!("unspecified") };
    }
    is_untouched(&server, &alice).await;
}

#[tokio::test]
async fn a_revocation_is_not_replayed() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let params = revocation(&alice, &begun(&server, &alice).await, "tokens", "unspecified");
    // Many at once: one of them counts.
    let many = (0..8).map(|_| server.ask("auth.revoke_cert", &params));
    let answers = futures_util::future::join_all(many).await;
    let (done, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((done.len(), refused.len()), (1, 7));
    let again = server.connect(&alice, |_| ()).await;
    let error = server.ask_error("auth.revoke_cert", &params).await;
    assert_eq!(error["code"], -32002, "{error}");
    is_untouched(&server, &again).await;

    // The same over HTTP, without any token.
    let params = revocation(&alice, &begun(&server, &alice).await, "tokens", "cessationOfOperation");
    let body =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "auth.revoke_cert", "params": params }).to_string();
    let by_http =
        || server.http("POST", "/rpc").header("Content-Type", "application/json").body(body.clone());
    assert_eq!(by_http().send().await.json()["result"]["status"], "revoked");
    assert_eq!(again.disconnected().await["code"], 4001);
    assert_eq!(by_http().send().await.json()["error"]["code"], -32002);
    let again = server.connect(&alice, |_| ()).await;

    // Neither does the nonce log anybody in, nor one that was used for a login revoke anything.
    let login = begun(&server, &alice).await;
    server.ask("auth.aid_login2", &alice.login2(&login)).await.expect("a login");
    let params = revocation(&alice, &login, "aid", "unspecified");
    assert_eq!(server.ask_error("auth.revoke_cert", &params).await["code"], -32002);
    is_untouched(&server, &again).await;
}

#[tokio::test]
async fn a_key_that_was_replaced_ends_nobody_and_a_renewed_one_does() {
    let server = TestServer::shared().await;
    let old = server.register("alice").await;
    let before = begun(&server, &old).await;
    let alice = server.rekey(&old).await;
    let session = server.connect(&alice, |_| ()).await;
    for what in ["tokens", "aid"] {
        let error =
            server.ask_error("auth.revoke_cert", &revocation(&old, &before, what, "unspecified")).await;
        assert_eq!(error["data"]["kind"], "not_registered", "a login that began before the rekey: {error}");
    }
    assert!(server.ask("auth.aid_login1", &old.login1()).await.is_err());
    is_untouched(&server, &session).await;

    // A renewal keeps the key: whoever missed its answer has the old certificate, and the same rights.
    let renewal = begun(&server, &alice).await;
    let nonce = text(&renewal["nonce"]);
    let params = json!({
        "aid": alice.aid, "request_id": renewal["request_id"], "nonce": nonce, "signature": alice.sign(&nonce),
    });
    let renewed = server.ask("auth.renew_cert", &params).await.expect("a renewal");
    let renewed = Certificate::from_pem(&text(&renewed["cert"])).expect("a certificate");
    let params = revocation(&alice, &begun(&server, &alice).await, "aid", "superseded");
    server.ask("auth.revoke_cert", &params).await.expect("the key may do this");
    assert_eq!(session.disconnected().await["code"], 4001);
    for serial in [old.certificate().serial(), alice.certificate().serial(), renewed.serial()] {
        assert_eq!(ocsp(&server, serial).await, "revoked");
    }
}

#[tokio::test]
async fn failed_revocations_are_limited_as_failed_logins_are() {
    let server = TestServer::with("limits.login_failures_per_minute = 5").await;
    let (alice, mallory) = (server.register("alice").await, server.register("mallory").await);
    let began = begun(&server, &alice).await;
    let mut forged = revocation(&mallory, &began, "aid", "unspecified");
    forged["aid"] = json!(alice.aid);
    // A slow machine gets some of the minute's five back between two calls, and each gateway has its own five.
    let mut codes = Vec::new();
    while codes.last() != Some(&-32029) {
        let error = server.ask_error("auth.revoke_cert", &forged).await;
        if error["code"] == -32029 {
            assert!(error["data"]["retry_after_ms"].as_u64().is_some_and(|wait| wait > 0), "{error}");
        }
        codes.push(error["code"].as_i64().expect("a code"));
        assert!(codes.len() < 60, "failures are not limited: {codes:?}");
    }
    assert!(codes.len() > 5, "{codes:?}");
    assert!(codes[..5].iter().all(|code| *code == -32003), "{codes:?}");
}

#[tokio::test]
async fn a_command_logs_an_agent_out_and_ends_it_for_good() {
    let server = TestServer::start().await;
    let cli = AgentCli::with(&server, &["alice"]).await;
    let aid = server.aid("alice");
    cli.run(&["call", "alice", "meta.ping"]).await;
    let said = cli.run(&["certs", "revoke", "--as", "alice", "--tokens"]).await;
    assert!(said.contains(&aid) && said.contains("logged out"), "{said}");
    cli.run(&["call", "alice", "meta.ping"]).await;

    let asked = cli.run_refused(&["certs", "revoke", "--as", "alice"]).await;
    assert!(asked.contains("--yes") && asked.contains(&aid), "{asked}");
    cli.run(&["call", "alice", "meta.ping"]).await;
    let wrong = cli.run_refused(&["certs", "revoke", "--as", "alice", "--yes", "--reason", "boredom"]).await;
    assert!(wrong.contains("reason must be one of"), "{wrong}");
    cli.run(&["call", "alice", "meta.ping"]).await;
    let nobody = cli.run_refused(&["certs", "revoke", "--as", "nobody1", "--yes"]).await;
    assert!(nobody.contains("nobody1"), "{nobody}");

    let said = cli.run(&["certs", "revoke", "--as", "alice", "--yes", "--reason", "keyCompromise"]).await;
    assert!(said.starts_with("revoked ") && said.contains(&aid), "{said}");
    let refused = cli.run_refused(&["call", "alice", "meta.ping"]).await;
    assert!(refused.contains("-32050"), "{refused}");
    let again = cli.run_refused(&["certs", "revoke", "--as", "alice", "--yes"]).await;
    assert!(again.contains("-32050") && again.contains("was revoked"), "{again}");
    for words in [
        &["certs", "revoke"][..],
        &["certs", "revoke", "x.y", "--as", "alice"],
        &["certs", "revoke", "x.y", "--tokens"],
    ] {
        let output = cli.output_of(words).await;
        assert_eq!(output.status.code(), Some(2), "{}", printed(&output.stderr));
    }
}
