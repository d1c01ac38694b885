//! The sentences of the seed about the API and about runs, commands, sessions and their storage, each as a small test.

use std::collections::BTreeSet;

use proto_schemas::methods;
use serde_json::{Value, json};

use super::client::{
    PROFILE, TestBackEnd, TestManager, TestRunner, assert_contiguous, number, replied, types,
};
use crate::support::agent::{random_hex, text};

/// The routes that the seed lists, for back ends and for runners.
const ROUTES: [&str; 44] = [
    "GET /health",
    "GET /health/live",
    "GET /health/readiness",
    "POST /runs",
    "GET /runs/{runId}",
    "GET /runs/{runId}/events",
    "GET /runs/{runId}/result",
    "POST /runs/{runId}/cancel",
    "POST /runs/{runId}/commands",
    "GET /runs/{runId}/commands/{commandId}",
    "GET /runs/{runId}/commands/{commandId}/result",
    "POST /runs/{runId}/runner-jobs",
    "GET /runs/{runId}/runner-jobs",
    "GET /runs/{runId}/runner-jobs/{runnerJobId}",
    "POST /commands/{commandId}/cancel",
    "GET /sessions",
    "POST /sessions",
    "GET /sessions/{sessionId}",
    "GET /sessions/{sessionId}/trace",
    "GET /sessions/{sessionId}/output",
    "POST /sessions/{sessionId}/read",
    "POST /sessions/{sessionId}/control",
    "GET /sessions/{sessionId}/storage",
    "DELETE /sessions/{sessionId}/storage",
    "POST /sessions/{sessionId}/storage/refresh",
    "GET /backends",
    "GET /provider-profiles",
    "GET /provider-profiles/{profile}",
    "DELETE /provider-profiles/{profile}",
    "PUT /provider-profiles/{profile}/credential",
    "POST /provider-profiles/{profile}/validate",
    "GET /provider-profiles/{profile}/validations/{validationId}",
    "GET /runs/{runId}/approvals",
    "POST /runs/{runId}/approvals/{approvalId}",
    "POST /sessions/storage/gc",
    "POST /runners/register",
    "POST /runs/{runId}/claim",
    "PATCH /runs/{runId}/lease",
    "GET /runs/{runId}/commands",
    "POST /runs/{runId}/events",
    "PATCH /runs/{runId}/status",
    "POST /commands/{commandId}/ack",
    "PATCH /commands/{commandId}/status",
    "GET /runs",
];

#[tokio::test]
async fn every_route_of_the_seed_is_declared_and_in_the_document() {
    let manager = TestManager::shared().await;
    let mut declared: BTreeSet<String> = methods()
        .iter()
        .flat_map(|method| method.http)
        .filter_map(|route| Some(format!("{} {}", route.method, route.path.strip_prefix("/api/v1")?)))
        .collect();
    for path in ["/health", "/health/live", "/health/readiness"] {
        assert_eq!(manager.server.get(&format!("/api/v1{path}")).await.status, 200, "{path}");
        declared.insert(format!("GET {path}"));
    }
    let document = manager.server.get("/openapi.json").await.json();
    for route in ROUTES {
        assert!(declared.contains(route), "{route} is not declared");
        let (verb, path) = route.split_once(' ').expect("a verb and a path");
        let operation = &document["paths"][format!("/api/v1{path}")][verb.to_lowercase()];
        assert!(operation.is_object(), "{route} is not in the document");
    }
}

#[tokio::test]
async fn nothing_but_json_answers_also_where_nothing_is() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    // The form of each is looked at where it arrives.
    back_end.api.refused("GET", "/nothing", &Value::Null, (404, "not-found")).await;
    back_end.api.refused("GET", "/runs/x/nothing", &Value::Null, (404, "not-found")).await;
    back_end.api.refused("DELETE", "/runs", &Value::Null, (405, "method-not-allowed")).await;
    let answer = back_end.api.send("POST", "/runs", &[], "{").await;
    assert_eq!((answer.status, answer.failure_kind()), (400, "schema-invalid"), "{}", answer.body);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let answer = back_end.api.send("GET", "/runs/run_x", &[("traceparent", &parent)], "").await;
    assert_eq!((answer.status, &answer.body["traceId"]), (404, &json!(trace)), "the caller's trace goes on");
}

