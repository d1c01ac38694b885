//! What goes well: turns, guidance, interrupts and questions.

use serde_json::json;

use super::process::{RunnerWords, WorkedRun, payloads, said_in};
use crate::runs::client::{TestManager, assert_contiguous, types};

#[tokio::test]
async fn a_runner_works_on_the_turns_of_a_run_and_leaves_when_there_are_no_more() {
    let manager = TestManager::shared().await;
    let mut work =
        WorkedRun::begin(&manager, "hello", &RunnerWords::of(&["--idle-timeout-ms", "1000"])).await;
    let result = work.completed(&work.command).await;
    assert_eq!(result["reply"], "You said: hello");
    assert_eq!(result["finalResponse"]["source"], "authoritative");
    assert_eq!(work.turn("and again").await["reply"], "You said: and again");
    assert!(work.runner.ended().await.success(), "{}", work.runner.log());

    let events = work.events().await;
    assert_contiguous(&events);
    let first: Vec<&str> = types(&events).into_iter().take_while(|kind| *kind != "terminal_status").collect();
    let (begin, rest) = first.split_at(3);
    assert_eq!(begin, ["backend_status"; 3]);
    let messages = rest.iter().filter(|kind| **kind == "assistant_message").count();
    assert!(messages >= 3 && rest.len() == messages + 1, "{first:?}");
    let run = work.back_end.read(&work.run).await;
    assert_eq!((&run["status"], &run["lease"]), (&json!("claimed"), &json!(null)));
}

#[tokio::test]
async fn a_manager_is_reached_without_tls_too() {
    let manager = TestManager::shared().await;
    let how = RunnerWords { is_plain: true, ..RunnerWords::default() };
    let work = WorkedRun::begin(&manager, "hello", &how).await;
    assert_eq!(work.completed(&work.command).await["reply"], "You said: hello");
}

#[tokio::test]
async fn guidance_reaches_the_turn_under_way_and_is_blocked_without_one() {
    let manager = TestManager::shared().await;
    let work = WorkedRun::begin(&manager, "/slow", &RunnerWords::default()).await;
    work.said("word2").await;
    let steer = work.submit("steer", json!({ "prompt": "to the left" })).await;
    assert_eq!(work.outcome(&steer).await.0, "completed");
    let result = work.completed(&work.command).await;
    let reply = result["reply"].as_str().expect("a reply");
    assert!(reply.contains("\nto the left word") && reply.ends_with("word50\nYou said: /slow"), "{reply}");
    let delivery = work.back_end.result(&work.run, &steer).await["steerDelivery"].clone();
    assert_eq!((&delivery["runnerAcked"], &delivery["backendAccepted"]), (&json!(true), &json!(true)));
    assert_eq!(delivery["targetCommandId"], work.command.as_str());
    let late = work.submit("steer", json!({ "prompt": "to the right" })).await;
    assert_eq!(work.outcome(&late).await.0, "blocked");
    assert_eq!(work.turn("go on").await["reply"], "You said: go on");
}

#[tokio::test]
async fn an_interrupt_ends_the_turn_under_way_and_the_next_one_begins() {
    let manager = TestManager::shared().await;
    let work = WorkedRun::begin(&manager, "/slow", &RunnerWords::default()).await;
    work.said("word2").await;
    let next = work.back_end.turn(&work.run, "next").await;
    let interrupt = work.submit("interrupt", json!({})).await;
    assert_eq!(work.outcome(&interrupt).await.0, "completed");
    assert_eq!(work.outcome(&work.command).await, ("failed".to_owned(), "cancelled".to_owned()));
    assert_eq!(work.completed(&next).await["reply"], "You said: next");
    assert!(!said_in(&work.events().await).contains("word50"));
}

#[tokio::test]
async fn a_question_is_answered_whatever_the_policy_says_of_what_an_agent_does_by_itself() {
    let manager = TestManager::shared().await;
    for approval in ["never", "on-request"] {
        let change = |run: &mut serde_json::Value| run["executionPolicy"] = json!({ "approval": approval });
        let work = WorkedRun::begin_with(&manager, "/ask", &RunnerWords::default(), change).await;
        for (decision, said) in [("accept", "approved"), ("decline", "declined")] {
            let command = match decision {
                "accept" => work.command.clone(),
                _ => work.back_end.turn(&work.run, "/ask").await,
            };
            let question = work.question().await;
            let path = format!("/runs/{}/approvals/{question}", work.run);
            work.back_end.api.ok("POST", &path, &json!({ "decision": decision }), 200).await;
            assert_eq!(work.completed(&command).await["reply"], format!("{said}\nYou said: /ask"));
        }
        let events = work.events().await;
        let resolved = payloads(&events, "approval_resolved");
        assert_eq!(
            (&resolved[0]["decision"], &resolved[1]["decision"]),
            (&json!("accept"), &json!("decline"))
        );
        assert!(resolved[0]["by"].is_string(), "{resolved:?}");
    }
}

#[tokio::test]
async fn the_answer_cancel_ends_the_turn() {
    let manager = TestManager::shared().await;
    let work = WorkedRun::begin(&manager, "/ask", &RunnerWords::default()).await;
    let question = work.question().await;
    let path = format!("/runs/{}/approvals/{question}", work.run);
    work.back_end.api.ok("POST", &path, &json!({ "decision": "cancel" }), 200).await;
    assert_eq!(work.outcome(&work.command).await, ("cancelled".to_owned(), "cancelled".to_owned()));
    assert_eq!(payloads(&work.events().await, "approval_resolved").len(), 1);
    assert_eq!(work.turn("go on").await["reply"], "You said: go on");
}
