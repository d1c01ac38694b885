//! The back end `codex-stdio` with the real Codex, whose model is on loopback. `tests/run` installs it and names it in `AUND_TEST_CODEX`.
//! Where it cannot be installed these tests are ignored, and the report says so.

use std::fs;
use std::path::{Path, PathBuf};

use ::runner::{
    BackEnd as _, BackEndEvent, BackEndProgram, CodexFiles, CodexStdio, PastTurn, TurnEnd, TurnImage,
    TurnRequest,
};
use proto_schemas::requests::run::ExecutionPolicy;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::local::{self, LocalRun};
use super::model::StubModel;
use super::process::{RunnerProcess, RunnerWords, WorkedRun, payloads, said_in};
use crate::runs::client::{TestManager, assert_contiguous};
use crate::support::agent::text;
use crate::support::wait::within;
use crate::support::{setting, split, until};

/// The key is in a variable.
const KEY_IN_VARIABLE: &str = "env_key = \"PROVIDER_API_KEY\"";
/// The key is in `auth.json`.
const KEY_IN_FILE: &str = "requires_openai_auth = true";
const KEY: &str = "sk-the-key-of-the-model";
/// Red, two pixels wide and high.
const IMAGE: &str = "89504e470d0a1a0a0000000d4948445200000002000000020802000000fdd49a730000001049444154789c63f8cfc000440c100a00\
                     1fee03fd8b5f14d40000000049454e44ae426082";

/// A model, and the storage of a session.
struct TestCodex {
    model: StubModel,
    storage: TempDir,
}

impl TestCodex {
    async fn start() -> TestCodex {
        // Below the temporary folder of the system Codex makes no programs for its sandbox.
        let storage = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        TestCodex { model: StubModel::start().await, storage }
    }

    fn program() -> PathBuf {
        setting("AUND_TEST_CODEX").expect("AUND_TEST_CODEX says where codex is").into()
    }

    fn home(&self) -> PathBuf {
        self.storage.path().join("session/codex")
    }

    /// A runner with Codex, which has this line in its configuration.
    fn words(&self, credential: &str, more: &[&str]) -> RunnerWords {
        let (storage, config) = (self.storage.path().join("session"), self.storage.path().join("config"));
        fs::write(&config, self.model.config(credential)).expect("a file can be written");
        let mut how = RunnerWords::of(&["--backend", "codex-stdio", "--profile", "codex", "--storage"]);
        how.words.extend([
            storage.display().to_string(),
            "--config-file".to_owned(),
            config.display().to_string(),
        ]);
        how.words.extend(more.iter().map(|word| (*word).to_owned()));
        how.program = vec![TestCodex::program().display().to_string(), "app-server".to_owned()];
        how
    }

    fn with_key(&self, more: &[&str]) -> RunnerWords {
        RunnerWords { credential: Some(KEY.to_owned()), ..self.words(KEY_IN_VARIABLE, more) }
    }

    /// Waits until no Codex of this session runs.
    async fn is_gone(&self) {
        let home = self.home().display().to_string();
        let gone = || std::future::ready((!runs_with(&home)).then_some(()));
        until("codex is gone", gone).await;
    }
}

/// Whether a process has this in its environment.
fn runs_with(words: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("there are processes").flatten();
    processes.map(|process| fs::read(process.path().join("environ"))).any(|environment| {
        environment.is_ok_and(|environment| String::from_utf8_lossy(&environment).contains(words))
    })
}

/// `executionPolicy` with this word for `approval`.
fn asking(approval: &str) -> impl FnOnce(&mut Value) {
    let policy = json!({ "approval": approval });
    move |run| run["executionPolicy"] = policy
}

