//! What an agent says about itself, and how others find it: `aund agents`, and the same from a program.

use std::fs;
use std::future::Future;

use ::client::{
    Client, Error, GatewayDialer, GatewayUrl, Home, PublishCondition, TrustedRoot, publish_agent_md,
};
use proto_schemas::requests::search;
use serde_json::{Value, json};

use super::HIGH_LIMITS;
use super::agent_cli::AgentCli;
use crate::support::{TestServer, aund, printed, until, within};

fn document(server: &TestServer, name: &str, more: &str) -> String {
    format!(
        "---\naid: {}\nname: {name}\ntype: assistant\nversion: 1.0.0\ndescription: Reviews code in Rust\n{more}---\n# {name}\n",
        server.aid(name)
    )
}

fn write(cli: &AgentCli, file: &str, text: &str) {
    fs::write(cli.folder.join(file), text).expect("a file can be written");
}

/// What a command prints, as soon as it contains this.
async fn printed_with(cli: &AgentCli, words: &[&str], wanted: &str) -> String {
    until(wanted, || async {
        let output = cli.output_of(words).await;
        Some(printed(&output.stdout)).filter(|text| text.contains(wanted))
    })
    .await
}

/// Waits until a command fails with a sentence that contains this.
async fn refused_with(cli: &AgentCli, words: &[&str], wanted: &str) -> String {
    until(wanted, || async {
        let output = cli.output_of(words).await;
        Some(printed(&output.stderr)).filter(|text| !output.status.success() && text.contains(wanted))
    })
    .await
}

#[tokio::test]
async fn what_is_published_is_found_shown_and_removed() {
    let server = TestServer::with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice", "bobb"]).await;
    write(&cli, "alice.md", &document(&server, "alice", "tags: [Coding, review]\n"));
    let said = cli.run(&["agents", "publish", "alice.md"]).await;
    let url = format!("published https://{}/agent.md\n", server.aid("alice"));
    assert_eq!(said, format!("{url}it will be listed: others find it with aund agents search\n"));
    assert_eq!(
        fs::read_to_string(cli.folder.join("alice.md")).unwrap(),
        document(&server, "alice", "tags: [Coding, review]\n")
    );
    let stored = server.http("GET", "/agent.md").host(&server.aid("alice")).send().await.text();
    assert!(stored.contains("<!-- AUN-SIGNATURE\ncert_fingerprint: sha256:"), "it is signed: {stored}");

    let search = ["agents", "search", "rust", "reviews", "--as", "bobb"];
    let found = printed_with(&cli, &search, "alice").await;
    let lines = format!(
        "1  alice  {}  signed\n   Reviews code in Rust\n   assistant: coding, review\n",
        server.aid("alice")
    );
    assert_eq!(found, lines);
    let by_tag = ["agents", "search", "--tag", "CODING", "--tag", "review", "--as", "bobb", "--json"];
    let by_tag: Value = serde_json::from_str(&cli.run(&by_tag).await).unwrap();
    assert_eq!(
        (&by_tag["items"][0]["aid"], &by_tag["items"][0]["signed"]),
        (&json!(server.aid("alice")), &json!(true))
    );
    for words in [&["rust", "--type", "human"][..], &["--tag", "cooking"], &["gardening"]] {
        let words = [&["agents", "search", "--as", "bobb"][..], words].concat();
        let output = cli.output_of(&words).await;
        assert_eq!(
            (printed(&output.stdout), printed(&output.stderr)),
            (String::new(), "no agents found\n".to_owned())
        );
        assert!(output.status.success());
    }
    let explained = cli.run(&["agents", "search", "alice", "--explain", "--as", "bobb"]).await;
    let sum = "= name 120 + its beginning 60 + words (covering 100 %) 2.59 + signed 2 + fresh ";
    assert!(explained.contains(sum), "{explained}");
    assert!(
        explained.contains("\n     alice 2.59: written 1 in name, body; 1 agent has it\n"),
        "{explained}"
    );
    let explained = cli.run(&["agents", "search", "审查 rusty", "--explain", "--as", "bobb"]).await;
    assert!(explained.contains("审查 1.04: ~ review 0.4 in tags, description"), "{explained}");
    assert!(explained.contains("rusty 0.43: spelling rust 0.5 in description"), "{explained}");

    // Any agent of this machine will do.
    assert_eq!(cli.run(&["agents", "search", "rust", "reviews"]).await, lines);
    assert!(cli.run(&["agents", "show", "alice"]).await.starts_with(&server.aid("alice")));
    let shown = cli.run(&["agents", "show", "alice", "--as", "bobb"]).await;
    assert!(shown.starts_with(&format!("{}  signed  20", server.aid("alice"))), "{shown}");
    assert!(
        shown.contains("\ndescription: Reviews code in Rust\n") && shown.ends_with("# alice\n"),
        "{shown}"
    );
    let show = ["agents", "show", &server.aid("alice"), "--as", "bobb", "--json"];
    let shown: Value = serde_json::from_str(&cli.run(&show).await).unwrap();
    assert_eq!(shown["agent_md"], stored);

    let removed = cli.run(&["agents", "unpublish", "alice"]).await;
    assert_eq!(removed, format!("removed agent.md of {}\n", server.aid("alice")));
    refused_with(&cli, &["agents", "show", "alice", "--as", "bobb"], "(-32161)").await;
    let again = cli.run_refused(&["agents", "unpublish", "alice"]).await;
    assert!(again.contains("DELETE /agent.md was refused") && again.contains("(404)"), "{again}");
}