#[tokio::test]
async fn a_run_is_persisted_with_every_member_and_by_its_key_only_once() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let session = back_end.session().await;
    let whole = json!({
        "tenantId": back_end.tenant, "projectId": "pikasTech/unidesk",
        "workspaceRef": { "branch": "v0.1", "more": { "kept": [1, 2.5, "x"] } },
        "providerId": "G14_D601-x", "backendProfile": PROFILE,
        "executionPolicy": {
            "sandbox": "read-only", "approval": "on-request", "timeoutMs": 5000, "network": "disabled",
            "secretScope": { "allowCredentialEcho": false, "providerCredentials": [], "toolCredentials": [] },
        },
        "traceSink": { "kind": "otlp", "endpoint": "https://traces.example" },
        "sessionRef": { "sessionId": session }, "resourceBundleRef": { "kind": "gitbundle", "commit": "0123abcd" },
    });
    let send = async |key: &str, body: &Value| {
        back_end.api.send("POST", "/runs", &[("Idempotency-Key", key)], body.to_string()).await
    };
    let created = send("run-1", &whole).await;
    assert_eq!(created.status, 201, "{}", created.body);
    let run = &created.body["data"];
    let id = text(&run["runId"]);
    assert!(id.len() == 36 && id.starts_with("run_"), "{id}");
    for (member, value) in whole.as_object().expect("an object") {
        assert_eq!(&run[member], value, "{member}: {run}");
    }
    let again = send("run-1", &whole).await;
    assert_eq!((again.status, &again.body["data"]), (200, run));
    let mut other = whole.clone();
    other["projectId"] = json!("pikasTech/HWLAB");
    let refused = send("run-1", &other).await;
    assert_eq!((refused.status, refused.failure_kind()), (409, "idempotency-conflict"), "{}", refused.body);
    let busy = send("run-2", &whole).await;
    assert_eq!((busy.status, busy.failure_kind()), (409, "session-busy"), "one open run of a session");
    assert_eq!(busy.body["details"]["activeRunId"], json!(id));
    let listed = back_end.api.get("/runs?limit=200").await;
    assert!(listed["runs"].as_array().is_some_and(|runs| runs.iter().any(|run| run["runId"] == json!(id))));
}

#[tokio::test]
async fn turns_steers_and_interrupts_are_durable_in_their_order() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let (run, turn, runner) = back_end.working().await;
    let path = format!("/runs/{run}/commands");
    for (payload, message) in [
        (json!({}), "payload.prompt is required (or payload.message, or payload.text)"),
        (json!({ "prompt": "" }), "payload.prompt must be a non-empty string"),
        (json!({ "message": " " }), "payload.message must be a non-empty string"),
        (json!({ "text": 7 }), "payload.text must be a non-empty string"),
    ] {
        for kind in ["turn", "steer"] {
            let body = json!({ "type": kind, "payload": payload });
            let refused = back_end.api.refused("POST", &path, &body, (400, "schema-invalid")).await;
            assert_eq!(refused["message"], message);
        }
    }
    let mut steers = Vec::new();
    for member in ["prompt", "message", "text"] {
        let body = json!({ "type": "steer", "payload": { member: "to the left" } });
        steers.push(back_end.command(&run, &body).await);
    }
    let interrupt = back_end.command(&run, &json!({ "type": "interrupt", "payload": {} })).await;
    let polled = runner.poll().await;
    let seen: Vec<(&Value, &Value)> = polled["commands"]
        .as_array()
        .expect("commands")
        .iter()
        .map(|command| (&command["type"], &command["seq"]))
        .collect();
    let (steer, seqs) = (json!("steer"), [1, 2, 3, 4, 5].map(|seq| json!(seq)));
    assert_eq!(
        seen,
        [
            (&json!("turn"), &seqs[0]),
            (&steer, &seqs[1]),
            (&steer, &seqs[2]),
            (&steer, &seqs[3]),
            (&json!("interrupt"), &seqs[4])
        ],
        "guidance says that it is guidance"
    );
    let paged = runner.api.get(&format!("{}&limit=2", runner.poll_path(1, 0))).await;
    assert_eq!((paged["commands"].as_array().map(Vec::len), &paged["nextAfterSeq"]), (Some(2), &json!(3)));

    // It is for the newest turn that is worked on, and nothing that it says changes that turn.
    let taken = runner.acknowledge(&steers[0]).await;
    assert_eq!(taken["targetCommandId"], json!(turn));
    runner.report(&steers[0], "blocked").await;
    runner.acknowledge(&interrupt).await;
    runner.report(&interrupt, "completed").await;
    assert_eq!(
        back_end.read_command(&run, &turn).await["state"],
        "acknowledged",
        "an interrupt is only recorded"
    );
    assert!(back_end.read(&run).await["terminalStatus"].is_null(), "the run goes on");
}

