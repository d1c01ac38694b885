//! The containers of `docker-compose.yml`, without an engine to run them: the file is read, and what it says is started.

mod deployment;

use std::fs;
use std::future::ready;
use std::path::Path;
use std::process::Command;

use crate::support::{ISSUER, aund, printed, setting, until};
use deployment::{ComposeStores, Deployment};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn docker_compose_understands_every_profile() {
    let run = |tool: &[&str], words: &[&str]| {
        let command = Command::new(tool[0]).args(&tool[1..]).args(words).current_dir(ROOT).output();
        command.ok().filter(|output| output.status.success()).ok_or(tool.join(" "))
    };
    let tools = [&["docker", "compose"][..], &["docker-compose"]];
    let Some(tool) = tools.into_iter().find(|tool| run(tool, &["version"]).is_ok()) else {
        eprintln!("SKIPPED: there is no docker compose here to check docker-compose.yml with");
        return;
    };
    let profiles = ["split", "federation"].map(|name| ["--profile", name, "config", "--quiet"]);
    for words in [&["config", "--quiet"][..], &profiles[0], &profiles[1]] {
        assert!(run(tool, words).is_ok(), "{tool:?} {words:?}");
    }
}

#[tokio::test]
async fn the_one_container_of_the_default_profile_is_healthy() {
    let mut deployment = Deployment::of("", ComposeStores::none());
    assert_eq!(deployment.names(), ["aund"]);
    deployment.start().await;
    let alice = agent_command(&deployment, "aund", "aund", &["register", "alice"]);
    assert!(alice.contains(&format!("alice.{ISSUER} is registered")), "{alice}");
}

#[tokio::test]
async fn the_split_profile_delivers_a_message_from_one_gateway_to_the_other() {
    let (Some(postgres), Some(redis)) = (setting("AUND_TEST_POSTGRES_URL"), setting("AUND_TEST_REDIS_URL"))
    else {
        eprintln!(
            "SKIPPED: AUND_TEST_POSTGRES_URL and AUND_TEST_REDIS_URL do not say where PostgreSQL and Redis are"
        );
        return;
    };
    let mut deployment = Deployment::of("split", ComposeStores::at(&postgres, &redis));
    assert_eq!(deployment.services(), proto_schemas::services().chain(["keys"]).collect());
    deployment.start().await;

    let called: Vec<&str> = proto_schemas::services().filter(|service| *service != "gateway").collect();
    for gateway in ["gateway-1", "gateway-2"] {
        deployment.reaches(gateway, &called).await;
    }
    agent_command(&deployment, "gateway-1", "ca", &["register", "alice"]);
    agent_command(&deployment, "gateway-2", "ca", &["register", "bobb"]);
    let sent = agent_command(&deployment, "gateway-1", "ca", &["send", "alice", "bobb", "Hello Bobb!"]);
    assert!(sent.contains("#1"), "{sent}");
    let pulled = agent_command(&deployment, "gateway-2", "ca", &["pull", "bobb"]);
    assert!(pulled.contains("Hello Bobb!"), "{pulled}");

    // The message processes reach the gateways, which start after them, a moment later.
    let top = until("every link is up", || {
        let top = printed(&aund(&deployment.statuses(), deployment.folder()).stdout);
        ready((!top.contains("DOWN") && !top.contains("does not answer")).then_some(top))
    })
    .await;
    for words in ["message.send", "gateway", "redials", "bus of"] {
        assert!(top.contains(words), "{words} in\n{top}");
    }
}

#[test]
fn the_image_has_every_folder_that_keys_are_mounted_on() {
    let image =
        fs::read_to_string(Path::new(ROOT).join("gateway/Dockerfile")).expect("there is a Dockerfile");
    // The build of the image asks `aund services`, so a folder is there for each of them.
    assert!(image.contains("for folder in authority postgres $services;"), "{image}");
    let folders = Deployment::of("split", ComposeStores::none()).mounted_on("keys", "/keys/");
    let services = proto_schemas::services().chain(["authority", "postgres"]);
    assert_eq!(folders, services.map(str::to_owned).collect());
}

#[tokio::test]
async fn the_federation_profile_delivers_a_message_from_one_domain_to_the_other() {
    let mut deployment = Deployment::of("federation", ComposeStores::none());
    assert_eq!(deployment.names(), ["introduce", "north", "south"]);
    deployment.start().await;
    agent_command(&deployment, "north", "north", &["register", "alice"]);
    agent_command(&deployment, "south", "south", &["register", "bobb"]);
    for (here, from, there, to) in [("north", "alice", "south", "bobb"), ("south", "bobb", "north", "alice")]
    {
        let to_aid = format!("{to}.{there}.localhost");
        let sent = agent_command(&deployment, here, here, &["send", from, &to_aid, "Hello over there!"]);
        assert!(sent.contains("#1"), "{sent}");
        let pulled = agent_command(&deployment, there, there, &["pull", to]);
        assert!(pulled.contains("Hello over there!"), "{pulled}");
    }
}

#[tokio::test]
async fn keys_are_made_once_and_replaced_when_asked() {
    let deployment = Deployment::of("split", ComposeStores::none());
    let volumes = deployment.folder().join("volumes");
    let read = |name: &str| fs::read_to_string(volumes.join(name)).unwrap_or_default();
    let names = ["keys-ca/ca.crt", "keys-ca/authority.crt", "keys-ca/pgpass", "keys-postgres/password"];
    let mut before = names.map(|_| String::new());
    for (words, same) in [(&[][..], [false; 4]), (&[], [true; 4]), (&["renew"], [false, true, true, true])] {
        deployment.run_once("keys", words);
        let now = names.map(read);
        for ((name, same), (before, now)) in names.iter().zip(same).zip(before.iter().zip(&now)) {
            assert!(!now.is_empty(), "{name} is there");
            assert_eq!(before == now, same, "{name} after {words:?}");
        }
        before = now;
    }
    assert!(!volumes.join("keys-gateway/pgpass").exists(), "the gateway knows no store");
    assert!(!volumes.join("keys-gateway/ca.key").exists(), "nor the key of another process");
}

/// What a command of an agent prints, at one of the gateways, trusting the root that a container wrote.
fn agent_command(deployment: &Deployment, gateway: &str, authority: &str, words: &[&str]) -> String {
    let root = deployment.path(authority, "/var/lib/aund/pki/root.crt");
    let at = deployment.gateway(gateway);
    let home = deployment.folder().join("home");
    let text = |path: &Path| path.to_str().expect("a path is text").to_owned();
    let options =
        ["--gateway".to_owned(), at, "--root".to_owned(), text(&root), "--home".to_owned(), text(&home)];
    let words: Vec<&str> = words.iter().copied().chain(options.iter().map(String::as_str)).collect();
    let output = aund(&words, deployment.folder());
    assert!(output.status.success(), "{words:?}: {}", printed(&output.stderr));
    printed(&output.stdout)
}
