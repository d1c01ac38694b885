//! The whole table of what the example back end does, without a process.

use super::program::run_on;
use super::turn::{ExampleSide, ExampleWorld};
use crate::back_end::TurnImage;
use crate::back_end::process_jsonl::{FromProgram, ToProgram};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// What the program is told, each message when it has said so many things, and what it says.
#[derive(Default)]
struct ExampleScript {
    told: VecDeque<(usize, ToProgram)>,
    said: Vec<Value>,
}

impl ExampleSide for &mut ExampleScript {
    async fn hear(&mut self) -> io::Result<Option<ToProgram>> {
        match self.told.front() {
            None => Ok(None),
            Some((after, _)) if self.said.len() >= *after => Ok(self.told.pop_front().map(|(_, told)| told)),
            // It will come, when more was said.
            Some(_) => std::future::pending().await,
        }
    }

    async fn say(&mut self, message: FromProgram) -> io::Result<()> {
        self.said.push(serde_json::to_value(message)?);
        Ok(())
    }
}

fn turn(text: &str) -> ToProgram {
    ToProgram::Turn {
        command_id: "cmd_1".to_owned(),
        thread_id: None,
        text: text.to_owned(),
        images: Vec::new(),
        context: Vec::new(),
        tools: Vec::new(),
        timezone: Some("Asia/Shanghai".to_owned()),
        mode: None,
    }
}

async fn said_to(told: impl IntoIterator<Item = (usize, ToProgram)>) -> Vec<Value> {
    let keys = vec![("PROVIDER_API_KEY".to_owned(), "a-secret-word".to_owned())];
    let world = ExampleWorld { slow_pause: Duration::from_millis(1), ..ExampleWorld::new(keys) };
    let mut script = ExampleScript { told: told.into_iter().collect(), said: Vec::new() };
    run_on(&mut script, &world).await.unwrap();
    script.said
}

async fn said(text: &str) -> Vec<Value> {
    said_to([(0, turn(text))]).await
}

/// The one message of a turn, which is also what its parts are together.
fn message(said: &[Value]) -> String {
    let parts: String = said.iter().filter_map(|one| one["delta"].as_str()).collect();
    let whole: Vec<&str> =
        said.iter().filter(|one| one["type"] == "message").filter_map(|one| one["text"].as_str()).collect();
    assert_eq!(whole, [parts.as_str()]);
    let ids: std::collections::BTreeSet<&str> =
        said.iter().filter_map(|one| one["itemId"].as_str()).collect();
    assert_eq!(ids.len(), 1);
    parts
}

fn of_type<'a>(said: &'a [Value], kind: &str) -> Vec<&'a Value> {
    said.iter().filter(|one| one["type"] == kind).collect()
}

fn stages(said: &[Value]) -> Vec<String> {
    let stages = of_type(said, "stage").into_iter();
    stages
        .map(|one| format!("{} {}", one["name"].as_str().unwrap(), one["status"].as_str().unwrap()))
        .collect()
}

const STAGES: [&str; 4] = ["router started", "router finished", "worker started", "worker finished"];

#[tokio::test]
async fn it_says_what_was_said_word_by_word() {
    let said = said("hello there").await;
    assert_eq!(stages(&said), STAGES);
    assert_eq!(message(&said), "You said: hello there");
    assert_eq!(of_type(&said, "text").len(), 4);
    assert_eq!(said.last(), Some(&json!({ "type": "done", "status": "completed" })));
}

#[tokio::test]
async fn each_word_does_what_the_table_says() {
    for (text, reply) in [
        ("/tool", "You said: /tool"),
        ("/calendar", "You said: /calendar"),
        ("/ui x", "You said: /ui x"),
        ("/image", "0 images\nYou said: /image"),
        ("/secret", "PROVIDER_API_KEY=a-secret-word\nYou said: /secret"),
        ("/image /secret", "0 images\nPROVIDER_API_KEY=a-secret-word\nYou said: /image /secret"),
    ] {
        let said = said(text).await;
        assert_eq!(message(&said), reply, "{text}");
        assert_eq!(stages(&said), STAGES, "{text}");
    }
}

#[tokio::test]
async fn it_fails_when_it_is_asked_to() {
    let said = said("/tool /fail").await;
    let end = json!({ "type": "done", "status": "failed", "failureKind": "backend-failed", "message": "asked to fail" });
    assert_eq!(said.last(), Some(&end));
    assert_eq!(stages(&said), STAGES);
    assert!(of_type(&said, "tool").is_empty() && of_type(&said, "message").is_empty());
}