#[tokio::test]
async fn commands_end_as_the_table_of_states_says() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let (run, turn, runner) = back_end.working().await;
    let waiting = back_end.turn(&run, "waits").await;
    let refused = runner.try_report(&waiting, "completed").await;
    assert_eq!((refused.status, refused.failure_kind()), (409, "schema-invalid"), "nobody has taken it");
    let refused = runner.try_report(&turn, "cancelled").await;
    assert_eq!((refused.status, refused.failure_kind()), (409, "schema-invalid"), "nobody has asked for it");
    let before = back_end.read_command(&run, &turn).await;
    assert_eq!((&before["state"], &before["acknowledgedEpoch"]), (&json!("acknowledged"), &json!(1)));
    assert_eq!(
        runner.acknowledge(&turn).await["acknowledgedAt"],
        before["acknowledgedAt"],
        "again is nothing"
    );
    assert_eq!(runner.report(&turn, "running").await["state"], "running");
    assert_eq!(back_end.read(&run).await["status"], "running");
    let path = format!("/commands/{turn}/status");
    let body = runner.signed(json!({
        "status": "failed", "failureKind": "provider-auth-failed", "failureMessage": "the key was refused",
    }));
    let failed = runner.api.ok("PATCH", &path, &body, 200).await;
    assert_eq!(
        (&failed["state"], &failed["failureKind"]),
        (&json!("failed"), &json!("provider-auth-failed"))
    );
    assert_eq!(back_end.read(&run).await["status"], "claimed", "no command is worked on any more");
    let events = back_end.api.events(&run).await;
    assert_eq!(
        events.last().expect("its end")["payload"],
        json!({
            "status": "failed", "scope": "command", "failureKind": "provider-auth-failed",
            "message": "the key was refused",
        })
    );
    assert_eq!(runner.report(&turn, "failed").await["updatedAt"], failed["updatedAt"], "the same end again");
    for other in ["completed", "blocked", "cancelled", "running"] {
        let refused = runner.try_report(&turn, other).await;
        assert_eq!((refused.status, refused.failure_kind()), (409, "schema-invalid"), "{other}");
    }
    assert_eq!(back_end.api.events(&run).await, events, "and nothing was appended");
}

#[tokio::test]
async fn kinds_of_failures_can_be_told_apart() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let (run, first, runner) = back_end.working().await;
    runner.report(&first, "completed").await;
    for kind in [
        "schema-invalid",
        "tenant-policy-denied",
        "secret-unavailable",
        "backend-failed",
        "backend-timeout",
        "provider-auth-failed",
        "provider-unavailable",
        "infra-failed",
        "session-store-evicted",
        "thread-resume-failed",
    ] {
        let command = back_end.turn(&run, kind).await;
        runner.acknowledge(&command).await;
        let body = runner.signed(json!({ "status": "failed", "failureKind": kind, "failureMessage": "so" }));
        runner.api.ok("PATCH", &format!("/commands/{command}/status"), &body, 200).await;
        let result = back_end.result(&run, &command).await;
        assert_eq!((&result["failureKind"], &result["failureMessage"]), (&json!(kind), &json!("so")));
        assert_eq!(result["blocker"], json!({ "failureKind": kind, "message": "so" }), "{result}");
    }
    let command = back_end.turn(&run, "unknown").await;
    runner.acknowledge(&command).await;
    let body = runner.signed(json!({ "status": "failed", "failureKind": "bad-luck" }));
    let path = format!("/commands/{command}/status");
    runner.api.refused("PATCH", &path, &body, (400, "schema-invalid")).await;
}

