//! `auth.refresh_token`, and that nothing which was answered is lost when the server restarts.

use serde_json::{Value, json};

use super::begun;
use crate::support::TestServer;
use crate::support::agent::{hello, random_hex, text};

async fn refresh(server: &TestServer, token: &str) -> Value {
    server
        .ask("auth.refresh_token", &json!({ "refresh_token": token }))
        .await
        .expect("a refresh is answered by a result")
}

#[tokio::test]
async fn a_refresh_token_buys_the_next_pair() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let first = server.login(&alice).await;
    let second = refresh(&server, &first.refresh).await;
    assert_eq!(second["success"], true);
    assert_eq!(
        (&second["aid"], &second["expires_in"], &second["refresh_count"]),
        (&json!(alice.aid), &json!(3600), &json!(1))
    );
    assert_eq!(second["relogin_required"], false);
    let third = refresh(&server, &text(&second["refresh_token"])).await;
    assert_eq!((&third["success"], &third["refresh_count"]), (&json!(true), &json!(2)));

    // The access tokens of all three are good until their own end.
    for token in [&first.access, &text(&second["access_token"]), &text(&third["access_token"])] {
        let socket = server.socket().await;
        assert_eq!(socket.call("auth.connect", &hello(socket.nonce(), token)).await["status"], "ok");
    }
}

#[tokio::test]
async fn a_refresh_token_is_used_once_but_a_lost_answer_can_be_asked_for_again() {
    let server = TestServer::shared().await;
    let alice = server.register("alice").await;
    let first = server.login(&alice).await.refresh;
    let lost = refresh(&server, &first).await;
    assert_eq!(lost["success"], true);
    let again = refresh(&server, &first).await;
    assert_eq!(again["success"], true, "the answer was lost a moment ago: {again}");
    let third = refresh(&server, &first).await;
    assert_eq!(third["success"], false, "once more is enough: {third}");

    let next = refresh(&server, &text(&again["refresh_token"])).await;
    assert_eq!(next["success"], true);
    let too_late = refresh(&server, &first).await;
    assert_eq!(too_late["success"], false, "the chain has moved on");
    assert_eq!(too_late["error"], "invalid_or_expired_refresh_token");
    assert_eq!(too_late["relogin_required"], true);
}

#[tokio::test]
async fn a_refresh_that_fails_says_so_in_its_result() {
    let server = TestServer::shared().await;
    for token in ["rt-unknown", &random_hex(32)] {
        let refused = refresh(&server, token).await;
        assert_eq!(refused["success"], false);
        assert_eq!(refused["error"], "invalid_or_expired_refresh_token");
        assert_eq!((&refused["relogin_required"], &refused["retryable"]), (&json!(true), &json!(false)));
    }
    let missing = server.ask("auth.refresh_token", &json!({})).await;
    let missing = missing.expect("a refresh is answered by a result");
    assert_eq!((&missing["success"], &missing["error"]), (&json!(false), &json!("missing refresh_token")));
}

#[tokio::test]
async fn tokens_and_certificates_survive_a_restart() {
    let mut server = TestServer::start().await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    let pending = begun(&server, &alice).await;
    server.restart().await;

    let session = server.connect_with(&alice, &tokens, |_| ()).await;
    assert_eq!(session.call("meta.ping", &json!({})).await["pong"], true);
    server.ask("auth.aid_login2", &alice.login2(&pending)).await.expect("a login may span a restart");
    let refreshed = refresh(&server, &tokens.refresh).await;
    assert_eq!(refreshed["success"], true);
    assert_eq!(refresh(&server, "rt-unknown").await["success"], false);
    assert_eq!(server.get(&format!("/pki/cert/{}", alice.aid)).await.text(), alice.cert);

    server.kill();
    server.start_again();
    assert_eq!(
        refresh(&server, &text(&refreshed["refresh_token"])).await["success"],
        true,
        "nothing answered is ever lost"
    );
    server.connect_with(&alice, &tokens, |_| ()).await;
}

#[tokio::test]
async fn a_used_login_stays_used_after_a_restart() {
    let mut server = TestServer::start().await;
    let alice = server.register("alice").await;
    let params = alice.login2(&begun(&server, &alice).await);
    server.ask("auth.aid_login2", &params).await.unwrap();
    server.kill();
    server.start_again();
    assert_eq!(server.ask_error("auth.aid_login2", &params).await["code"], -32002);
}