#[tokio::test]
#[ignore = "needs codex"]
async fn codex_works_on_the_turns_of_a_run_and_leaves_nothing_behind() {
    let manager = TestManager::shared().await;
    let codex = TestCodex::start().await;
    let credential = codex.storage.path().join("credential");
    fs::write(&credential, KEY).expect("a file can be written");
    let credential = credential.display().to_string();
    let how = codex.words(KEY_IN_FILE, &["--idle-timeout-ms", "2000", "--credential-file", &credential]);
    let mut work = WorkedRun::begin(&manager, "hello", &how).await;
    let result = work.completed(&work.command).await;
    assert_eq!(result["reply"], "You said: hello");
    assert_eq!(result["finalResponse"]["source"], "authoritative");
    assert_eq!(work.turn("and again").await["reply"], "You said: and again");
    assert_eq!(work.turn("/key").await["reply"], "Bearer [redacted]");
    let ran = work.turn("/run echo out; echo done > made; exit 3").await;
    assert_eq!(ran["reply"], "The tool has ended");
    assert!(work.runner.file("made").exists());
    assert!(work.runner.ended().await.success(), "{}", work.runner.log());

    let events = work.events().await;
    assert_contiguous(&events);
    let phases: Vec<&str> =
        payloads(&events, "backend_status").iter().filter_map(|one| one["phase"].as_str()).collect();
    assert_eq!(phases, ["thread-started", "turn-started", "turn-started", "turn-started", "turn-started"]);
    let tools = payloads(&events, "tool_call");
    assert_eq!((&tools[0]["status"], &tools[0]["toolName"]), (&json!("started"), &json!("commandExecution")));
    assert!(tools[0]["command"].as_str().is_some_and(|command| command.contains("echo out")), "{tools:?}");
    assert_eq!((&tools[1]["status"], &tools[1]["exitCode"]), (&json!("failed"), &json!(3)));
    assert_eq!(payloads(&events, "command_output")[0]["text"], "out\n");

    let asked = codex.model.asked();
    assert!(asked.iter().all(|request| request.authorization == format!("Bearer {KEY}")));
    assert!(asked[1].texts.contains(&"hello".to_owned()), "the thread goes on");
    codex.is_gone().await;
    for file in ["auth.json", "config.toml"] {
        assert!(!codex.home().join(file).exists(), "{file}");
    }
    assert!(!format!("{events:?} {}", work.runner.log()).contains(KEY));
}

#[tokio::test]
#[ignore = "needs codex"]
async fn guidance_and_interrupts_reach_codex() {
    let manager = TestManager::shared().await;
    let codex = TestCodex::start().await;
    let work = WorkedRun::begin(&manager, "/slow", &codex.with_key(&[])).await;
    work.said("word2 ").await;
    let steer = work.submit("steer", json!({ "prompt": "to the left" })).await;
    assert_eq!(work.outcome(&steer).await.0, "completed");
    assert_eq!(work.completed(&work.command).await["reply"], "You said: to the left");
    let delivery = work.back_end.result(&work.run, &steer).await["steerDelivery"].clone();
    assert_eq!(delivery["backendAccepted"], json!(true));
    let late = work.submit("steer", json!({ "prompt": "to the right" })).await;
    assert_eq!(work.outcome(&late).await.0, "blocked");

    let slow = work.back_end.turn(&work.run, "/slow").await;
    let before = payloads(&work.events().await, "assistant_message").len();
    let more =
        || async { (payloads(&work.events().await, "assistant_message").len() > before + 1).then_some(()) };
    until("it says something", more).await;
    let interrupt = work.submit("interrupt", json!({})).await;
    assert_eq!(work.outcome(&interrupt).await.0, "completed");
    assert_eq!(work.outcome(&slow).await, ("failed".to_owned(), "cancelled".to_owned()));

    let slow = work.back_end.turn(&work.run, "/slow").await;
    work.back_end.api.ok("POST", &format!("/commands/{slow}/cancel"), &json!({}), 200).await;
    assert_eq!(work.outcome(&slow).await, ("cancelled".to_owned(), "cancelled".to_owned()));
    assert_eq!(work.turn("go on").await["reply"], "You said: go on");
}

