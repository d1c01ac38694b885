//! Programs of every kind, as small shell scripts: good ones, broken ones, and ones that do not end.

use super::*;
use crate::back_end::TurnStatus;
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;

const WITHIN: Duration = Duration::from_secs(20);

/// A turn as a shell reads it, and the end of one as it writes it.
const DONE: &str = r#"echo '{"type":"done","status":"completed"}'"#;

fn program(script: &str) -> BackEndProgram {
    BackEndProgram {
        program: "/bin/sh".into(),
        arguments: vec!["-c".to_owned(), script.to_owned()],
        workspace: "/".into(),
        environment: vec![
            ("PATH".into(), "/usr/bin:/bin".into()),
            ("API_KEY".into(), "a-secret-word".into()),
        ],
    }
}

fn back_end(script: &str) -> ProcessJsonl {
    ProcessJsonl::new(program(script), None)
}

fn turn(text: &str) -> TurnRequest {
    TurnRequest { command_id: "cmd_1".to_owned(), text: text.to_owned(), ..TurnRequest::default() }
}

async fn next(back_end: &mut ProcessJsonl) -> BackEndEvent {
    timeout(WITHIN, back_end.next()).await.expect("an event in time")
}

/// Everything up to the end of a turn.
async fn events(back_end: &mut ProcessJsonl) -> (Vec<BackEndEvent>, TurnEnd) {
    let mut events = Vec::new();
    loop {
        match next(back_end).await {
            BackEndEvent::Ended(end) => return (events, end),
            event => events.push(event),
        }
    }
}

/// A turn of a program that is started for it.
async fn turn_of(script: &str) -> (Vec<BackEndEvent>, TurnEnd) {
    let mut back_end = back_end(script);
    back_end.begin(turn("hello")).await.expect("it is started");
    events(&mut back_end).await
}

fn failure(end: &TurnEnd) -> &str {
    assert_eq!(
        (end.status, end.failure_kind.as_deref()),
        (TurnStatus::Failed, Some("backend-failed")),
        "{end:?}"
    );
    end.message.as_deref().unwrap_or_default()
}

#[tokio::test]
async fn a_program_works_on_many_turns_and_its_thread_goes_on() {
    let script = r#"while read -r turn; do
        echo "{\"type\":\"message\",\"itemId\":\"m\",\"text\":\"$(echo "$turn" | tr -d '"{}')\"}"
        echo '{"type":"thread","threadId":"t7"}'
        echo '{"type":"done","status":"completed"}'
    done"#;
    let mut back_end = back_end(script);
    for thread in ["", "threadId:t7,"] {
        back_end.begin(turn("hello")).await.unwrap();
        let (events, end) = events(&mut back_end).await;
        let text = format!("type:turn,commandId:cmd_1,{thread}text:hello,images:[],context:[],tools:[]");
        assert_eq!(events[0], BackEndEvent::Message { item_id: "m".to_owned(), text });
        assert_eq!(end, TurnEnd::completed());
    }
    assert_eq!(back_end.session_state(), Some(json!({ "threadId": "t7" })));
    back_end.stop().await;
    let state = json!({ "threadId": "t8" });
    assert_eq!(ProcessJsonl::new(program("true"), Some(&state)).session_state(), Some(state));
}