#[tokio::test]
async fn a_cancel_is_idempotent_and_converges() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;

    // Pending: at once, and no runner is started for it any more.
    let run = back_end.run().await;
    let command = back_end.turn(&run, "x").await;
    let path = format!("/commands/{command}/cancel");
    let ended = back_end.api.ok("POST", &path, &json!({ "reason": "changed my mind" }), 200).await;
    assert_eq!((&ended["state"], &ended["failureMessage"]), (&json!("cancelled"), &json!("changed my mind")));
    assert_eq!(back_end.api.ok("POST", &path, &json!({ "reason": "other" }), 200).await, ended);
    let body = json!({ "commandId": command, "launcher": "external" });
    let refused = back_end
        .api
        .refused("POST", &format!("/runs/{run}/runner-jobs"), &body, (409, "schema-invalid"))
        .await;
    assert_eq!(refused["message"], format!("command {command} is not pending: cancelled"));
    let path = format!("/runs/{run}/cancel");
    let ended = back_end.api.ok("POST", &path, &json!({}), 200).await;
    assert_eq!((&ended["status"], &ended["terminalStatus"]), (&json!("cancelled"), &json!("cancelled")));
    assert_eq!(back_end.api.ok("POST", &path, &json!({}), 200).await, ended, "its present state");
    let body = json!({ "type": "turn", "payload": { "prompt": "x" } });
    let refused =
        back_end.api.refused("POST", &format!("/runs/{run}/commands"), &body, (409, "cancelled")).await;
    assert_eq!(refused["message"], format!("run {run} is already terminal: cancelled"));

    // Worked on: its runner confirms, and what it still says belongs to the log.
    let (run, command, runner) = back_end.working().await;
    let path = format!("/commands/{command}/cancel");
    let asked = back_end.api.ok("POST", &path, &json!({}), 200).await;
    assert_eq!((&asked["state"], asked["cancelRequestedAt"].is_string()), (&json!("acknowledged"), true));
    assert_eq!(back_end.api.ok("POST", &path, &json!({}), 200).await, asked);
    let told = runner.poll().await;
    assert_eq!(
        (&told["cancelRequested"], &told["cancelScope"], &told["commandIds"]),
        (&json!(true), &json!("command"), &json!([command]))
    );
    runner.say(&command, "e-1", "stopping").await;
    assert_eq!(runner.report(&command, "cancelled").await["state"], "cancelled");
    assert!(back_end.read(&run).await["terminalStatus"].is_null(), "the run goes on");
    assert_eq!(runner.poll().await["cancelRequested"], false);

    // Worked on by a runner that is gone: as soon as nobody has the lease.
    let (run, command, runner) = back_end.working().await;
    let renewed = runner.try_lease(json!({ "leaseMs": 5000 })).await;
    assert_eq!(renewed.status, 200, "{}", renewed.body);
    back_end.api.ok("POST", &format!("/runs/{run}/cancel"), &json!({}), 200).await;
    crate::support::until("the run is cancelled", || async {
        (back_end.read(&run).await["status"] == "cancelled").then_some(())
    })
    .await;
    assert_eq!(back_end.read_command(&run, &command).await["state"], "cancelled");
    let events = back_end.api.events(&run).await;
    assert_contiguous(&events);
    assert_eq!(types(&events), ["terminal_status", "terminal_status"]);
    assert_eq!(runner.try_lease(json!({})).await.failure_kind(), "cancelled", "it hears why");
}

#[tokio::test]
async fn a_run_ends_only_when_it_is_said() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let (run, command, runner) = back_end.working().await;
    let refused = runner.try_report_run(json!({ "status": "completed" })).await;
    assert_eq!((refused.status, refused.failure_kind()), (409, "schema-invalid"), "a command is open");
    let refused = runner.try_report_run(json!({ "status": "cancelled" })).await;
    assert_eq!(refused.status, 409, "nobody has asked: {}", refused.body);
    let failure = json!({ "status": "failed", "failureKind": "infra-failed", "failureMessage": "no disk" });
    let ended = runner.try_report_run(failure.clone()).await;
    assert_eq!(ended.status, 200, "{}", ended.body);
    let read = back_end.read(&run).await;
    assert_eq!(
        (&read["status"], &read["failureKind"], &read["failureMessage"], &read["lease"]),
        (&json!("failed"), &json!("infra-failed"), &json!("no disk"), &json!(null))
    );
    assert_eq!(back_end.read_command(&run, &command).await["failureKind"], "infra-failed");
    assert_eq!(runner.try_report_run(failure).await.status, 200, "the same again");
    let other = runner.try_report_run(json!({ "status": "completed" })).await;
    assert_eq!((other.status, other.failure_kind()), (409, "infra-failed"), "{}", other.body);

    let (run, command, runner) = back_end.working().await;
    runner.report(&command, "completed").await;
    assert_eq!(runner.try_report_run(json!({ "status": "completed" })).await.status, 200);
    assert_eq!(back_end.read(&run).await["terminalStatus"], "completed", "a runner of one shot says so");
}

