//! Who one is: keys, names, tokens, and whom to trust.

use std::fs;

use certs::dev::Pki;
use serde_json::{Value, json};
use tokio::process::Command;

use super::person::{Person, mode};
use crate::world::agent::aid;
use crate::world::{ISSUER, World, now, printed, within};

#[tokio::test]
async fn an_agent_is_made_once_and_registering_it_again_changes_nothing() {
    let world = World::start().await;
    let person = Person::new(&world);
    let said = person.does(&["register", "alice"]).await;
    assert!(said.contains(&aid("alice")) && said.contains(&person.agent("alice").display().to_string()));
    let key = fs::read(person.agent("alice").join("key.pem")).unwrap();
    for folder in [&person.home, &person.agent("alice")] {
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
    }
    for file in ["key.pem", "cert.pem", "gateway"] {
        assert_eq!(mode(&person.agent("alice").join(file)), 0o600, "{file}");
    }

    let again: Value = serde_json::from_str(&person.does(&["register", "alice", "--json"]).await).unwrap();
    assert_eq!(again["aid"], aid("alice"));
    assert_eq!(fs::read(person.agent("alice").join("key.pem")).unwrap(), key);
    let status: Value = serde_json::from_str(&person.does(&["call", "alice", "meta.status"]).await).unwrap();
    assert_eq!((&status["aid"], &status["slot_id"]), (&json!(aid("alice")), &json!("cli")));
}

#[tokio::test]
async fn a_name_of_somebody_else_leaves_no_key_behind() {
    let world = World::start().await;
    world.register("carol").await;
    let person = Person::new(&world);
    let sentence = person.fails(&["register", "carol"]).await;
    assert!(sentence.contains("4090") && sentence.contains(&aid("carol")), "{sentence}");
    assert!(!person.agent("carol").exists());
    let sentence = person.fails(&["register", "abc"]).await;
    assert!(sentence.contains("4 to 63"), "{sentence}");
}

#[tokio::test]
async fn any_method_can_be_called_and_a_refusal_ends_with_1() {
    let world = World::start().await;
    let person = Person::with(&world, &["alice"]).await;
    let pong: Value = serde_json::from_str(&person.does(&["call", "alice", "meta.ping"]).await).unwrap();
    assert_eq!(pong["pong"], true);
    let sentence = person.fails(&["call", "alice", "meta.dance", "{}"]).await;
    assert!(sentence.contains("meta.dance") && sentence.contains("-32601"), "{sentence}");
    let output = person.types(&["call", "alice", "meta.dance", "--json"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(printed(&output.stderr).contains("-32601"));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("a program reads JSON");
    assert_eq!(answer["error"]["code"], -32601);
    let sentence = person.fails(&["send", "alice", "nobody1", "hello"]).await;
    assert!(sentence.contains("message.send") && sentence.contains("nobody1"), "{sentence}");

    let sentence = person.fails(&["call", "carol", "meta.ping"]).await;
    assert!(sentence.contains("aund register carol"), "{sentence}");
    for words in
        [&["call", "alice"][..], &["call", "alice", "meta.ping", "[1"], &["listen"], &["send", "alice"]]
    {
        assert_eq!(person.types(words).await.status.code(), Some(2), "{words:?}");
    }
    let nowhere = Person { gateway: "127.0.0.1:1".to_owned(), ..Person::new(&world) };
    let sentence = nowhere.fails(&["call", "alice", "meta.ping"]).await;
    assert!(sentence.contains("no gateway answers at 127.0.0.1:1"), "{sentence}");
}

#[tokio::test]
async fn a_server_that_the_root_does_not_vouch_for_is_refused() {
    let world = World::start().await;
    let person = Person::new(&world);
    let other = world.beside("other.crt");
    fs::write(&other, Pki::new(ISSUER, now()).root.certificate().pem()).unwrap();
    let sentence = person.fails(&["register", "alice", "--root", "other.crt"]).await;
    assert!(sentence.contains("did not issue") && sentence.contains("other.crt"), "{sentence}");
    assert!(!person.home.exists(), "nothing was made for a server like that");

    person.does(&["register", "alice"]).await;
    let sentence = person.fails(&["call", "alice", "meta.ping", "--root", "other.crt"]).await;
    assert!(sentence.contains("did not issue"), "{sentence}");
}

#[tokio::test]
async fn a_root_is_trusted_on_first_use_and_then_no_other() {
    let world = World::start().await;
    let elsewhere = world.beside("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let person = Person { folder: elsewhere, ..Person::new(&world) };
    let first = person.types(&["register", "alice"]).await;
    assert!(first.status.success(), "{}", printed(&first.stderr));
    let kept = person.home.join(format!("roots/{}.crt", person.gateway));
    let said = printed(&first.stderr);
    assert!(said.contains("trusting the root") && said.contains(&kept.display().to_string()), "{said}");
    assert_eq!(fs::read_to_string(&kept).unwrap(), world.root().pem());
    let second = person.types(&["call", "alice", "meta.ping"]).await;
    assert_eq!(printed(&second.stderr), "", "said once");

    fs::write(&kept, Pki::new(ISSUER, now()).root.certificate().pem()).unwrap();
    let sentence = person.fails(&["call", "alice", "meta.ping"]).await;
    assert!(sentence.contains("did not issue") && sentence.contains("remove"), "{sentence}");
}

#[tokio::test]
async fn tokens_are_kept_and_renewed_and_a_login_helps_where_they_are_not_taken() {
    let world = World::start().await;
    let person = Person::with(&world, &["alice"]).await;
    let ping = ["call", "alice", "meta.ping"];
    person.does(&ping).await;
    let first = person.tokens("alice");
    assert_eq!(mode(&person.agent("alice").join("tokens.json")), 0o600);
    person.does(&ping).await;
    assert_eq!(person.tokens("alice"), first, "a good token is used again");

    let mut old = first.clone();
    old["expires_at"] = json!(now());
    person.set_tokens("alice", &old);
    person.does(&ping).await;
    let second = person.tokens("alice");
    assert!(second["refresh_token"] != first["refresh_token"] && second["expires_at"] != old["expires_at"]);
    assert!((world.metric("aund_requests_total{method=\"auth.aid_login2\"").await - 1.0).abs() < 0.1);

    let mut wrong = second.clone();
    wrong["access_token"] = json!("not-a-token");
    person.set_tokens("alice", &wrong);
    person.does(&ping).await;
    person.set_tokens("alice", &json!({ "access_token": "x", "refresh_token": "y", "expires_at": 0 }));
    person.does(&ping).await;
    fs::write(person.agent("alice").join("tokens.json"), "no tokens").unwrap();
    person.does(&ping).await;
}

#[tokio::test]
async fn the_address_of_the_gateway_is_remembered() {
    let world = World::start().await;
    let person = Person::with(&world, &["alice"]).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_aund"));
    command.args(["call", "alice", "meta.ping", "--home"]).arg(&person.home).current_dir(&person.folder);
    assert!(within("a command", command.output()).await.unwrap().status.success());
    for gateway in [
        format!("wss://gateway.{ISSUER}:{}/aun", person.world.tls_port),
        format!("ws://127.0.0.1:{}/aun", person.world.plain_port),
        format!("localhost:{}", person.world.tls_port),
    ] {
        let person = Person { gateway, ..Person::new(&world) };
        person.does(&["call", "alice", "meta.ping"]).await;
    }
}
