//! Questions of back ends as interrupts, and the answers to them.

use super::support::{FrontEnd, THREAD, WorkingRunner, frames_of, input, kinds, task};
use serde_json::{Value, json};

struct AskedThread {
    front: FrontEnd,
    runner: WorkingRunner,
    command: String,
}

impl AskedThread {
    async fn begin(questions: &[&str]) -> AskedThread {
        let front = FrontEnd::open().await;
        let mut first = input("run-1", "may you?");
        first["protocolVersion"] = json!("1.0");
        let command = task(&front.run(first).await);
        let runner = front.runner().await;
        front.acknowledge(&runner, &command).await;
        for name in questions {
            let question = json!({ "approvalId": name, "reason": "example", "message": "May I?", "options": ["accept", "decline"] });
            front.say(&runner, &command, &[("approval_request", question)]).await;
        }
        AskedThread { front, runner, command }
    }

    fn resume(run: &str, answers: Value) -> Value {
        json!({
            "threadId": THREAD, "runId": run, "messages": [], "forwardedProps": { "runtime_mode": "chat" },
            "protocolVersion": "1.0", "resume": answers,
        })
    }

    async fn resolve(&self, name: &str, decision: &str) {
        let resolved = json!({ "approvalId": name, "decision": decision, "by": "alice" });
        self.front.say(&self.runner, &self.command, &[("approval_resolved", resolved)]).await;
    }
}

fn answer(id: &str, status: &str, payload: Value) -> Value {
    json!({ "interruptId": id, "status": status, "payload": payload })
}

#[tokio::test]
async fn a_question_ends_the_run_with_an_interrupt_and_its_answer_begins_the_rest() {
    let asked = AskedThread::begin(&["q1"]).await;
    let frames = asked.front.frames("runId=run-1", None).await;
    let outcome = &frames.last().unwrap().1["outcome"];
    assert_eq!(
        (&outcome["type"], &outcome["interrupts"][0]["id"]),
        (&json!("interrupt"), &json!("q1")),
        "{frames:?}"
    );
    let resume =
        AskedThread::resume("run-2", json!([answer("q1", "resolved", json!({ "decision": "accept" }))]));
    let resumed = asked.front.run(resume.clone()).await;
    assert_eq!(task(&resumed), asked.command, "the same turn goes on");
    assert_eq!(asked.front.run(resume).await, resumed, "once more");
    asked.resolve("q1", "accept").await;
    let said = json!({ "itemId": "m", "text": "approved", "final": true });
    asked.front.say(&asked.runner, &asked.command, &[("assistant_message", said)]).await;
    asked.front.end(&asked.runner, &asked.command, "completed").await;
    let rest = asked.front.frames("runId=run-2", None).await;
    assert_eq!((kinds(&rest)[0], *kinds(&rest).last().unwrap()), ("RUN_STARTED", "RUN_FINISHED"), "{rest:?}");
    assert!(rest.iter().any(|(_, data)| data["delta"] == "approved"), "{rest:?}");
    assert_eq!(asked.front.frames("runId=run-1", None).await, frames, "the first part stays as it was");
}

#[tokio::test]
async fn a_resume_answers_every_open_question_once_and_no_other() {
    let asked = AskedThread::begin(&["q1", "q2"]).await;
    let accept = |id: &str| answer(id, "resolved", json!({ "approved": true }));
    let every = ("resume must answer every open interrupt".to_owned(), 422);
    let unknown = ("unknown interruptId".to_owned(), 422);
    for (answers, refusal) in [
        (json!([accept("q1")]), &every),
        (json!([accept("q1"), accept("q1"), accept("q2")]), &every),
        (json!([accept("q1"), accept("q3")]), &unknown),
        (json!([accept("q3")]), &unknown),
    ] {
        assert_eq!(
            &asked.front.run_refused(AskedThread::resume("run-2", answers.clone())).await,
            refusal,
            "{answers}"
        );
    }
    let undecided = json!([accept("q1"), answer("q2", "resolved", json!({ "note": "hm" }))]);
    let (sentence, status) = asked.front.run_refused(AskedThread::resume("run-2", undecided)).await;
    assert_eq!((sentence.as_str(), status), ("resume needs payload.decision or payload.approved", 422));
    let both = json!([accept("q1"), answer("q2", "cancelled", Value::Null)]);
    asked.front.run(AskedThread::resume("run-2", both.clone())).await;
    assert_eq!(
        asked.front.run_refused(AskedThread::resume("run-3", both)).await,
        unknown,
        "answered already"
    );
    let rows: Vec<(String, String)> =
        sqlx::query_as("SELECT approval_id, decision FROM run_approval ORDER BY approval_id")
            .fetch_all(asked.front.runs.run.store.db().read())
            .await
            .unwrap();
    assert_eq!(rows, [("q1".to_owned(), "accept".to_owned()), ("q2".to_owned(), "cancel".to_owned())]);
}