#[tokio::test]
async fn what_is_not_listed_says_why() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice"]).await;
    write(&cli, "unlisted.md", &document(&server, "alice", "visibility: unlisted\n"));
    let said = cli.run(&["agents", "publish", "unlisted.md"]).await;
    assert!(said.contains("it will not be listed: its visibility is unlisted"), "{said}");
    let shown = printed_with(&cli, &["agents", "show", "alice"], "visibility: unlisted").await;
    assert!(shown.contains("signed"), "the only agent asks: {shown}");

    write(&cli, "short.md", &format!("---\naid: {}\nname: alice\ntype: agent\n---\n", server.aid("alice")));
    let said: Value =
        serde_json::from_str(&cli.run(&["agents", "publish", "short.md", "--json"]).await).unwrap();
    assert_eq!((&said["aid"], &said["listed"]), (&json!(server.aid("alice")), &json!(false)));
    let said = cli.run(&["agents", "publish", "short.md"]).await;
    assert!(said.ends_with("its front matter has no version and no description\n"), "{said}");
}

#[tokio::test]
async fn a_document_that_cannot_be_published_is_one_sentence() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice", "bobb"]).await;
    let refused = async |file: &str, text: &str| {
        write(&cli, file, text);
        cli.run_refused(&["agents", "publish", file]).await
    };
    let sentence = cli.run_refused(&["agents", "publish", "nothing.md"]).await;
    assert!(sentence.contains("nothing.md cannot be read"), "{sentence}");
    let sentence = refused("text.md", "# alice\n").await;
    assert!(sentence.contains("text.md cannot be published: front matter:"), "{sentence}");
    let sentence = refused("carol.md", &document(&server, "carol", "")).await;
    assert!(sentence.contains(&format!("aund register {}", cli.name("carol"))), "{sentence}");
    let secret = document(&server, "alice", "") + "password: correct-horse\n";
    let sentence = refused("secret.md", &secret).await;
    assert!(sentence.contains("secret.md cannot be published") && !sentence.contains("horse"), "{sentence}");

    // A signature of an older text, as a file has that was read back and changed.
    cli.run(&["agents", "publish", &path_of(&cli, "alice.md", &document(&server, "alice", ""))]).await;
    let stored = server.http("GET", "/agent.md").host(&server.aid("alice")).send().await.text();
    let sentence = refused("changed.md", &stored.replace("Rust", "Go")).await;
    assert!(sentence.contains("remove it, and publish signs the file again"), "{sentence}");
    write(&cli, "again.md", &stored);
    cli.run(&["agents", "publish", "again.md"]).await;

    let sentence = cli.run_refused(&["agents", "unpublish"]).await;
    assert!(sentence.contains("choose one with"), "{sentence}");
    for words in [
        &["agents"][..],
        &["agents", "search"],
        &["agents", "search", "x", "--limit", "0"],
        &["agents", "show"],
    ] {
        assert_eq!(cli.output_of(words).await.status.code(), Some(2), "{words:?}");
    }
}

/// The name of a file that was just written.
fn path_of(cli: &AgentCli, file: &str, text: &str) -> String {
    write(cli, file, text);
    file.to_owned()
}

#[tokio::test]
async fn a_document_is_written_over_only_as_its_writer_wants() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice"]).await;
    write(&cli, "one.md", &document(&server, "alice", ""));
    write(&cli, "two.md", &document(&server, "alice", "tags: [two]\n"));
    let publish = async |words: &[&str]| {
        let words = [&["agents", "publish"][..], words, &["--json"]].concat();
        let said: Value = serde_json::from_str(&cli.run(&words).await).unwrap();
        said["etag"].as_str().expect("an ETag").to_owned()
    };
    let first = publish(&["one.md", "--new"]).await;
    for (words, todo) in [
        (&["two.md", "--new"][..], "an agent.md already exists: publish without --new to replace it"),
        (&["two.md", "--if-match", "\"no such thing\""], "agent.md has changed: read it again"),
    ] {
        let sentence = cli.run_refused(&[&["agents", "publish"][..], words].concat()).await;
        assert!(sentence.contains("(412)") && sentence.contains(todo), "{sentence}");
    }
    let second = publish(&["two.md", "--if-match", &first]).await;
    assert_ne!(first, second);
    publish(&["one.md"]).await;
}

