//! Codex as small shell scripts: broken ones, and ones that die. What the real one does is in `tests/runner/codex`.

use super::*;
use crate::back_end::{TurnEnd, TurnStatus};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const WITHIN: Duration = Duration::from_secs(20);

/// Codex up to the turn `u` of the thread `t`.
const BEGUN: &str = r#"say() { printf '%s\n' "$1"; }
    read initialize; say '{"id":1,"result":{}}'; read initialized
    read thread; say '{"id":2,"result":{"thread":{"id":"t"}}}'
    read turn; say '{"id":3,"result":{"turn":{"id":"u"}}}'
    "#;
const COMPLETED: &str =
    r#"say '{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"completed"}}}'"#;

/// A back end whose storage ends with the test.
struct ScriptedCodex {
    back_end: CodexStdio,
    storage: TempDir,
}

impl ScriptedCodex {
    fn new(script: &str) -> ScriptedCodex {
        ScriptedCodex::of("/bin/sh", script)
    }

    fn of(program: &str, script: &str) -> ScriptedCodex {
        let storage = tempfile::tempdir().unwrap();
        let program = BackEndProgram {
            program: program.into(),
            arguments: vec!["-c".to_owned(), script.to_owned()],
            workspace: "/".into(),
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        };
        let files = CodexFiles {
            storage: storage.path().to_owned(),
            credential: Some("sk-a-key".to_owned()),
            config: None,
        };
        let back_end = CodexStdio::new(program, files, &ExecutionPolicy::default(), None);
        ScriptedCodex { back_end, storage }
    }

    async fn begin(&mut self) -> Result<(), BackEndError> {
        let turn = TurnRequest {
            command_id: "cmd_1".to_owned(),
            text: "hello".to_owned(),
            ..TurnRequest::default()
        };
        self.back_end.begin(turn).await
    }

    async fn next(&mut self) -> BackEndEvent {
        timeout(WITHIN, self.back_end.next()).await.expect("an event in time")
    }

    async fn end(&mut self) -> TurnEnd {
        loop {
            if let BackEndEvent::Ended(end) = self.next().await {
                return end;
            }
        }
    }

    async fn is_quiet(&mut self) -> bool {
        timeout(Duration::from_millis(300), self.back_end.next()).await.is_err()
    }

    fn credential(&self) -> bool {
        self.storage.path().join("codex/auth.json").exists()
    }
}

/// How a turn of a Codex like this fails.
async fn failure(script: &str) -> String {
    let mut codex = ScriptedCodex::new(script);
    codex.begin().await.expect("it is started");
    let end = codex.end().await;
    assert_eq!(
        (end.status, end.failure_kind.as_deref()),
        (TurnStatus::Failed, Some("backend-failed")),
        "{end:?}"
    );
    assert!(codex.is_quiet().await, "{script}");
    assert!(!codex.credential(), "{script}");
    end.message.unwrap_or_default()
}

#[tokio::test]
async fn what_is_no_message_of_its_protocol_ends_codex() {
    for script in [
        "echo hello; exec sleep 100",
        "echo '[]'; exec sleep 100",
        "head -c 100 /dev/zero; echo; exec sleep 100",
        &format!("{BEGUN} say '{{}}'; exec sleep 100"),
    ] {
        assert_eq!(
            failure(script).await,
            "codex wrote a line that is no message of its protocol",
            "{script}"
        );
    }
}

#[tokio::test]
async fn a_line_without_an_end_is_not_held() {
    let said = failure(&format!("{BEGUN} yes | tr -d '\\n'")).await;
    assert_eq!(said, "codex wrote a line of more than 8388608 bytes");
}

#[tokio::test]
async fn a_codex_that_dies_before_or_in_a_turn_has_failed() {
    for (script, how) in [
        ("exit 3".to_owned(), "exit status: 3"),
        ("read initialize; exit 0".to_owned(), "exit status: 0"),
        (format!("{BEGUN} kill -9 $$"), "signal: 9 (SIGKILL)"),
        (
            "printf 'one\\n\\033[31mno such thing\\033[0m\\n\\n' >&2; exit 4".to_owned(),
            "exit status: 4: no such thing",
        ),
        (format!("{BEGUN} exec >&-; exec sleep 100"), "it has closed its output"),
    ] {
        let said = failure(&script).await;
        assert!(said.starts_with("codex ended before its turn: ") && said.ends_with(how), "{said}");
    }
}