#[tokio::test]
#[ignore = "needs codex"]
async fn each_decision_on_a_command_does_what_it_says() {
    let manager = TestManager::shared().await;
    let codex = TestCodex::start().await;
    let work =
        WorkedRun::begin_with(&manager, "/run touch one", &codex.with_key(&[]), asking("untrusted")).await;
    let answer = async |decision: &str| {
        let path = format!("/runs/{}/approvals/{}", work.run, work.question().await);
        work.back_end.api.ok("POST", &path, &json!({ "decision": decision }), 200).await;
    };
    answer("accept").await;
    work.completed(&work.command).await;
    assert!(work.runner.file("one").exists());

    let declined = work.back_end.turn(&work.run, "/run touch two").await;
    answer("decline").await;
    work.completed(&declined).await;
    let cancelled = work.back_end.turn(&work.run, "/run touch three").await;
    answer("cancel").await;
    assert_eq!(work.outcome(&cancelled).await, ("cancelled".to_owned(), "cancelled".to_owned()));
    assert_eq!(work.turn("go on").await["reply"], "You said: go on");
    assert!(!work.runner.file("two").exists() && !work.runner.file("three").exists());

    let events = work.events().await;
    let asked = payloads(&events, "approval_request");
    assert_eq!(asked.len(), 3);
    assert_eq!(asked[0]["reason"], "commandExecution");
    assert!(asked[0]["message"].as_str().is_some_and(|message| message.contains("touch one")), "{asked:?}");
    assert_eq!(asked[0]["options"], json!(["accept", "decline", "cancel"]));
    let ends: Vec<&Value> = payloads(&events, "tool_call").iter().map(|tool| &tool["status"]).collect();
    assert_eq!(ends[..4], ["started", "completed", "started", "failed"]);
}

#[tokio::test]
#[ignore = "needs codex"]
async fn each_failure_of_the_provider_has_its_kind() {
    let manager = TestManager::shared().await;
    let codex = TestCodex::start().await;
    let work = WorkedRun::begin(&manager, "/status 401", &codex.with_key(&[])).await;
    let failed = |kind: &str| ("failed".to_owned(), kind.to_owned());
    assert_eq!(work.outcome(&work.command).await, failed("provider-auth-failed"));
    for (text, kind) in [
        ("/status 403", "provider-auth-failed"),
        ("/status 429", "provider-unavailable"),
        ("/status 500", "provider-unavailable"),
        ("/status 400", "backend-failed"),
        ("/context", "backend-failed"),
    ] {
        let command = work.back_end.turn(&work.run, text).await;
        assert_eq!(work.outcome(&command).await, failed(kind), "{text}");
    }
    assert_eq!(work.turn("go on").await["reply"], "You said: go on");
    let events = work.events().await;
    assert_eq!(payloads(&events, "error").len(), 6);
}

#[tokio::test]
#[ignore = "needs codex"]
async fn a_codex_that_cannot_work_says_why() {
    let manager = TestManager::shared().await;
    let codex = TestCodex::start().await;
    let failed = |kind: &str| ("failed".to_owned(), kind.to_owned());
    let without_key = codex.words(KEY_IN_VARIABLE, &[]);
    let work = WorkedRun::begin(&manager, "hello", &without_key).await;
    assert_eq!(work.outcome(&work.command).await, failed("secret-unavailable"));

    let mut without_program = codex.with_key(&[]);
    without_program.program = vec!["/no/such/codex".to_owned()];
    let work = WorkedRun::begin(&manager, "hello", &without_program).await;
    assert_eq!(work.outcome(&work.command).await, failed("backend-failed"));
    let ended = work.ended(&work.command).await;
    assert!(ended["failureMessage"].as_str().is_some_and(|why| why.contains("cannot be started")), "{ended}");
}

#[tokio::test]
#[ignore = "needs codex"]
async fn a_provider_that_cannot_be_reached_is_not_waited_for() {
    let manager = TestManager::shared().await;
    let mut codex = TestCodex::start().await;
    // Nobody listens on it.
    codex.model.port = 1;
    let work = WorkedRun::begin(&manager, "hello", &codex.with_key(&[])).await;
    let error = || async { (!payloads(&work.events().await, "error").is_empty()).then_some(()) };
    for _ in 0..2 {
        let _ =
            tokio::time::timeout(std::time::Duration::from_secs(19), until("it is given up", error)).await;
    }
    assert_eq!(work.outcome(&work.command).await, ("failed".to_owned(), "provider-unavailable".to_owned()));
    let ended = work.ended(&work.command).await;
    assert!(ended["failureMessage"].as_str().is_some_and(|why| why.contains("cannot be reached")), "{ended}");
}

