//! The tests that the seed of the run manager lists, by their numbers.

use serde_json::{Value, json};

use super::client::{TestManager, TestRunner, assert_contiguous, number, replied, said, types};
use crate::support::agent::text;
use crate::support::{on_sqlite, until};

#[tokio::test]
async fn t1_manager_health_and_readiness() {
    let manager = TestManager::shared().await;
    let credential = "sk-t1healthandreadiness0123456789";
    let admin = manager.admin().await;
    let path = "/provider-profiles/dsflash-go";
    admin.ok("PUT", &format!("{path}/credential"), &json!({ "apiKey": credential }), 200).await;

    let live = manager.server.get("/api/v1/health/live").await;
    assert_eq!(live.status, 200, "{}", live.text());
    assert_eq!((&live.json()["ok"], &live.json()["serviceId"]), (&json!(true), &json!("agentrun-mgr")));
    for path in ["/api/v1/health", "/api/v1/health/readiness"] {
        let known = |body: &Value| {
            let refs = body["secrets"]["refs"].as_array().expect("a list of references").clone();
            let name = "agentrun-v01-provider-dsflash-go";
            refs.into_iter().find(|one| one["name"] == name).expect("a profile that is built in")
        };
        // An answer is given again for a moment.
        let ready = until("the credential is seen", || async {
            let ready = manager.server.get(path).await;
            (known(&ready.json())["present"] == true).then_some(ready)
        })
        .await;
        let body = ready.json();
        assert_eq!((ready.status, &body["ready"]), (200, &json!(true)), "{path}: {body}");
        assert_eq!(body["serviceId"], "agentrun-mgr", "{path}: {body}");
        let store = &body["store"];
        let adapter = if on_sqlite() { "sqlite" } else { "postgres" };
        assert_eq!(store["adapter"], adapter, "{path}: {body}");
        assert_eq!((&store["reachable"], &store["migrationReady"]), (&json!(true), &json!(true)), "{body}");
        assert!(!store["migrationId"].is_null(), "{path}: {body}");
        let build = &body["build"];
        assert!(build["version"].as_str().is_some_and(|version| !version.is_empty()), "{path}: {body}");
        assert!(build["sourceCommit"].as_str().is_some_and(|commit| !commit.is_empty()), "{path}: {body}");
        assert_eq!(body["secrets"]["valuesPrinted"], false, "{path}: {body}");
        assert!(body["launcher"].get("kind").is_some(), "{path}: {body}");
        assert!(body["failureKind"].is_null(), "{path}: {body}");
        assert!(!ready.text().contains(credential), "{path} shows a secret");
    }
    admin.ok("DELETE", path, &Value::Null, 200).await;
}

#[tokio::test]
async fn t2_run_schema_and_tenant_boundary() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end_of("hwlab").await;
    let valid = back_end.new_run();
    for member in ["tenantId", "projectId", "workspaceRef", "providerId", "backendProfile", "traceSink"] {
        let mut without = valid.clone();
        without.as_object_mut().expect("an object").remove(member);
        let refused = back_end.api.refused("POST", "/runs", &without, (400, "schema-invalid")).await;
        assert_eq!(refused["message"], format!("{member} is required"));
    }
    let with = |member: &str, value: Value| {
        let mut changed = valid.clone();
        changed[member] = value;
        changed
    };
    let wider = |policy: Value| with("executionPolicy", policy);
    let foreign =
        json!([{ "profile": "example", "secretRef": { "name": "somebody-elses", "keys": ["auth.json"] } }]);
    for (body, status, kind) in [
        (with("tenantId", json!("nobody")), 403, "tenant-policy-denied"),
        (with("tenantId", json!("unidesk")), 403, "tenant-policy-denied"),
        (with("backendProfile", json!("Not A Slug")), 400, "schema-invalid"),
        (with("backendProfile", json!("deepseek")), 409, "secret-unavailable"),
        (with("backendProfile", json!("minimax-m3")), 409, "secret-unavailable"),
        (wider(json!({ "sandbox": "danger-full-access" })), 403, "tenant-policy-denied"),
        (wider(json!({ "secretScope": { "allowCredentialEcho": true } })), 403, "tenant-policy-denied"),
        (wider(json!({ "secretScope": { "providerCredentials": foreign } })), 403, "tenant-policy-denied"),
    ] {
        back_end.api.refused("POST", "/runs", &body, (status, kind)).await;
    }
    let whole = with("workspaceRef", json!({ "branch": "main" }));
    let run = back_end.api.ok("POST", "/runs", &whole, 201).await;
    let read = back_end.read(&text(&run["runId"])).await;
    assert_eq!(read, run, "what was answered is what is stored");
    for (member, value) in valid.as_object().expect("an object") {
        let expected = if member == "workspaceRef" { &whole[member] } else { value };
        assert_eq!(&read[member], expected, "{read}");
    }
    let policy = &read["executionPolicy"];
    assert_eq!(
        (&policy["sandbox"], &policy["approval"], &policy["network"], &policy["timeoutMs"]),
        (&json!("workspace-write"), &json!("never"), &json!("enabled"), &json!(1_800_000)),
        "what is left out is completed: {read}"
    );
    assert!(policy["secretScope"].is_object(), "{read}");
    assert_eq!(
        (&read["status"], &read["lastSeq"], &read["lease"]),
        (&json!("pending"), &json!(0), &json!(null))
    );
}

