//! What a person types to be an agent, and what they see.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use certs::dev::Pki;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStderr, Command};
use tokio_util::task::TaskTracker;

use crate::world::agent::aid;
use crate::world::{ISSUER, World, now, printed, until, within};

/// A person at a server, with agents in a folder of their own.
struct Person<'a> {
    world: &'a World,
    home: PathBuf,
    /// Where the commands are typed.
    folder: PathBuf,
    gateway: String,
}

/// A command that goes on.
struct Running {
    child: Child,
    notes: Lines<BufReader<ChildStderr>>,
}

impl<'a> Person<'a> {
    /// Beside the server's data, where nothing else need be said.
    fn new(world: &'a World) -> Person<'a> {
        let gateway = format!("127.0.0.1:{}", world.tls_port);
        Person { world, home: world.beside("home"), folder: world.beside(""), gateway }
    }

    /// With agents of these names.
    async fn with(world: &'a World, names: &[&str]) -> Person<'a> {
        let person = Person::new(world);
        for name in names {
            person.does(&["register", name]).await;
        }
        person
    }

    async fn types(&self, words: &[&str]) -> Output {
        within("a command", self.command(words).output()).await.expect("aund can be started")
    }

    /// What a command printed, which must succeed.
    async fn does(&self, words: &[&str]) -> String {
        let output = self.types(words).await;
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", printed(&output.stderr));
        printed(&output.stdout)
    }

    /// The sentence of a command, which must fail.
    async fn fails(&self, words: &[&str]) -> String {
        let output = self.types(words).await;
        assert_eq!(output.status.code(), Some(1), "{words:?}: {}", printed(&output.stdout));
        assert!(output.stdout.is_empty(), "{words:?}: {}", printed(&output.stdout));
        let sentence = printed(&output.stderr);
        assert!(sentence.starts_with("aund: ") && sentence.trim().lines().count() == 1, "{sentence}");
        sentence
    }

    /// A listener that is ready.
    async fn listens(&self, words: &[&str]) -> Running {
        let mut child = self.command(words).stderr(Stdio::piped()).spawn().expect("aund can be started");
        let notes = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut running = Running { child, notes };
        running.note("is listening").await;
        running
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aund"));
        command.args(words).args(["--gateway", &self.gateway]).arg("--home").arg(&self.home);
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        command
    }

    fn agent(&self, name: &str) -> PathBuf {
        self.home.join("agents").join(aid(name))
    }

    fn tokens(&self, name: &str) -> Value {
        let text = fs::read_to_string(self.agent(name).join("tokens.json")).expect("tokens are kept");
        serde_json::from_str(&text).expect("tokens are JSON")
    }

    fn set_tokens(&self, name: &str, tokens: &Value) {
        fs::write(self.agent(name).join("tokens.json"), tokens.to_string()).expect("a file can be written");
    }
}

impl Running {
    /// Waits for a line beside the output.
    async fn note(&mut self, word: &str) -> String {
        loop {
            let line = within(word, self.notes.next_line()).await.expect("it can be read");
            let line = line.unwrap_or_else(|| panic!("the listener ended before it said {word:?}"));
            if line.contains(word) {
                return line;
            }
        }
    }

    /// Waits for its end, and gives its code and what it printed.
    async fn ended(mut self) -> (Option<i32>, Vec<String>) {
        let mut text = String::new();
        let mut stdout = self.child.stdout.take().expect("a pipe");
        within("the output", stdout.read_to_string(&mut text)).await.expect("it is text");
        let status = within("the end", self.child.wait()).await.expect("it is our child");
        (status.code(), text.lines().map(str::to_owned).collect())
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

fn texts(lines: &[String]) -> Vec<Value> {
    let frames = lines.iter().map(|line| serde_json::from_str::<Value>(line).expect("a line is a frame"));
    frames.map(|frame| frame["params"]["payload"]["text"].clone()).collect()
}

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
async fn a_message_reaches_whoever_listens() {
    let world = World::start().await;
    let person = Person::with(&world, &["alice", "bobb"]).await;
    let bobb = person.listens(&["listen", "bobb", "--count", "2", "--json"]).await;
    let sent = person.does(&["send", "alice", "bobb", "hello"]).await;
    assert!(sent.starts_with(&format!("delivered to {} as #1", aid("bobb"))), "{sent}");
    let sent = person.does(&["send", "alice", &aid("bobb"), "again", "--json"]).await;
    let sent: Value = serde_json::from_str(&sent).unwrap();
    assert_eq!((&sent["status"], &sent["seq"]), (&json!("delivered"), &json!(2)));

    let (code, lines) = bobb.ended().await;
    assert_eq!(code, Some(0));
    assert_eq!(texts(&lines), ["hello", "again"]);
    let frame: Value = serde_json::from_str(&lines[1]).unwrap();
    assert_eq!(frame["params"]["message_id"], sent["message_id"]);
    assert_eq!(person.does(&["pull", "bobb"]).await, "", "what was shown is acknowledged");
}

#[tokio::test]
async fn what_waited_is_shown_before_what_comes() {
    let world = World::start().await;
    let person = Person::with(&world, &["alice", "bobb"]).await;
    for text in ["one", "two", "three"] {
        person.does(&["send", "alice", "bobb", text]).await;
    }
    let shown = person.does(&["listen", "bobb", "--count", "2", "--json"]).await;
    let lines: Vec<String> = shown.lines().map(str::to_owned).collect();
    assert_eq!(texts(&lines), ["one", "two"]);

    let bobb = person.listens(&["listen", "bobb", "--count", "2"]).await;
    person.does(&["send", "alice", "bobb", "four"]).await;
    let (code, lines) = bobb.ended().await;
    assert_eq!(code, Some(0));
    assert!(lines[0].ends_with("three") && lines[1].ends_with("four"), "{lines:?}");
    assert!(lines[1].contains(&format!("#4 {} → {}", aid("alice"), aid("bobb"))), "{lines:?}");
}

#[tokio::test]
async fn mail_is_pulled_until_it_is_acknowledged() {
    let world = World::start().await;
    let person = Person::with(&world, &["alice", "bobb"]).await;
    let sent = person.does(&["send", "alice", "bobb", "first"]).await;
    assert!(sent.starts_with("sent to"), "nobody listens: {sent}");
    person.does(&["send", "alice", "bobb", "\u{1b}[2Jsecond"]).await;

    for _ in 0..2 {
        let shown = person.does(&["pull", "bobb"]).await;
        assert!(shown.contains("first") && shown.contains("\\u{1b}[2Jsecond"), "{shown}");
        assert!(!shown.contains('\u{1b}'), "nobody else writes to the terminal");
    }
    assert_eq!(person.does(&["pull", "bobb", "--limit", "1", "--ack"]).await.lines().count(), 1);
    let rest: Value = serde_json::from_str(&person.does(&["pull", "bobb", "--ack", "--json"]).await).unwrap();
    assert_eq!((&rest["count"], &rest["messages"][0]["seq"]), (&json!(1), &json!(2)));
    assert_eq!(person.does(&["pull", "bobb"]).await, "");
    assert_eq!(person.does(&["pull", "bobb", "--after", "0"]).await.lines().count(), 2);
}

#[tokio::test]
async fn a_message_can_come_from_standard_input() {
    let world = World::start().await;
    let person = Person::with(&world, &["alice", "bobb"]).await;
    let mut send = person.command(&["send", "alice", "bobb", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = send.stdin.take().expect("a pipe");
    stdin.write_all("two\nlines\n".as_bytes()).await.unwrap();
    drop(stdin);
    assert!(within("a command", send.wait()).await.unwrap().success());
    let page: Value = serde_json::from_str(&person.does(&["pull", "bobb", "--json"]).await).unwrap();
    assert_eq!(page["messages"][0]["payload"], json!({ "type": "text", "text": "two\nlines" }));
}

#[tokio::test]
async fn a_listener_ends_well_when_it_is_interrupted() {
    let world = World::start().await;
    let person = Person::with(&world, &["bobb"]).await;
    let bobb = person.listens(&["listen", "bobb"]).await;
    let pid = bobb.child.id().expect("it runs").to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().await.unwrap().success());
    assert_eq!(bobb.ended().await, (Some(0), vec![]));
}

#[tokio::test]
async fn a_listener_comes_back_when_the_server_does() {
    let mut world = World::start().await;
    let upstream = Arc::new(AtomicU16::new(world.tls_port));
    let gateway = forward(upstream.clone()).await;
    let person = Person { gateway: gateway.clone(), ..Person::with(&world, &["alice", "bobb"]).await };
    let mut bobb = person.listens(&["listen", "bobb", "--count", "2", "--json"]).await;
    person.does(&["send", "alice", "bobb", "before"]).await;

    world.restart().await;
    upstream.store(world.tls_port, Ordering::Relaxed);
    bobb.note("trying again").await;
    bobb.note("is listening").await;
    let person = Person { gateway, ..Person::new(&world) };
    person.does(&["send", "alice", "bobb", "after"]).await;
    let (code, lines) = bobb.ended().await;
    assert_eq!((code, texts(&lines)), (Some(0), vec![json!("before"), json!("after")]));
}

/// An address that stays while the server behind it moves.
async fn forward(upstream: Arc<AtomicU16>) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let tasks = TaskTracker::new();
    tasks.clone().spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let port = upstream.load(Ordering::Relaxed);
            tasks.spawn(async move {
                let Ok(mut far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return };
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    address.to_string()
}

#[tokio::test]
async fn a_second_listener_takes_the_place_of_the_first() {
    let world = World::start().await;
    let person = Person::with(&world, &["bobb"]).await;
    let first = person.listens(&["listen", "bobb"]).await;
    let _second = person.listens(&["listen", "bobb"]).await;
    let (code, lines) = first.ended().await;
    assert_eq!(code, Some(1), "it does not come back to push the other out");
    assert!(lines[0].contains("4009"), "{lines:?}");
}

#[tokio::test]
async fn any_method_can_be_called_and_a_refusal_ends_with_1() {
    let world = World::start().await;
    let person = Person::with(&world, &["alice"]).await;
    let pong: Value = serde_json::from_str(&person.does(&["call", "alice", "meta.ping"]).await).unwrap();
    assert_eq!(pong["pong"], true);
    let sentence = person.fails(&["call", "alice", "meta.dance", "{}"]).await;
    assert!(sentence.contains("meta.dance") && sentence.contains("-32601"), "{sentence}");
    let sentence = person.fails(&["call", "alice", "meta.dance", "--json"]).await;
    let error: Value = serde_json::from_str(sentence.trim_start_matches("aund: ")).unwrap();
    assert_eq!(error["code"], -32601);
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
    assert!(sentence.contains("does not vouch") && sentence.contains("other.crt"), "{sentence}");
    assert!(!person.home.exists(), "nothing was made for a server like that");

    person.does(&["register", "alice"]).await;
    let sentence = person.fails(&["call", "alice", "meta.ping", "--root", "other.crt"]).await;
    assert!(sentence.contains("does not vouch"), "{sentence}");
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
    assert!(sentence.contains("does not vouch") && sentence.contains("remove"), "{sentence}");
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

#[tokio::test]
async fn the_demo_runs_to_its_end_with_a_server_of_its_own_and_leaves_nothing() {
    let here = tempfile::tempdir().unwrap();
    let mut demo = Command::new(env!("CARGO_BIN_EXE_aund"));
    demo.args(["demo", "--gateway", "127.0.0.1:1"]).env("TMPDIR", here.path()).current_dir(here.path());
    let output = within("the demo", demo.kill_on_drop(true).output()).await.unwrap();
    let shown = printed(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}\n{}", printed(&output.stderr));
    assert!(shown.contains("one of its own"), "{shown}");
    tells_the_story(&shown);
    let left = || async { (fs::read_dir(here.path()).unwrap().count() == 0).then_some(()) };
    until("the demo's folder is gone", left).await;
}

#[tokio::test]
async fn the_demo_uses_a_server_that_is_there() {
    let world = World::start().await;
    let person = Person::new(&world);
    let shown = person.does(&["demo"]).await;
    assert!(shown.contains(&format!("the gateway at {}", person.gateway)), "{shown}");
    tells_the_story(&shown);
    assert!(!person.home.exists(), "its agents live elsewhere");
}

fn tells_the_story(shown: &str) {
    let mut rest = shown;
    for (picture, what) in [
        ("alice ──▶ gateway", "auth.create_aid"),
        ("gateway ◀── bobb", "auth.connect"),
        ("alice ──▶ gateway", "message.query_online"),
        ("alice ──▶ gateway", "message.send"),
        ("gateway ◀── bobb", "message.ack"),
        ("gateway ◀── bobb", "message.send"),
        ("alice ──▶ gateway", "message.recall "),
        ("gateway ◀── bobb", "message.pull"),
    ] {
        let found = rest.lines().find(|line| line.contains(picture) && line.contains(what));
        let line = found.unwrap_or_else(|| panic!("{picture} {what} is not where it should be in\n{shown}"));
        rest = &rest[rest.find(line).expect("it is a line of it")..];
    }
    for event in ["event/message.received", "event/message.ack", "event/message.recalled"] {
        assert!(shown.contains(event), "{event} in\n{shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 120) && !shown.contains('\u{1b}'), "{shown}");
    assert!(shown.contains("messages between two agents"), "{shown}");
}