#[tokio::test]
async fn it_calls_tools() {
    let said = said("/tool /calendar").await;
    let tools = of_type(&said, "tool");
    assert_eq!(tools[0]["args"], json!({ "timezone": "Asia/Shanghai" }));
    assert_eq!((&tools[0]["name"], &tools[0]["status"]), (&json!("clock"), &json!("started")));
    let time = tools[1]["output"].as_str().unwrap();
    assert!(tools[1]["status"] == "completed" && time.ends_with("+08:00[Asia/Shanghai]"), "{time}");
    assert_eq!(tools[2]["args"]["event_timezone"], "Asia/Shanghai");
    assert_eq!((&tools[3]["name"], &tools[3]["status"]), (&json!("calendar_write"), &json!("completed")));
    let bare = said_to([(0, turn("/calendar bare"))]).await;
    let tools = of_type(&bare, "tool");
    assert_eq!((tools[0]["args"].get("event_timezone"), &tools[1]["status"]), (None, &json!("failed")));
    assert_eq!(tools[1]["output"], "event_timezone is required");
    assert_eq!(message(&bare), "You said: /calendar bare");
}

#[tokio::test]
async fn without_a_zone_it_is_utc_and_an_unknown_one_is_refused_by_the_tool() {
    for (zone, status, output) in
        [(None, "completed", "[UTC]"), (Some("Mars/Olympus"), "failed", "is no time zone")]
    {
        let mut told = turn("/tool");
        if let ToProgram::Turn { timezone, .. } = &mut told {
            *timezone = zone.map(str::to_owned);
        }
        let said = said_to([(0, told)]).await;
        let tool = of_type(&said, "tool")[1].clone();
        assert_eq!(tool["status"], status);
        assert!(tool["output"].as_str().unwrap().ends_with(output), "{tool}");
    }
}

#[tokio::test]
async fn it_asks_and_says_what_was_decided() {
    for (decision, words) in [("accept", "approved"), ("decline", "declined"), ("cancel", "declined")] {
        let answer = ToProgram::Approval {
            approval_id: "cmd_1-ask".to_owned(),
            decision: decision.to_owned(),
            payload: None,
        };
        let other = ToProgram::Approval {
            approval_id: "of another".to_owned(),
            decision: "accept".to_owned(),
            payload: None,
        };
        let steer = ToProgram::Steer { text: "meanwhile".to_owned() };
        let said = said_to([(0, turn("/ask")), (1, other), (1, steer), (1, answer)]).await;
        let question = of_type(&said, "approval")[0];
        assert_eq!(question["options"], json!(["accept", "decline"]));
        assert_eq!(message(&said), format!("{words}\nmeanwhile\nYou said: /ask"));
    }
    let interrupted = said_to([(0, turn("/ask")), (1, ToProgram::Interrupt)]).await;
    assert_eq!(interrupted.last().unwrap()["failureKind"], "cancelled");
}

#[tokio::test]
async fn it_is_slow_and_can_be_interrupted_and_steered() {
    let words: Vec<String> = (1..=50).map(|number| format!("word{number}")).collect();
    // So much is said in the whole turn: until then somebody listens.
    let listens = |after| (after, ToProgram::Steer { text: String::new() });
    let whole = said_to([(0, turn("/slow")), listens(59)]).await;
    assert_eq!(message(&whole), format!("{}\nYou said: /slow", words.join(" ")));
    assert!(of_type(&said("/slow").await, "message").is_empty(), "nobody listens any more");

    let steer = ToProgram::Steer { text: "to the left".to_owned() };
    let said = said_to([(0, turn("/slow")), (6, steer), listens(62)]).await;
    let text = message(&said);
    let (before, after) = text.split_once("\nto the left").expect("the guidance is said next");
    assert!(before.starts_with("word1 word2"), "{text}");
    assert_eq!(format!("{before}{after}"), format!("{}\nYou said: /slow", words.join(" ")));

    let interrupted = said_to([(0, turn("/slow")), (8, ToProgram::Interrupt)]).await;
    let end =
        json!({ "type": "done", "status": "failed", "failureKind": "cancelled", "message": "interrupted" });
    assert_eq!(interrupted.last(), Some(&end));
    assert!(of_type(&interrupted, "text").len() < 10 && of_type(&interrupted, "message").is_empty());
}

#[tokio::test]
async fn its_end_says_how_the_reply_may_be_shown() {
    let said = said("/ui").await;
    let hints = &said.last().unwrap()["ui_hints"];
    assert_eq!((&hints["status"], &hints["body"]), (&json!("success"), &json!("You said: /ui")));
}

#[tokio::test]
async fn it_says_which_images_came() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("1.png");
    std::fs::write(&file, [0; 123]).unwrap();
    let image = |path| TurnImage { path, mime_type: "image/png".to_owned() };
    for (images, sentence) in [
        (vec![image(file.clone())], "1 image: image/png, 123 bytes"),
        (
            vec![image(file.clone()), image("/no/such/file".into())],
            "2 images: image/png, 123 bytes; image/png, not found",
        ),
    ] {
        let mut told = turn("/image");
        if let ToProgram::Turn { images: of_turn, .. } = &mut told {
            *of_turn = images;
        }
        assert_eq!(message(&said_to([(0, told)]).await), format!("{sentence}\nYou said: /image"));
    }
}

#[tokio::test]
async fn it_takes_one_turn_after_the_other() {
    let said = said_to([(0, turn("one")), (0, ToProgram::Interrupt), (0, turn("two"))]).await;
    assert_eq!(of_type(&said, "done").len(), 2);
    assert_eq!(of_type(&said, "message").len(), 2);
}