async fn sessions(back_end: &TestBackEnd, query: &str) -> Vec<String> {
    let page = back_end.api.get(&format!("/sessions?{query}")).await;
    let sessions = page["sessions"].as_array().expect("a page has sessions");
    sessions.iter().map(|session| text(&session["sessionId"])).collect()
}

#[tokio::test]
async fn a_session_is_listed_while_it_runs_and_until_it_was_read() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let (session, idle) = (back_end.session().await, back_end.session().await);
    assert!(sessions(&back_end, "").await.is_empty(), "neither runs");
    let run = back_end.run_of(&session).await;
    let command = back_end.turn(&run, "x").await;
    assert_eq!(sessions(&back_end, "state=default").await, std::slice::from_ref(&session), "it runs");
    let path = format!("/sessions/{session}");
    let running = back_end.api.get(&path).await;
    assert_eq!(
        (
            &running["executionState"],
            &running["activeRunId"],
            &running["activeCommandId"],
            &running["unread"]
        ),
        (&json!("running"), &json!(run), &json!(command), &json!(false))
    );
    assert_eq!(running["liveness"]["phase"], "waiting-runner", "{running}");

    let mut runner = back_end.runner(&run, &command).await;
    runner.claim().await;
    runner.acknowledge(&command).await;
    runner.say(&command, "e-1", "done").await;
    runner.report(&command, "completed").await;
    let ended = back_end.api.get(&path).await;
    assert_eq!(
        (&ended["executionState"], number(&ended["version"]), &ended["unread"]),
        (&json!("terminal"), number(&running["version"]) + 1, &json!(true)),
        "{ended}"
    );
    assert_eq!((&ended["lastCommandId"], &ended["lastEventSeq"]), (&json!(command), &json!(2)));
    assert_eq!(sessions(&back_end, "readerId=cli").await, std::slice::from_ref(&session), "unread");

    let read = back_end.api.ok("POST", &format!("{path}/read"), &json!({ "readerId": "cli" }), 200).await;
    assert_eq!(read["unread"], false);
    assert!(sessions(&back_end, "readerId=cli").await.is_empty());
    assert_eq!(
        sessions(&back_end, "readerId=phone").await,
        std::slice::from_ref(&session),
        "another reader has not"
    );
    back_end.api.ok("POST", &format!("{path}/read"), &json!({ "readerId": "cli", "version": 0 }), 200).await;
    assert!(sessions(&back_end, "").await.is_empty(), "a cursor does not move back");
    let all: BTreeSet<String> = sessions(&back_end, "state=all").await.into_iter().collect();
    assert_eq!(all, BTreeSet::from([session.clone(), idle.clone()]));
    back_end.api.refused("GET", "/sessions?state=old", &Value::Null, (400, "schema-invalid")).await;

    // Pages are of the same order, and nothing is on two of them.
    let first = back_end.api.get("/sessions?state=all&limit=1").await;
    let cursor = text(&first["nextCursor"]);
    assert_eq!(first["sessions"][0]["sessionId"], json!(session), "the newest first");
    assert_eq!(sessions(&back_end, &format!("state=all&limit=1&cursor={cursor}")).await, [idle]);
    assert_eq!(sessions(&back_end, &format!("state=all&backendProfile={PROFILE}")).await.len(), 2);
    assert!(sessions(&back_end, "state=all&backendProfile=codex").await.is_empty());
}