#[tokio::test]
async fn a_token_that_is_refused_is_replaced_before_publishing() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice"]).await;
    write(&cli, "alice.md", &document(&server, "alice", ""));
    cli.run(&["agents", "publish", "alice.md"]).await;
    let mut tokens = cli.tokens("alice");
    tokens["access_token"] = json!("not-a-token");
    cli.set_tokens("alice", &tokens);
    cli.run(&["agents", "publish", "alice.md"]).await;
    assert_ne!(cli.tokens("alice"), tokens);
}

#[tokio::test]
async fn nobody_writes_to_the_terminal_of_whoever_searches() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice"]).await;
    let text = document(&server, "alice", "").replace("name: alice", "name: \"Bank\\n9  \\e[2JBank\"");
    write(&cli, "alice.md", &text);
    cli.run(&["agents", "publish", "alice.md"]).await;
    let found = printed_with(&cli, &["agents", "search", "bank"], "Bank").await;
    assert!(!found.contains('\u{1b}') && found.starts_with("1  Bank 9 \\u001b[2JBank  "), "{found}");
    let shown = cli.run(&["agents", "show", "alice"]).await;
    assert!(!shown.contains('\u{1b}'), "{shown}");
}

#[tokio::test]
async fn the_operator_sees_the_index_and_has_it_built_again() {
    let server = TestServer::with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice"]).await;
    write(&cli, "alice.md", &document(&server, "alice", ""));
    cli.run(&["agents", "publish", "alice.md"]).await;
    printed_with(&cli, &["agents", "search", "alice"], "alice").await;
    let data = server.data_of("search").display().to_string();
    let index = |more: &[&str]| {
        let output = aund(&[&["agents", "index", "--data", &data][..], more].concat(), &server.beside(""));
        assert!(output.status.success(), "{}", printed(&output.stderr));
        printed(&output.stdout)
    };
    assert!(index(&[]).starts_with("agents     1 listed\n"), "{}", index(&[]));
    assert!(index(&["--rebuild"]).starts_with("the index is being rebuilt\n"));
    let level = || async {
        let status: Value = serde_json::from_str(&index(&["--json"])).expect("JSON");
        let done = status["index"]["rebuilding"] == false && status["index"]["documents"] == 1;
        done.then_some(())
    };
    until("the index is complete", level).await;
    printed_with(&cli, &["agents", "search", "alice"], "alice").await;
}

#[tokio::test]
async fn a_program_publishes_with_its_session() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let home = tempfile::tempdir().unwrap();
    let gateway = format!("{}:{}", server.host(), server.tls_port);
    let builder = Client::builder(&server.aid("alice")).gateway(&gateway).home(home.path());
    soon(builder.register()).await.expect("the name is free");
    let alice = soon(builder.connect()).await.expect("a registered agent can connect");
    let document = document(&server, "alice", "");
    let published = soon(alice.publish_agent_md(&document)).await.expect("it is published");
    assert_eq!(published.agent_md_url, format!("https://{}/agent.md", server.aid("alice")));
    let wanted = search::GetAgent { aid: alice.aid().clone() };
    let found =
        until("the document is in the directory", || async { alice.request(&wanted).await.ok() }).await;
    assert!(found.signed && found.etag == published.etag, "{found:?}");

    let agent = Home::new(home.path()).agent(alice.aid()).unwrap().expect("its key is kept");
    let root = TrustedRoot::read(&server.data().join("pki/root.crt")).unwrap();
    let gateway: GatewayUrl = gateway.parse().unwrap();
    let dialer = GatewayDialer::new(gateway, &root).unwrap().of_issuer(agent.aid.issuer());
    let absent = PublishCondition::IfAbsent;
    let refused = soon(publish_agent_md(&dialer, &agent, &document, &absent)).await;
    let Err(Error::HttpRefused { status: 412, .. }) = refused else { panic!("{refused:?}") };

    soon(alice.unpublish_agent_md()).await.expect("it is removed");
    until("it is gone", || async { alice.request(&wanted).await.is_err().then_some(()) }).await;
}

async fn soon<F: Future>(work: F) -> F::Output {
    within("an answer", work).await
}