#[tokio::test]
#[ignore = "needs codex"]
async fn a_replacement_continues_the_thread_and_runs_no_turn_twice() {
    let manager = TestManager::shared().await;
    let codex = TestCodex::start().await;
    let how = codex.with_key(&["--lease-ms", "5000"]);
    let mut work = WorkedRun::begin(&manager, "hello", &how).await;
    work.completed(&work.command).await;
    let slow = work.back_end.turn(&work.run, "/slow").await;
    work.said("word2 ").await;
    work.runner.kill();
    codex.is_gone().await;
    let job = work.next_job(&slow).await;
    let _replacement = RunnerProcess::start(&manager.server, &job, &how);
    assert_eq!(work.outcome(&slow).await, ("failed".to_owned(), "backend-failed".to_owned()));
    let why = work.ended(&slow).await["failureMessage"].clone();
    assert_eq!(why, "the runner died, and codex says that the turn is interrupted");
    assert_eq!(work.turn("go on").await["reply"], "You said: go on");
    let asked = codex.model.asked();
    assert_eq!(asked.len(), 3, "no turn was run twice");
    assert!(asked[2].texts.contains(&"hello".to_owned()), "the thread goes on");
    assert_contiguous(&work.events().await);
}

#[tokio::test]
#[ignore = "needs codex"]
async fn a_thread_whose_file_is_gone_is_evicted() {
    let manager = TestManager::shared().await;
    let codex = TestCodex::start().await;
    let how = codex.with_key(&["--idle-timeout-ms", "1000"]);
    let mut work = WorkedRun::begin(&manager, "hello", &how).await;
    work.completed(&work.command).await;
    assert!(work.runner.ended().await.success(), "{}", work.runner.log());
    fs::remove_dir_all(codex.home().join("sessions")).expect("codex keeps its threads there");
    let next = work.back_end.turn(&work.run, "go on").await;
    let job = work.next_job(&next).await;
    let _replacement = RunnerProcess::start(&manager.server, &job, &how);
    assert_eq!(work.outcome(&next).await, ("failed".to_owned(), "session-store-evicted".to_owned()));
}

/// A back end alone, with a workspace below the storage.
fn back_end(codex: &TestCodex) -> CodexStdio {
    let workspace = codex.storage.path().join("workspace");
    fs::create_dir_all(&workspace).expect("a folder can be made");
    let program = BackEndProgram {
        program: TestCodex::program(),
        arguments: vec!["app-server".to_owned()],
        workspace,
        environment: vec![
            ("PATH".into(), "/usr/bin:/bin".into()),
            ("HOME".into(), codex.storage.path().into()),
            ("PROVIDER_API_KEY".into(), KEY.into()),
        ],
    };
    let files = CodexFiles {
        storage: codex.storage.path().join("session"),
        credential: None,
        config: Some(codex.model.config(KEY_IN_VARIABLE)),
    };
    CodexStdio::new(program, files, &ExecutionPolicy::default(), None)
}

async fn end(back_end: &mut CodexStdio) -> TurnEnd {
    loop {
        if let BackEndEvent::Ended(end) = within("an event", back_end.next()).await {
            return end;
        }
    }
}

fn image(folder: &Path) -> PathBuf {
    let file = folder.join("image.png");
    fs::write(&file, hex::decode(IMAGE).expect("it is hexadecimal")).expect("a file can be written");
    file
}