#[tokio::test]
async fn trace_and_output_page_through_the_events_of_a_run() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let session = back_end.session().await;
    let mut traces = Vec::new();
    for round in 0..2 {
        let run = back_end.run_of(&session).await;
        let command = back_end.turn(&run, "x").await;
        let mut runner = back_end.runner(&run, &command).await;
        runner.claim().await;
        runner.acknowledge(&command).await;
        let tool = json!({ "callId": "c", "toolName": "clock", "status": "started" });
        let output = json!({ "stream": "stdout", "text": "out", "outputBytes": 3, "outputTruncated": false });
        let failure = json!({ "failureKind": "backend-failed", "message": "retrying" });
        let event = |id: &str, kind: &str, payload: Value| json!({ "clientEventId": id, "type": kind, "commandId": command, "payload": payload });
        runner
            .append(json!([
                event("1", "tool_call", tool),
                event("2", "command_output", output),
                event("3", "error", failure),
                event("4", "reasoning", json!({ "text": "hm" })),
                replied(&command, "5", &format!("round {round}")),
            ]))
            .await;
        runner.report(&command, "completed").await;
        runner.try_report_run(json!({ "status": "completed" })).await;
        traces.push((run.clone(), back_end.api.events(&run).await));
    }
    let path = format!("/sessions/{session}");
    let newest = back_end.api.get(&format!("{path}/trace")).await;
    assert_eq!(newest["events"], json!(traces[1].1), "of the last run");
    let (run, events) = &traces[0];
    let older = back_end.api.get(&format!("{path}/trace?runId={run}&afterSeq=2&limit=3")).await;
    assert_eq!(older["events"], json!(events[2..5]));
    assert_eq!((&older["hasMore"], &older["nextAfterSeq"]), (&json!(true), &json!(5)));
    let output = back_end.api.get(&format!("{path}/output?runId={run}")).await;
    let shown = output["events"].as_array().expect("events");
    assert_eq!(
        types(shown),
        ["command_output", "error", "assistant_message", "terminal_status", "terminal_status"]
    );
    let page = back_end.api.get(&format!("{path}/output?runId={run}&limit=2")).await;
    let next = number(&page["nextAfterSeq"]);
    let rest = back_end.api.get(&format!("{path}/output?runId={run}&afterSeq={next}")).await;
    let both: Vec<Value> =
        [&page, &rest].iter().flat_map(|page| page["events"].as_array().expect("events").clone()).collect();
    assert_eq!(&both, shown);
    let other = back_end.run().await;
    let foreign = format!("{path}/trace?runId={other}");
    back_end.api.refused("GET", &foreign, &Value::Null, (404, "not-found")).await;
}

#[tokio::test]
async fn control_cancels_the_command_or_else_the_run() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let session = back_end.session().await;
    let path = format!("/sessions/{session}/control");
    let cancel = json!({ "action": "cancel" });
    let cancelled = async || text(&back_end.api.ok("POST", &path, &cancel, 200).await["cancelled"]);
    assert_eq!(cancelled().await, "nothing");
    let run = back_end.run_of(&session).await;
    let command = back_end.turn(&run, "x").await;
    assert_eq!(cancelled().await, "command");
    assert_eq!(back_end.read_command(&run, &command).await["state"], "cancelled");
    assert!(back_end.read(&run).await["terminalStatus"].is_null());
    assert_eq!(cancelled().await, "run");
    assert_eq!(back_end.read(&run).await["terminalStatus"], "cancelled");
    assert_eq!(cancelled().await, "nothing");
    back_end.api.refused("POST", &path, &json!({ "action": "dance" }), (400, "schema-invalid")).await;
}

#[tokio::test]
async fn storage_is_made_with_its_session_described_evicted_and_missed() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let session = back_end.session().await;
    let path = format!("/sessions/{session}/storage");
    let made = back_end.api.get(&path).await;
    assert_eq!(
        (&made["storageKind"], &made["storage_kind"], &made["pvcName"]),
        (&json!("pvc"), &json!("pvc"), &json!(format!("agentrun-v01-session-{session}")))
    );
    assert!(made["pvcPhase"].is_string(), "{made}");

    let run = back_end.run_of(&session).await;
    let command = back_end.turn(&run, "x").await;
    let mut runner = back_end.runner(&run, &command).await;
    let hash = random_hex(32);
    let report =
        |runner: &TestRunner| runner.signed(json!({ "sizeBytes": 12345, "filesCount": 3, "sha256": hash }));
    let refresh = format!("{path}/refresh");
    runner.api.refused("POST", &refresh, &report(&runner), (409, "runner-lease-conflict")).await;
    runner.claim().await;
    runner.api.ok("POST", &refresh, &report(&runner), 200).await;
    let seen = back_end.api.get(&path).await;
    for (camel, snake, value) in [
        ("storageSizeBytes", "storage_size_bytes", json!(12345)),
        ("storageFilesCount", "storage_files_count", json!(3)),
        ("storageSha256", "storage_sha256", json!(hash)),
    ] {
        assert_eq!((&seen[camel], &seen[snake]), (&value, &value), "{seen}");
    }
    assert!(seen["storage_updated_at"].is_string(), "{seen}");

    back_end.api.ok("POST", &format!("/runs/{run}/cancel"), &json!({}), 200).await;
    let gone = back_end.api.ok("DELETE", &path, &Value::Null, 200).await;
    assert_eq!((&gone["storage_kind"], gone["storage_evicted_at"].is_string()), (&json!("evicted"), true));
    let again = back_end.api.ok("DELETE", &path, &Value::Null, 200).await;
    assert_eq!(again["storage_evicted_at"], gone["storage_evicted_at"], "a repetition is nothing");

    let run = back_end.run_of(&session).await;
    let command = back_end.turn(&run, "x").await;
    let jobs = format!("/runs/{run}/runner-jobs");
    let body = json!({ "commandId": command, "launcher": "external" });
    back_end.api.refused("POST", &jobs, &body, (409, "session-store-evicted")).await;
    assert_eq!(back_end.api.get(&jobs).await["runnerJobs"], json!([]), "no job was made");
    let admin = manager.admin().await;
    admin.ok("POST", "/sessions/storage/gc", &json!({}), 200).await;
    back_end.api.refused("POST", "/sessions/storage/gc", &json!({}), (403, "forbidden")).await;
}