#[tokio::test]
async fn t3_command_idempotency() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let run = back_end.run().await;
    let path = format!("/runs/{run}/commands");
    let body = json!({ "type": "turn", "payload": { "prompt": "a", "n": 1 }, "idempotencyKey": "k-1" });
    let first = back_end.api.ok("POST", &path, &body, 201).await;
    // The members in another order, and the key in the header, are the same request.
    let again = br#"{"payload":{"n":1,"prompt":"a"},"type":"turn"}"#.as_slice();
    let answer = back_end.api.send("POST", &path, &[("Idempotency-Key", "k-1")], again).await;
    assert_eq!((answer.status, &answer.body["data"]), (200, &first), "{}", answer.body);
    for other in [
        json!({ "type": "turn", "payload": { "prompt": "b", "n": 1 }, "idempotencyKey": "k-1" }),
        json!({ "type": "steer", "payload": { "prompt": "a", "n": 1 }, "idempotencyKey": "k-1" }),
    ] {
        let refused = back_end.api.refused("POST", &path, &other, (409, "idempotency-conflict")).await;
        assert_eq!(refused["details"]["existingCommandId"], first["commandId"]);
    }
    let read = back_end.read_command(&run, &text(&first["commandId"])).await;
    assert_eq!((&read, &read["seq"]), (&first, &json!(1)), "nothing was changed, and there is one");
    // The key belongs to its run.
    let other = back_end.run().await;
    let elsewhere = back_end.api.ok("POST", &format!("/runs/{other}/commands"), &body, 201).await;
    assert_ne!(elsewhere["commandId"], first["commandId"]);
}