#[tokio::test]
#[ignore = "needs codex"]
async fn codex_sees_images_and_knows_its_past_turns() {
    let codex = TestCodex::start().await;
    let mut first = back_end(&codex);
    let path = image(codex.storage.path());
    let turn = TurnRequest {
        command_id: "cmd_1".to_owned(),
        text: "what is it?".to_owned(),
        images: vec![TurnImage { path, mime_type: "image/png".to_owned() }],
        ..TurnRequest::default()
    };
    first.begin(turn).await.expect("it is started");
    assert_eq!(end(&mut first).await, TurnEnd::completed());
    assert_eq!(codex.model.asked()[0].images, 1);
    first.stop().await;
    codex.is_gone().await;

    // As after a runner that died before it could say that the turn has ended.
    let mut second = back_end(&codex);
    let reply = Some("You said: what is it?".to_owned());
    assert_eq!(second.past_turn("cmd_1").await, PastTurn::Completed { reply });
    assert!(matches!(second.past_turn("cmd_2").await, PastTurn::NotProven { .. }));
    assert_eq!(second.session_state(), first.session_state());
    second.stop().await;
    codex.is_gone().await;
}

#[tokio::test]
#[ignore = "needs codex"]
async fn the_server_runs_codex_and_its_thread_outlives_runner_and_server() {
    let codex = TestCodex::start().await;
    let program = TestCodex::program().display().to_string();
    let mut manager =
        local::server(&format!("run.profiles.codex.program = [\"{program}\", \"app-server\"]\n"));
    let admin = manager.admin().await;
    let credential = json!({ "apiKey": KEY, "configToml": codex.model.config(KEY_IN_FILE) });
    admin.ok("PUT", "/provider-profiles/codex/credential", &credential, 200).await;
    let back_end = manager.back_end_of("l0").await;
    let new = json!({ "tenantId": "l0", "projectId": "acme/site", "backendProfile": "codex" });
    let session = text(&back_end.api.ok("POST", "/sessions", &new, 201).await["sessionId"]);
    let mut work = LocalRun::begin_with(&manager, "hello", |run| {
        run["backendProfile"] = json!("codex");
        run["sessionRef"] = json!({ "sessionId": session });
    })
    .await;
    assert_eq!(work.reply().await, "You said: hello");
    work.job_in("succeeded").await;
    // Its own sandbox works in that of the server.
    work.command = back_end.turn(&work.run, "/run echo done > made").await;
    work.replaced().await;
    assert_eq!(work.reply().await, "The tool has ended");
    let workspace = local::storage_of(&manager, &session).join("workspace");
    assert_eq!(fs::read_to_string(workspace.join("made")).unwrap_or_default(), "done\n");
    work.job_in("succeeded").await;

    // First the runner is killed, then both.
    for dies_with_its_server in [false, true] {
        let before = said_in(&work.events().await).matches("word2 ").count();
        work.command = back_end.turn(&work.run, "/slow").await;
        work.replaced().await;
        let begun =
            || async { (said_in(&work.events().await).matches("word2 ").count() > before).then_some(()) };
        until("the turn is under way", begun).await;
        let killed = work.job.clone();
        if dies_with_its_server && !split() {
            manager.server.kill();
        }
        local::signal(work.pid(), "KILL");
        if dies_with_its_server && !split() {
            manager.server.start_again();
        }
        local::nothing_is_left(&manager, &killed).await;
        let (data, secrets) = (manager.server.data(), manager.server.data().join("secrets"));
        let left = local::files_with(&data, KEY);
        assert!(left.iter().all(|file| file.starts_with(&secrets)), "{left:?}");
        // What was not used meanwhile may be closed, and the server has other ports after its start.
        manager.dial_again();
        work.replaced().await;
        assert_eq!(work.ended().await["failureKind"], "backend-failed", "a turn is never run twice");
        work.command = back_end.turn(&work.run, "and again").await;
        assert_eq!(work.reply().await, "You said: and again");
        work.job_in("succeeded").await;
        let asked = codex.model.asked();
        let last = asked.last().expect("it was asked");
        assert!(last.texts.contains(&"hello".to_owned()), "the thread goes on: {:?}", last.texts);
    }
    work.cancel().await;
    local::nothing_is_left(&manager, &work.job).await;
    assert_eq!(
        codex.model.asked().iter().filter(|one| one.texts.last().is_some_and(|text| text == "/slow")).count(),
        2
    );
    let folder = manager.server.data();
    let left = local::files_with(&folder, KEY);
    assert!(left.iter().all(|file| file.starts_with(folder.join("secrets"))), "{left:?}");
    assert!(!format!("{:?}", work.events().await).contains(KEY));
}