#[tokio::test]
async fn profiles_show_that_a_credential_is_there_and_never_which() {
    let manager = TestManager::shared().await;
    let (admin, back_end) = (manager.admin().await, manager.back_end().await);
    let listed = back_end.api.get("/provider-profiles").await;
    let listed = listed["profiles"].as_array().expect("profiles");
    assert!(listed.iter().any(|one| one["profile"] == "dsflash-go"), "{listed:?}");
    for name in ["codex", "deepseek", "minimax-m3"] {
        let profile = listed.iter().find(|one| one["profile"] == name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(
            (&profile["builtin"], &profile["configured"], &profile["failureKind"], &profile["backendKind"]),
            (&json!(true), &json!(false), &json!("secret-unavailable"), &json!("codex-stdio")),
            "a missing secret does not hide it: {profile}"
        );
    }
    let example = back_end.api.get(&format!("/provider-profiles/{PROFILE}")).await;
    assert_eq!((&example["configured"], &example["secretRef"]), (&json!(true), &json!(null)), "{example}");
    let backends = back_end.api.get("/backends").await;
    assert!(
        backends["backends"].as_array().is_some_and(|all| all.iter().any(|one| one["profile"] == PROFILE))
    );

    let name = format!("p{}", random_hex(6));
    let path = format!("/provider-profiles/{name}");
    back_end.api.refused("GET", &path, &Value::Null, (404, "not-found")).await;
    let mut run = back_end.new_run();
    run["backendProfile"] = json!(name);
    back_end.api.refused("POST", "/runs", &run, (409, "secret-unavailable")).await;
    let key = format!("a-key-that-nobody-sees-{}", random_hex(8));
    let credential = json!({ "apiKey": key, "model": "m-1" });
    back_end.api.refused("PUT", &format!("{path}/credential"), &credential, (403, "forbidden")).await;
    let put = admin.ok("PUT", &format!("{path}/credential"), &credential, 200).await;
    let got = back_end.api.get(&path).await;
    for shown in [&put, &got] {
        assert_eq!((&shown["configured"], &shown["builtin"]), (&json!(true), &json!(false)), "{shown}");
        assert_eq!(shown["secretRef"]["name"], format!("agentrun-v01-provider-{name}"));
        assert!(shown["hashSuffix"].as_str().is_some_and(|suffix| suffix.len() == 8), "{shown}");
        assert!(!shown.to_string().contains(&key), "{shown}");
    }
    let created = back_end.api.ok("POST", "/runs", &run, 201).await;
    let id = text(&created["runId"]);
    let credentials = &created["executionPolicy"]["secretScope"]["providerCredentials"];
    assert_eq!(credentials[0]["secretRef"]["name"], format!("agentrun-v01-provider-{name}"), "{created}");
    let busy = admin.call("DELETE", &path, &Value::Null).await;
    assert_eq!(busy.status, 409, "a run uses it: {}", busy.body);
    back_end.api.ok("POST", &format!("/runs/{id}/cancel"), &json!({}), 200).await;
    admin.ok("DELETE", &path, &Value::Null, 200).await;
    back_end.api.refused("GET", &path, &Value::Null, (404, "not-found")).await;
}

#[tokio::test]
async fn cancelling_what_has_ended_otherwise_changes_nothing() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    for status in ["completed", "failed", "blocked"] {
        let (run, command, runner) = back_end.working().await;
        runner.report(&command, status).await;
        let before = back_end.read_command(&run, &command).await;
        let path = format!("/commands/{command}/cancel");
        assert_eq!(back_end.api.ok("POST", &path, &json!({}), 200).await, before, "its present state");
        assert_eq!(runner.try_report_run(json!({ "status": status })).await.status, 200);
        let (ended, events) = (back_end.read(&run).await, back_end.api.events(&run).await);
        assert_eq!(ended["status"], status);
        let path = format!("/runs/{run}/cancel");
        assert_eq!(back_end.api.ok("POST", &path, &json!({ "reason": "late" }), 200).await, ended);
        assert!(ended["cancelRequestedAt"].is_null(), "{ended}");
        assert_eq!(back_end.api.events(&run).await, events);
    }
}

