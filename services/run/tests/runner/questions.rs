//! Questions of back ends: how they may be asked, and until when they are answered.

use crate::tests::support::{TestRuns, hwlab, refusal, runner};
use kernel::{Caller, RpcError, from_iso, iso_ms};
use serde_json::{Value, json};

const TIMEOUT_MS: i64 = 600_000;

/// A run whose runner has taken its turn.
struct AskingRunner {
    runs: TestRuns,
    run: String,
    command: String,
    runner: String,
    caller: Caller,
}

fn id(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

impl AskingRunner {
    async fn begin() -> AskingRunner {
        let runs = TestRuns::open().await;
        let new = json!({
            "tenantId": "hwlab", "projectId": "acme/site", "workspaceRef": {}, "providerId": "G14",
            "backendProfile": "example", "traceSink": null, "executionPolicy": { "timeoutMs": TIMEOUT_MS },
        });
        let run = id(&runs.ok("run.create", new).await["run"]["runId"]);
        let turn = json!({ "runId": run, "type": "turn", "payload": { "prompt": "x" } });
        let command = id(&runs.ok("run.command_create", turn).await["command"]["commandId"]);
        let caller = runner(&run, "attempt_1");
        let register = json!({ "backendProfile": "example", "placement": "host-process" });
        let runner = id(&runs.call(&caller, "runner.register", register).await.unwrap()["runnerId"]);
        let asking = AskingRunner { runs, run, command, runner, caller };
        let claim = json!({ "attemptId": "attempt_1", "leaseMs": 600_000 });
        asking.ask("runner.claim", claim).await.unwrap();
        asking.ask("runner.acknowledge", json!({ "commandId": asking.command })).await.unwrap();
        asking
    }

    async fn ask(&self, method: &str, mut more: Value) -> Result<Value, RpcError> {
        (more["runId"], more["runnerId"], more["epoch"]) = (json!(self.run), json!(self.runner), json!(1));
        self.runs.call(&self.caller, method, more).await
    }

    fn event(&self, name: &str, kind: &str, payload: Value) -> Value {
        json!({ "clientEventId": name, "type": kind, "commandId": self.command, "payload": payload })
    }

    fn question(&self, name: &str, mut more: Value) -> Value {
        (more["approvalId"], more["reason"]) = (json!(name), json!("may I?"));
        self.event(&format!("ask {name}"), "approval_request", more)
    }

    fn answered(&self, name: &str) -> Value {
        let payload = json!({ "approvalId": name, "decision": "accept" });
        self.event(&format!("answered {name}"), "approval_resolved", payload)
    }

    /// The status of an append.
    async fn append(&self, events: Vec<Value>) -> u16 {
        match self.ask("runner.append_events", json!({ "events": events })).await {
            Ok(_) => 200,
            Err(error) => error.http_status().as_u16(),
        }
    }

    async fn open(&self) -> Vec<Value> {
        let listed = self.runs.ok("run.approvals", json!({ "runId": self.run })).await;
        listed["approvals"].as_array().unwrap().clone()
    }

    fn answer(&self, name: &str) -> Value {
        json!({ "runId": self.run, "approvalId": name, "decision": "accept" })
    }
}

#[tokio::test]
async fn what_a_question_may_leave_out_may_be_null() {
    let asking = AskingRunner::begin().await;
    let nulls = json!({
        "message": null, "callId": null, "responseSchema": null, "options": null, "expiresAt": null,
    });
    assert_eq!(asking.append(vec![asking.question("q1", nulls)]).await, 200);
    let open = asking.open().await;
    assert_eq!((open.len(), &open[0]["options"]), (1, &json!([])), "{open:?}");
    asking.runs.ok("run.approve", asking.answer("q1")).await;
    for method in ["runner.heartbeat", "runner.poll_commands"] {
        let told = asking.ask(method, json!({})).await.unwrap();
        assert_eq!(told["approvals"][0]["decision"], "accept", "{method}: {told}");
    }
}

#[tokio::test]
async fn a_question_that_cannot_be_read_hides_no_other_and_can_be_answered() {
    let asking = AskingRunner::begin().await;
    let asked = ["q1", "q2"].map(|name| asking.question(name, json!({ "message": name })));
    assert_eq!(asking.append(asked.to_vec()).await, 200);
    let damage = "UPDATE run_approval SET question = '{\"reason\":7}' WHERE approval_id = 'q1'";
    asking.runs.sql(damage).await;
    let shown: Vec<Value> = asking.open().await.iter().map(|one| one["message"].clone()).collect();
    assert_eq!(shown, [json!(null), json!("q2")]);
    asking.runs.ok("run.approve", asking.answer("q1")).await;
    assert_eq!(asking.open().await.len(), 1);
}

#[tokio::test]
async fn what_a_batch_has_asked_before_counts_as_if_it_were_stored() {
    let asking = AskingRunner::begin().await;
    let ask = |n: usize| asking.question(&format!("q{n}"), json!({}));
    let twice = {
        let mut other = ask(0);
        other["clientEventId"] = json!("another");
        vec![ask(0), other]
    };
    assert_eq!(asking.append(twice).await, 409, "one id for two questions");
    assert_eq!(asking.append((0..65).map(ask).collect()).await, 429, "more than may be open");
    assert_eq!(asking.append(vec![asking.answered("q0")]).await, 404, "nobody has asked");
    assert_eq!(asking.append(vec![asking.answered("q0"), ask(0)]).await, 404, "nobody had asked then");
    assert!(asking.open().await.is_empty(), "what is refused leaves nothing");

    // A runner that was away for a while sends what has happened meanwhile, of which little is open.
    let meanwhile = (0..90).flat_map(|n| [ask(n), asking.answered(&format!("q{n}"))]);
    let meanwhile: Vec<Value> = meanwhile.chain([ask(90)]).collect();
    assert_eq!(asking.append(meanwhile.clone()).await, 200);
    assert_eq!(asking.append(meanwhile).await, 200, "again");
    let open: Vec<String> = asking.open().await.iter().map(|one| id(&one["approvalId"])).collect();
    assert_eq!(open, ["q90"]);
}

#[tokio::test]
async fn a_question_expires_with_the_time_of_its_command_or_before() {
    let asking = AskingRunner::begin().await;
    let clock = &asking.runs.test.world.clock;
    let end = asking.runs.now() + TIMEOUT_MS;
    clock.advance_ms(300_000);
    let soon = asking.runs.now() + 1000;
    let asked = [
        asking.question("ends", json!({})),
        asking.question("soon", json!({ "expiresAt": iso_ms(soon) })),
        asking.question("late", json!({ "expiresAt": iso_ms(end + 1) })),
        asking.question("odd", json!({ "expiresAt": "tomorrow" })),
    ];
    assert_eq!(asking.append(asked.to_vec()).await, 200);
    let shown: Vec<(String, i64)> = asking
        .open()
        .await
        .iter()
        .map(|one| (id(&one["approvalId"]), from_iso(&id(&one["expiresAt"])).unwrap()))
        .collect();
    let expected = [("ends", end), ("late", end), ("odd", end), ("soon", soon)];
    assert_eq!(shown, expected.map(|(name, at)| (name.to_owned(), at)));

    let over = refusal("schema-invalid", 409);
    clock.advance_ms(1000);
    assert_eq!(asking.runs.refused("run.approve", asking.answer("soon")).await, over);
    asking.runs.ok("run.approve", asking.answer("late")).await;
    assert_eq!(asking.open().await.len(), 2, "those that an answer is accepted for");
    clock.advance_ms(299_000);
    asking.runs.ok("run.approve", asking.answer("late")).await;
    assert_eq!(asking.runs.refused("run.approve", asking.answer("ends")).await, over);
    let answer = asking.runs.call(&hwlab(), "run.approve", asking.answer("odd")).await;
    assert!(answer.unwrap_err().to_string().contains("approval odd is not open any more"));
}