#[tokio::test]
async fn t4_runner_claim_and_event_pagination() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let run = back_end.run().await;
    let command = back_end.turn(&run, "hello").await;
    // Nobody starts two runners for one command, but two commands of a run may have one each.
    let later = back_end.turn(&run, "later").await;
    let mut one = back_end.runner(&run, &command).await;
    let mut other = back_end.runner(&run, &later).await;
    assert_ne!(one.attempt, other.attempt);

    let (mine, yours) = tokio::join!(one.try_claim(5000), other.try_claim(5000));
    let statuses = [mine.status, yours.status];
    assert!(statuses.contains(&200) && statuses.contains(&409), "{} {}", mine.body, yours.body);
    let (won, lost) = if mine.status == 200 { (mine, yours) } else { (yours, mine) };
    if statuses[0] == 409 {
        std::mem::swap(&mut one, &mut other);
    }
    one.epoch = number(&won.body["data"]["lease"]["epoch"]);
    assert_eq!(lost.failure_kind(), "runner-lease-conflict");
    let details = &lost.body["details"];
    assert_eq!(
        (&details["ownerRunnerId"], &details["ownerAttemptId"], &details["retryable"]),
        (&json!(one.id), &json!(one.attempt), &json!(true))
    );
    assert_eq!(details["leaseExpiresAt"], won.body["data"]["lease"]["expiresAt"], "{details}");
    let wait = number(&details["retryAfterMs"]);
    assert!((1..=5000).contains(&wait), "{details}");

    one.acknowledge(&command).await;
    for page in 0..7 {
        let events: Vec<Value> =
            (0..10).map(|n| said(&command, &format!("e-{page}-{n}"), &format!("{page} {n}"))).collect();
        one.append(json!(events)).await;
    }
    // The owner falls silent, and nobody has stopped the other one from asking.
    let recovered = until("the lease expires", || async {
        let answer = other.try_claim(600_000).await;
        match answer.status {
            200 => Some(answer.body["data"].clone()),
            _ => {
                assert_eq!(answer.failure_kind(), "runner-lease-conflict", "{}", answer.body);
                None
            }
        }
    })
    .await;
    assert_eq!(
        (&recovered["recovered"], number(&recovered["lease"]["epoch"])),
        (&json!(true), one.epoch + 1)
    );
    other.epoch = one.epoch + 1;
    let polled = other.poll().await;
    assert_eq!(polled["commands"][0]["commandId"], json!(command), "what the first one began comes again");
    assert_eq!(polled["commands"][0]["acknowledgedEpoch"], json!(one.epoch));
    assert_eq!(
        one.try_append(json!([said(&command, "late", "late")])).await.failure_kind(),
        "runner-lease-conflict"
    );
    other.acknowledge(&command).await;
    other.say(&command, "e-end", "recovered").await;

    let mut paged = Vec::new();
    for limit in [1, 2, 7, 500] {
        let mut after = 0;
        paged.clear();
        loop {
            let page = back_end.api.get(&format!("/runs/{run}/events?afterSeq={after}&limit={limit}")).await;
            let events = page["events"].as_array().expect("events");
            assert!(events.len() <= limit, "{limit}");
            paged.extend(events.iter().cloned());
            after = number(&page["nextAfterSeq"]);
            if page["hasMore"] == false {
                assert_eq!(page["lastSeq"], json!(after), "the end was reached");
                break;
            }
        }
        assert_contiguous(&paged);
        assert_eq!(paged.len(), 73, "{:?}", types(&paged));
    }
    let noted: Vec<&Value> = paged.iter().filter(|event| event["type"] == "runner_status").collect();
    let phases: Vec<&Value> = noted.iter().map(|event| &event["payload"]).collect();
    assert_eq!(phases.len(), 2, "{phases:?}");
    for event in noted {
        let attempts = (&event["attemptId"], &event["payload"]["attemptId"]);
        assert_eq!(attempts, (&json!(other.attempt), &json!(other.attempt)), "{event}");
    }
    assert_eq!((&phases[0]["phase"], &phases[0]["runnerId"]), (&json!("claim-waiting"), &json!(other.id)));
    assert_eq!(
        (&phases[1]["phase"], &phases[1]["runnerId"], &phases[1]["previousRunnerId"]),
        (&json!("claim-recovered"), &json!(other.id), &json!(one.id))
    );
    let said = paged.iter().filter(|event| event["type"] == "assistant_message");
    let words: Vec<&str> = said.filter_map(|event| event["payload"]["text"].as_str()).collect();
    let expected: Vec<String> = (0..70).map(|n| format!("{} {}", n / 10, n % 10)).collect();
    assert_eq!(words[..70], expected, "in the order in which they were appended");
    assert_eq!(words[70], "recovered");
}

#[tokio::test]
async fn t5_manual_runner_job() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end_of("hwlab").await;
    let run = back_end.run().await;
    let command = back_end.turn(&run, "hello").await;
    let waiting = back_end.turn(&run, "later").await;
    let path = format!("/runs/{run}/runner-jobs");
    let body = json!({ "commandId": command, "launcher": "external", "idempotencyKey": "start-1" });
    let job = back_end.api.ok("POST", &path, &body, 201).await;
    assert_eq!((&job["runId"], &job["commandId"]), (&json!(run), &json!(command)));
    for member in
        ["runnerJobId", "attemptId", "jobName", "namespace", "logRef", "phase", "runnerToken", "manager"]
    {
        assert!(job[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {job}");
    }
    for member in ["podName", "pid", "runnerId"] {
        assert!(job.get(member).is_some_and(Value::is_null), "{member}: {job}");
    }
    assert!(!text(&job["logRef"]).contains('/'), "no path of the host: {job}");

    // Where to poll is where it is answered.
    for (name, id) in [("run", "runId"), ("command", "commandId"), ("runnerJob", "runnerJobId")] {
        let url = text(&job["poll"][name]);
        let read = back_end.api.get(url.strip_prefix("/api/v1").unwrap_or(&url)).await;
        assert_eq!(read[id], job[id], "{name}: {read}");
    }
    for name in ["events", "result"] {
        let url = text(&job["poll"][name]);
        back_end.api.get(url.strip_prefix("/api/v1").unwrap_or(&url)).await;
    }

    let mut again = back_end.api.ok("POST", &path, &body, 200).await;
    assert!(again["runnerToken"].is_null(), "a token is shown once: {again}");
    again["runnerToken"] = job["runnerToken"].clone();
    again["manager"] = job["manager"].clone();
    assert_eq!(again, job, "a repetition is the first job");
    let other = json!({ "commandId": waiting, "launcher": "external", "idempotencyKey": "start-1" });
    let refused = back_end.api.refused("POST", &path, &other, (409, "idempotency-conflict")).await;
    assert_eq!(refused["details"]["existingRunnerJobId"], job["runnerJobId"]);
    let twice = json!({ "commandId": command, "launcher": "external" });
    let refused = back_end.api.refused("POST", &path, &twice, (409, "job-already-active")).await;
    assert_eq!(refused["details"]["runnerJobId"], job["runnerJobId"]);
    let listed = back_end.api.get(&path).await;
    let listed = listed["runnerJobs"].as_array().expect("a list");
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["runnerJobId"], job["runnerJobId"]);
    assert!(listed[0].get("runnerToken").is_none_or(Value::is_null), "{listed:?}");

    let mut runner = TestRunner::register(&back_end.api, &job).await;
    runner.claim().await;
    let id = text(&job["runnerJobId"]);
    let read = back_end.api.get(&format!("{path}/{id}")).await;
    assert_eq!((&read["phase"], &read["runnerId"]), (&json!("running"), &json!(runner.id)));
    runner.acknowledge(&command).await;
    runner.report(&command, "completed").await;
    back_end.api.ok("POST", &format!("/commands/{waiting}/cancel"), &json!({}), 200).await;
    assert_eq!(runner.release().await["released"], true);
    let read = back_end.api.get(&format!("{path}/{id}")).await;
    assert_eq!(read["phase"], "succeeded", "{read}");
}