#[tokio::test]
async fn a_codex_that_dies_after_a_turn_is_started_again() {
    let mut codex = ScriptedCodex::new(&format!("{BEGUN} {COMPLETED}; read more; exit 1"));
    for _ in 0..2 {
        codex.begin().await.unwrap();
        assert!(codex.credential());
        assert_eq!(codex.end().await, TurnEnd::completed());
        codex.back_end.stop().await;
        assert!(!codex.credential());
    }
    assert_eq!(codex.back_end.session_state(), Some(json!({ "threadId": "t" })));
    assert_eq!(codex.back_end.files.thread().as_deref(), Some("t"));
}

#[tokio::test]
async fn a_program_that_does_not_exist_leaves_no_credential() {
    let mut codex = ScriptedCodex::of("/no/such/codex", "");
    let refused = codex.begin().await.unwrap_err();
    assert!(refused.message.contains("/no/such/codex cannot be started"), "{refused}");
    assert!(!codex.credential());
    assert!(codex.is_quiet().await);
}

#[tokio::test]
async fn a_storage_that_cannot_be_written_is_a_failure_of_the_infrastructure() {
    let mut codex = ScriptedCodex::new("exec sleep 100");
    let file = codex.storage.path().join("file");
    std::fs::write(&file, "").unwrap();
    codex.back_end.files.storage = file;
    assert_eq!(codex.begin().await.unwrap_err().failure_kind, "infra-failed");
}

#[tokio::test]
async fn what_codex_has_started_ends_with_it() {
    let mut codex = ScriptedCodex::new("");
    let file = codex.storage.path().join("pid");
    let script = format!("sleep 100 & echo $! > {}; {BEGUN} {COMPLETED}; exec sleep 100", file.display());
    codex.back_end.program.arguments[1] = script;
    codex.begin().await.unwrap();
    codex.end().await;
    timeout(WITHIN, codex.back_end.stop()).await.expect("it is ended in time");
    let pid = std::fs::read_to_string(&file).unwrap();
    let status = Path::new("/proc").join(pid.trim()).join("stat");
    let is_running = || std::fs::read_to_string(&status).is_ok_and(|stat| !stat.contains(") Z "));
    let gone = async {
        while is_running() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(WITHIN, gone).await.expect("it is gone");
}

#[tokio::test]
async fn guidance_waits_until_codex_has_begun_and_events_are_kept_meanwhile() {
    let script = format!(
        "{BEGUN} {}; read steer; {}; say '{{\"id\":4,\"result\":{{}}}}'; {COMPLETED}; read more",
        r#"say '{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u"}}}'"#,
        r#"say '{"method":"item/agentMessage/delta","params":{"threadId":"t","turnId":"u","itemId":"m","delta":"a"}}'"#,
    );
    let mut codex = ScriptedCodex::new(&script);
    assert!(codex.back_end.steer("left".to_owned()).await.is_err());
    codex.begin().await.unwrap();
    codex.back_end.steer("left".to_owned()).await.unwrap();
    let began = BackEndEvent::TurnBegun { thread_id: "t".to_owned(), turn_id: "u".to_owned() };
    let part = BackEndEvent::Partial { item_id: "m".to_owned(), text: "a".to_owned() };
    for event in [BackEndEvent::Thread { thread_id: "t".to_owned() }, began, part] {
        assert_eq!(codex.next().await, event);
    }
    assert_eq!(codex.end().await, TurnEnd::completed());
    assert!(codex.back_end.steer("late".to_owned()).await.is_err());
}

#[tokio::test]
async fn codex_proves_a_past_turn_or_nobody_does() {
    let script = r#"read initialize; echo '{"id":2,"result":{}}'; read initialized; read list
        echo '{"id":1,"result":{"data":[{"status":"completed","items":[{"type":"userMessage","clientId":"cmd_1"}]}]}}'
        read more"#;
    let mut codex = ScriptedCodex::new(script);
    let PastTurn::NotProven { why } = codex.back_end.past_turn("cmd_1").await else { panic!("no thread") };
    assert!(why.contains("before codex had a thread"), "{why}");

    let state = json!({ "threadId": "t" });
    let CodexStdio { program, files, .. } = codex.back_end;
    let policy = ExecutionPolicy::default();
    let again = |program: BackEndProgram| CodexStdio::new(program, files.clone(), &policy, Some(&state));
    let mut knows = again(program.clone());
    assert_eq!(knows.past_turn("cmd_1").await, PastTurn::Completed { reply: None });
    assert!(matches!(knows.past_turn("cmd_2").await, PastTurn::NotProven { .. }));
    let mut dies = again(BackEndProgram { program: "/bin/false".into(), ..program });
    assert!(matches!(dies.past_turn("cmd_1").await, PastTurn::NotProven { .. }));
}
