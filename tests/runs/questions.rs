//! Questions of back ends: whose they are, who answers them, and how many there may be.

use serde_json::{Value, json};

use super::client::{TestManager, assert_contiguous};

#[tokio::test]
async fn a_question_waits_for_its_answer_and_the_first_one_counts() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let (run, command, runner) = back_end.working().await;
    let question =
        json!({ "approvalId": "a-1", "reason": "may I?", "options": ["accept", "decline", "later"] });
    let ask = json!([{ "clientEventId": "q", "type": "approval_request", "commandId": command, "payload": question }]);
    runner.append(ask).await;
    let path = format!("/runs/{run}/approvals");
    let open = back_end.api.get(&path).await;
    assert_eq!(
        (&open["approvals"][0]["approvalId"], &open["approvals"][0]["decision"]),
        (&json!("a-1"), &json!(null))
    );
    let result = back_end.result(&run, &command).await;
    assert_eq!(
        (&result["status"], &result["liveness"]["phase"]),
        (&json!("running"), &json!("waiting-approval")),
        "a question keeps its command running"
    );
    let one = format!("{path}/a-1");
    back_end.api.refused("POST", &one, &json!({ "decision": "maybe" }), (400, "schema-invalid")).await;
    back_end
        .api
        .refused("POST", &format!("{path}/a-2"), &json!({ "decision": "accept" }), (404, "not-found"))
        .await;
    let answered =
        back_end.api.ok("POST", &one, &json!({ "decision": "later", "payload": { "n": 1 } }), 200).await;
    assert_eq!(
        (&answered["decision"], &answered["by"]),
        (&json!("later"), &json!(format!("tenant {}", back_end.tenant)))
    );
    assert_eq!(
        back_end.api.ok("POST", &one, &json!({ "decision": "later" }), 200).await["payload"],
        json!({ "n": 1 })
    );
    let other = back_end.api.call("POST", &one, &json!({ "decision": "accept" })).await;
    assert_eq!(other.status, 409, "{}", other.body);
    for told in [runner.heartbeat().await, runner.poll().await] {
        assert_eq!(
            (&told["approvals"][0]["approvalId"], &told["approvals"][0]["decision"]),
            (&json!("a-1"), &json!("later"))
        );
    }
    let resolved = json!({ "approvalId": "a-1", "decision": "later" });
    runner.append(json!([{ "clientEventId": "r", "type": "approval_resolved", "commandId": command, "payload": resolved }])).await;
    assert_eq!(runner.poll().await["approvals"], json!([]), "it has heard it");
    assert_eq!(back_end.result(&run, &command).await["liveness"]["phase"], "waiting-model");
}

#[tokio::test]
async fn a_question_is_of_a_command_has_its_own_id_and_ends_with_its_command() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let (run, command, runner) = back_end.working().await;
    let ask = |id: &str, event: &str| {
        let question = json!({ "approvalId": id, "reason": "may I?" });
        json!({ "clientEventId": event, "type": "approval_request", "commandId": command, "payload": question })
    };
    runner.append(json!([ask("a-1", "1"), ask("a-2", "2")])).await;
    let mut of_none = ask("a-3", "3");
    of_none["commandId"] = Value::Null;
    let resolved = json!({ "approvalId": "a-9", "decision": "accept" });
    let of_nothing = json!({ "clientEventId": "4", "type": "approval_resolved", "commandId": command, "payload": resolved });
    for (events, status, kind) in [
        (json!([of_none]), 400, "schema-invalid"),
        (json!([of_nothing]), 404, "not-found"),
        (json!([ask("a-1", "5")]), 409, "schema-invalid"),
        // In one batch as in two.
        (json!([ask("a-4", "6"), ask("a-4", "7")]), 409, "schema-invalid"),
    ] {
        let refused = runner.try_append(events.clone()).await;
        assert_eq!((refused.status, refused.failure_kind()), (status, kind), "{events}: {}", refused.body);
    }

    let one = |id: &str| format!("/runs/{run}/approvals/{id}");
    back_end.api.ok("POST", &one("a-1"), &json!({ "decision": "cancel" }), 200).await;
    let told = runner.poll().await;
    assert_eq!((&told["cancelRequested"], &told["commandIds"]), (&json!(true), &json!([command])), "{told}");
    runner.report(&command, "cancelled").await;
    let late = back_end.api.call("POST", &one("a-2"), &json!({ "decision": "accept" })).await;
    assert_eq!((late.status, late.failure_kind()), (409, "schema-invalid"), "{}", late.body);
    assert_eq!(back_end.api.get(&format!("/runs/{run}/approvals")).await["approvals"], json!([]));
}

#[tokio::test]
async fn a_run_has_so_many_open_questions_however_they_come() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let (run, command, runner) = back_end.working().await;
    let ask = |n: usize| {
        let question = json!({ "approvalId": format!("a-{n}"), "reason": "may I?" });
        json!({ "clientEventId": format!("e-{n}"), "type": "approval_request", "commandId": command, "payload": question })
    };
    let at_once = runner.try_append((0..65).map(ask).collect()).await;
    assert_eq!(
        (at_once.status, at_once.failure_kind()),
        (429, "rate-limited"),
        "in one batch: {}",
        at_once.body
    );
    runner.append((0..64).map(ask).collect()).await;
    let one_more = runner.try_append(json!([ask(64)])).await;
    assert_eq!((one_more.status, one_more.failure_kind()), (429, "rate-limited"), "{}", one_more.body);
    assert_eq!(one_more.body["details"]["scope"], "run.approvals", "{}", one_more.body);
    let resolved = json!({ "approvalId": "a-0", "decision": "accept" });
    runner.append(json!([{ "clientEventId": "r", "type": "approval_resolved", "commandId": command, "payload": resolved }])).await;
    runner.append(json!([ask(64)])).await;
    assert_contiguous(&back_end.api.events(&run).await);
}