#[tokio::test]
async fn t6_command_and_run_end_apart() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let (run, first, runner) = back_end.working().await;
    let second = back_end.turn(&run, "and then?").await;
    let third = back_end.turn(&run, "never begun").await;
    runner.append(json!([replied(&first, "a", "the first reply")])).await;
    runner.report(&first, "completed").await;
    let read = back_end.read(&run).await;
    assert!(["claimed", "running"].contains(&&*text(&read["status"])), "{read}");
    assert!(read["terminalStatus"].is_null(), "{read}");

    runner.acknowledge(&second).await;
    runner.append(json!([replied(&second, "b", "the second reply")])).await;
    assert_eq!(back_end.read(&run).await["status"], "running");
    runner.report(&second, "completed").await;
    assert!(back_end.read(&run).await["terminalStatus"].is_null());
    for (command, reply) in [(&first, "the first reply"), (&second, "the second reply")] {
        let result = back_end.result(&run, command).await;
        assert_eq!(
            (&result["reply"], &result["status"], &result["terminalStatus"], &result["completed"]),
            (&json!(reply), &json!("completed"), &json!("completed"), &json!(true)),
            "{result}"
        );
        assert_eq!(result["scopedEventCount"], 2, "its reply and its end: {result}");
    }

    let fourth = back_end.turn(&run, "being worked on").await;
    runner.acknowledge(&fourth).await;
    let asked =
        back_end.api.ok("POST", &format!("/runs/{run}/cancel"), &json!({ "reason": "enough" }), 200).await;
    assert!(asked["terminalStatus"].is_null(), "its runner still works: {asked}");
    assert!(!asked["cancelRequestedAt"].is_null());
    assert_eq!(back_end.read_command(&run, &third).await["state"], "cancelled", "what waits ends at once");
    let heartbeat = runner.heartbeat().await;
    assert_eq!(
        (&heartbeat["cancelRequested"], &heartbeat["cancelScope"], &heartbeat["commandIds"]),
        (&json!(true), &json!("run"), &json!([fourth]))
    );
    runner.report(&fourth, "cancelled").await;
    let ended = back_end.read(&run).await;
    assert_eq!(
        (&ended["status"], &ended["failureKind"]),
        (&json!("cancelled"), &json!("cancelled")),
        "{ended}"
    );
    for (command, state) in
        [(&first, "completed"), (&second, "completed"), (&third, "cancelled"), (&fourth, "cancelled")]
    {
        assert_eq!(back_end.read_command(&run, command).await["state"], state);
    }
    let events = back_end.api.events(&run).await;
    assert_contiguous(&events);
    let ends: Vec<(&Value, &Value)> = events
        .iter()
        .filter(|event| event["type"] == "terminal_status")
        .map(|event| (&event["payload"]["scope"], &event["commandId"]))
        .collect();
    let command = json!("command");
    assert_eq!(
        ends,
        [
            (&command, &json!(first)),
            (&command, &json!(second)),
            (&command, &json!(third)),
            (&command, &json!(fourth)),
            (&json!("run"), &json!(null)),
        ]
    );
}