#[tokio::test]
async fn every_end_of_a_command_or_of_its_run_is_news_of_the_session() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let session = back_end.session().await;
    let run = back_end.run_of(&session).await;
    let (first, second) = (back_end.turn(&run, "x").await, back_end.turn(&run, "y").await);
    let mut runner = back_end.runner(&run, &first).await;
    runner.claim().await;
    let path = format!("/sessions/{session}");
    let state = async || {
        let read = back_end.api.get(&path).await;
        (text(&read["executionState"]), number(&read["version"]), read["activeCommandId"].clone())
    };
    let (_, version, _) = state().await;
    runner.acknowledge(&first).await;
    runner.report(&first, "completed").await;
    assert_eq!(state().await, ("running".to_owned(), version + 1, json!(second)), "another one waits");
    runner.acknowledge(&second).await;
    runner.report(&second, "failed").await;
    assert_eq!(state().await, ("terminal".to_owned(), version + 2, json!(null)));
    assert_eq!(runner.try_report_run(json!({ "status": "completed" })).await.status, 200);
    assert_eq!(state().await, ("terminal".to_owned(), version + 3, json!(null)), "the run has ended, too");

    // What its status shows of the last run is what the result shows.
    let (shown, result) =
        (back_end.api.get(&path).await, back_end.api.get(&format!("/runs/{run}/result")).await);
    for member in ["phase", "active", "lastSeq"] {
        assert_eq!(shown["liveness"][member], result["liveness"][member], "{member}: {shown}");
    }
    assert_eq!(shown["liveness"]["phase"], "terminal");
}

#[tokio::test]
async fn a_runner_reads_what_belongs_to_its_run() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let (run, command, runner) = back_end.working().await;
    runner.append(json!([replied(&command, "a", "the reply")])).await;
    assert_eq!(runner.api.events(&run).await, back_end.api.events(&run).await);
    let path = format!("/runs/{run}/commands/{command}");
    assert_eq!(runner.api.get(&path).await, back_end.api.get(&path).await);
    let result = runner.api.get(&format!("{path}/result")).await;
    assert_eq!((&result["reply"], &result["commandId"]), (&json!("the reply"), &json!(command)));
    runner.report(&command, "completed").await;
    let mut stream = runner.api.watch(&format!("/runs/{run}/events"), &[]).await;
    assert_eq!((stream.status, stream.next().await.expect("an event").id), (200, "1".to_owned()));
}

#[tokio::test]
async fn an_administrator_acts_for_every_listed_tenant() {
    let manager = TestManager::shared().await;
    let (admin, one, other) = (manager.admin().await, manager.back_end().await, manager.back_end().await);
    for back_end in [&one, &other] {
        let run = text(&admin.ok("POST", "/runs", &back_end.new_run(), 201).await["runId"]);
        assert_eq!(admin.get(&format!("/runs/{run}")).await, back_end.read(&run).await);
        let listed = admin.get(&format!("/runs?tenantId={}&limit=200", back_end.tenant)).await;
        let listed = listed["runs"].as_array().expect("runs");
        assert!(listed.iter().any(|one| one["runId"] == json!(run)), "{listed:?}");
        assert!(listed.iter().all(|one| one["tenantId"] == json!(back_end.tenant)), "{listed:?}");
        let ended = admin.ok("POST", &format!("/runs/{run}/cancel"), &json!({}), 200).await;
        assert_eq!(back_end.read(&run).await, ended);
    }
    let mut of_nobody = one.new_run();
    of_nobody["tenantId"] = json!("nobody");
    admin.refused("POST", "/runs", &of_nobody, (403, "tenant-policy-denied")).await;
}