#[tokio::test]
async fn a_resume_of_which_one_answer_is_refused_answers_nothing() {
    let asked = AskedThread::begin(&["q1", "q2"]).await;
    let decided = |id: &str, decision: &str| answer(id, "resolved", json!({ "decision": decision }));
    let refused = json!([decided("q1", "accept"), decided("q2", "perhaps")]);
    let (sentence, status) = asked.front.run_refused(AskedThread::resume("run-2", refused)).await;
    assert_eq!((sentence.as_str(), status), ("decision must be one of accept, decline", 422));
    let open: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM run_approval WHERE decision IS NULL")
        .fetch_one(asked.front.runs.run.store.db().read())
        .await
        .unwrap();
    assert_eq!(open, 2, "both wait for an answer");
    let both = json!([decided("q1", "accept"), decided("q2", "decline")]);
    asked.front.run(AskedThread::resume("run-2", both)).await;
}

#[tokio::test]
async fn the_next_message_cancels_a_question_and_comes_after_it() {
    let asked = AskedThread::begin(&["q1"]).await;
    let next = asked.front.run(input("run-2", "never mind")).await;
    assert_ne!(task(&next), asked.command);
    let decision: Option<String> = sqlx::query_scalar("SELECT decision FROM run_approval")
        .fetch_one(asked.front.runs.run.store.db().read())
        .await
        .unwrap();
    assert_eq!(decision.as_deref(), Some("cancel"));
    asked.front.end(&asked.runner, &asked.command, "cancelled").await;
    asked.front.answer(&asked.runner, &task(&next), "as you like").await;
    let frames = asked.front.frames("runId=run-2", None).await;
    assert!(frames.iter().any(|(_, data)| data["delta"] == "as you like"), "{frames:?}");
}

#[tokio::test]
async fn an_answer_from_elsewhere_goes_on_with_the_same_run() {
    let asked = AskedThread::begin(&["q1"]).await;
    let operator = crate::tests::support::admin();
    let approve = json!({ "runId": asked.runner.run, "approvalId": "q1", "decision": "decline" });
    asked.front.ask(&operator, "run.approve", approve).await.unwrap();
    asked.resolve("q1", "decline").await;
    asked.front.end(&asked.runner, &asked.command, "completed").await;
    let frames = asked.front.frames("runId=run-1", None).await;
    let begun = kinds(&frames).iter().filter(|kind| **kind == "RUN_STARTED").count();
    assert_eq!((begun, *kinds(&frames).last().unwrap()), (2, "RUN_FINISHED"), "{frames:?}");
    assert!(frames.iter().all(|(_, data)| data.get("runId").is_none_or(|run| run == "run-1")));
}

#[tokio::test]
async fn a_message_beside_answers_has_to_be_known() {
    let asked = AskedThread::begin(&["q1"]).await;
    let with = |id: &str| {
        let mut resume = AskedThread::resume("run-2", json!([answer("q1", "cancelled", Value::Null)]));
        resume["messages"] = json!([{ "id": id, "role": "user", "content": "may you?" }]);
        resume
    };
    let sentence = "RunAgentInput.messages must contain exactly one user message";
    assert_eq!(asked.front.run_refused(with("another")).await, (sentence.to_owned(), 422));
    asked.front.run(with("msg-run-1")).await;
    assert_eq!(frames_of(""), []);
}