#[tokio::test]
async fn its_environment_is_what_it_is_given() {
    // A shell adds its folder.
    let names = "$(env | cut -d= -f1 | sort | tr '\\n' ' ')";
    let message = format!(r#"echo "{{\"type\":\"message\",\"itemId\":\"m\",\"text\":\"{names}\"}}""#);
    let (events, _) = turn_of(&format!("{message}; {DONE}")).await;
    let text = "API_KEY PATH PWD ".to_owned();
    assert_eq!(events, [BackEndEvent::Message { item_id: "m".to_owned(), text }]);
}

#[tokio::test]
async fn what_it_prints_on_standard_error_is_output() {
    let (events, end) = turn_of("read turn; echo oh no >&2; exit 1").await;
    let written = BackEndEvent::Written { stream: WrittenStream::Stderr, text: "oh no\n".to_owned() };
    assert_eq!(events, [written]);
    failure(&end);
}

#[tokio::test]
async fn what_is_no_line_of_the_protocol_is_an_error_and_ends_the_turn() {
    for script in [
        "echo hello; sleep 100",
        "echo; sleep 100",
        "echo '[]'; sleep 100",
        r#"echo '{"type":"sing"}'; sleep 100"#,
        r#"head -c 100 /dev/zero; echo; sleep 100"#,
    ] {
        let (events, end) = turn_of(script).await;
        assert!(failure(&end).contains("no message of its protocol"), "{script}: {end:?}");
        let [BackEndEvent::Error { failure_kind, message }] = &events[..] else {
            panic!("{script}: {events:?}")
        };
        assert_eq!((failure_kind.as_str(), Some(message)), ("backend-failed", end.message.as_ref()));
    }
}

#[tokio::test]
async fn a_line_of_two_mib_is_an_error_and_is_not_held() {
    for script in ["head -c 2097152 /dev/zero | tr '\\0' x; echo; sleep 100", "yes | tr -d '\\n'"] {
        let (_, end) = turn_of(script).await;
        assert!(failure(&end).contains("more than 1048576 bytes"), "{end:?}");
    }
}

#[tokio::test]
async fn a_program_that_ends_before_its_turn_has_failed() {
    for (script, how) in [
        ("exit 3", "exit status: 3"),
        ("read turn; exit 0", "exit status: 0"),
        ("read turn; kill -9 $$", "signal: 9"),
        (r#"read turn; echo '{"type":"status","phase":"x"}'; exit 4"#, "exit status: 4"),
        // A line without its end is none.
        (r#"read turn; printf '{"type":"done","status":"completed"}'; exit 5"#, "exit status: 5"),
        ("read turn; exec >&-; sleep 100", "it has closed its output"),
    ] {
        let (_, end) = turn_of(script).await;
        assert!(failure(&end).contains(how), "{script}: {end:?}");
    }
}

#[tokio::test]
async fn a_program_that_ends_after_its_turn_is_started_again() {
    let mut back_end = back_end(&format!("read turn; {DONE}; exit 1"));
    for _ in 0..3 {
        back_end.begin(turn("hello")).await.unwrap();
        assert_eq!(events(&mut back_end).await.1, TurnEnd::completed());
        // Its end is seen, and is no event.
        let quiet = timeout(Duration::from_millis(300), back_end.next()).await;
        assert!(quiet.is_err(), "{quiet:?}");
    }
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_a_failure_of_the_turn() {
    let mut missing = program("true");
    missing.program = "/no/such/program".into();
    let refused = ProcessJsonl::new(missing, None).begin(turn("hello")).await.unwrap_err();
    assert!(refused.message.contains("/no/such/program cannot be started"), "{refused}");
    let mut elsewhere = program("true");
    elsewhere.workspace = "/no/such/folder".into();
    assert!(ProcessJsonl::new(elsewhere, None).begin(turn("hello")).await.is_err());
}

fn is_running(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A process that has ended and was not waited for by its parent is as good as gone.
    !status.is_empty() && !status.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

async fn gone(pid: &str) {
    let gone = async {
        while is_running(pid) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(WITHIN, gone).await.unwrap_or_else(|_| panic!("{pid} still runs"));
}

fn pid_in(file: &Path) -> String {
    std::fs::read_to_string(file).expect("the script has written it").trim().to_owned()
}

#[tokio::test]
async fn what_a_program_has_started_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let file = file.display();
    // It forks and exits: what it leaves behind keeps its pipes open, and is not the back end.
    let (_, end) = turn_of(&format!("read turn; sleep 100 & echo $! > {file}; exit 0")).await;
    assert!(failure(&end).contains("exit status: 0"), "{end:?}");
    gone(&pid_in(&folder.path().join("pid"))).await;
}

#[tokio::test]
async fn a_program_that_does_not_end_is_ended_with_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = format!(
        "sleep 100 & echo $! > {}; echo '{{\"type\":\"status\",\"phase\":\"ready\"}}'; wait",
        file.display()
    );
    let mut back_end = back_end(&script);
    back_end.begin(turn("hello")).await.unwrap();
    assert_eq!(next(&mut back_end).await, BackEndEvent::Status { phase: "ready".to_owned() });
    timeout(WITHIN, back_end.stop()).await.expect("it is ended in time");
    gone(&pid_in(&file)).await;
    let quiet = timeout(Duration::from_millis(100), back_end.next()).await;
    assert!(quiet.is_err(), "what was told to end has no events");
}

#[tokio::test]
async fn a_program_that_ignores_sigterm_is_killed() {
    let ready = r#"echo '{"type":"status","phase":"ready"}'"#;
    let mut back_end = back_end(&format!("trap '' TERM; {ready}; while true; do sleep 1; done"));
    back_end.begin(turn("hello")).await.unwrap();
    next(&mut back_end).await;
    timeout(WITHIN, back_end.stop()).await.expect("it is killed in time");
}

#[tokio::test]
async fn guidance_interrupts_and_answers_reach_the_turn_under_way_only() {
    let script = r#"while read -r message; do
        echo "{\"type\":\"status\",\"phase\":\"$(echo "$message" | cut -d'"' -f4)\"}"
    done"#;
    let mut back_end = back_end(script);
    assert!(back_end.steer("left".to_owned()).await.is_err());
    assert!(back_end.interrupt().await.is_err());
    back_end.begin(turn("hello")).await.unwrap();
    back_end.steer("left".to_owned()).await.unwrap();
    let answer = ApprovalAnswer { approval_id: "q".to_owned(), decision: "accept".to_owned(), payload: None };
    back_end.answer(answer).await.unwrap();
    back_end.interrupt().await.unwrap();
    for phase in ["turn", "steer", "approval", "interrupt"] {
        assert_eq!(next(&mut back_end).await, BackEndEvent::Status { phase: phase.to_owned() });
    }
}

#[tokio::test]
async fn a_program_that_does_not_read_is_not_waited_for() {
    let mut back_end = back_end("sleep 100");
    back_end.begin(turn("hello")).await.unwrap();
    let large = "x".repeat(512 << 10);
    let full = async {
        while back_end.steer(large.clone()).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    timeout(WITHIN, full).await.expect("at some point it is full");
}

#[tokio::test]
async fn nobody_can_prove_what_became_of_a_past_turn() {
    assert!(matches!(back_end("true").past_turn("cmd_1").await, PastTurn::NotProven { .. }));
}
