//! Answers have a size, and a poll that has nothing new to say waits: what somebody has stored, or does not do, keeps nobody busy.

use super::support::{TestRun, TestRuns, admin, hwlab, refusal, runner, unidesk};
use kernel::Caller;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use testing::DAY_MS;
use tokio::time::{sleep, timeout};

const ATTEMPT: &str = "attempt_1";

/// A run, and the runner that has its lease.
struct LeasedRun<'a> {
    runs: &'a TestRuns,
    run: String,
    runner: String,
    caller: Caller,
}

fn id(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn new_run(tenant: &str, more: Value) -> Value {
    json!({
        "tenantId": tenant, "projectId": "acme/site", "workspaceRef": { "note": more }, "providerId": "G14",
        "backendProfile": "example", "traceSink": null,
    })
}

fn ids(list: &Value, name: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| id(&one[name])).collect()
}

fn seqs(page: &Value) -> Vec<i64> {
    page["commands"].as_array().unwrap().iter().map(|one| one["seq"].as_i64().unwrap()).collect()
}

impl<'a> LeasedRun<'a> {
    async fn begin(runs: &'a TestRuns) -> LeasedRun<'a> {
        LeasedRun::of(runs, new_run("hwlab", json!(null))).await
    }

    async fn of(runs: &'a TestRuns, new: Value) -> LeasedRun<'a> {
        let run = id(&runs.ok("run.create", new).await["run"]["runId"]);
        let caller = runner(&run, ATTEMPT);
        let register = json!({ "backendProfile": "example", "placement": "host-process" });
        let runner = id(&runs.call(&caller, "runner.register", register).await.unwrap()["runnerId"]);
        let leased = LeasedRun { runs, run, runner, caller };
        let claim = json!({ "attemptId": ATTEMPT, "leaseMs": 600_000 });
        leased.ask("runner.claim", claim).await;
        leased
    }

    async fn ask(&self, method: &str, mut params: Value) -> Value {
        (params["runId"], params["runnerId"]) = (json!(self.run), json!(self.runner));
        if method != "runner.claim" {
            params["epoch"] = json!(1);
        }
        self.runs.call(&self.caller, method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// The list of commands, which has no path over HTTP.
    async fn commands(&self, mut params: Value) -> Value {
        params["runId"] = json!(self.run);
        self.runs.call(&Caller::Operator, "run.commands", params).await.unwrap()
    }

    async fn submit(&self, payload: Value) -> String {
        let new = json!({ "runId": self.run, "type": "turn", "payload": payload });
        id(&self.runs.ok("run.command_create", new).await["command"]["commandId"])
    }

    /// A turn that the runner has begun with.
    async fn taken(&self) -> String {
        let command = self.submit(json!({ "prompt": "x" })).await;
        self.ask("runner.acknowledge", json!({ "commandId": command })).await;
        command
    }

    /// What a poll behind every command is answered, and how long that took.
    async fn poll(&self, wait_ms: i64) -> (Value, Duration) {
        let begun = Instant::now();
        let polled = self.ask("runner.poll_commands", json!({ "afterSeq": 1000, "waitMs": wait_ms })).await;
        (polled, begun.elapsed())
    }

    async fn question(&self, command: &str, number: usize, bytes: usize) {
        let part = "x".repeat(bytes / 3);
        let payload = json!({
            "approvalId": format!("q-{number}"), "reason": "command", "responseSchema": { "a": part, "b": part, "c": part },
        });
        let event = json!({
            "clientEventId": format!("e-{number}"), "type": "approval_request", "commandId": command,
            "payload": payload,
        });
        self.ask("runner.append_events", json!({ "events": [event] })).await;
        self.runs.test.world.clock.advance_ms(1);
    }

    async fn answer(&self, number: usize) {
        let answer = json!({ "runId": self.run, "approvalId": format!("q-{number}"), "decision": "accept" });
        self.runs.ok("run.approve", answer).await;
    }
}

#[tokio::test]
async fn a_page_of_commands_ends_with_the_one_that_fills_it() {
    let runs = TestRuns::open().await;
    let leased = LeasedRun::begin(&runs).await;
    let text = "x".repeat(400 << 10);
    for _ in 0..6 {
        leased.submit(json!({ "prompt": text })).await;
    }
    for (after, page, next) in [(0, vec![1, 2, 3], 3), (3, vec![4, 5, 6], 6), (6, vec![], 6)] {
        let polled = leased.ask("runner.poll_commands", json!({ "afterSeq": after, "limit": 100 })).await;
        assert_eq!((seqs(&polled), &polled["nextAfterSeq"]), (page, &json!(next)));
    }
    let some = leased.ask("runner.poll_commands", json!({ "limit": 2 })).await;
    assert_eq!(seqs(&some), [1, 2]);
    for (before, page, more) in [(100, vec![6, 5, 4], true), (4, vec![3, 2, 1], false), (1, vec![], false)] {
        let listed = leased.commands(json!({ "beforeSeq": before, "limit": 100 })).await;
        assert_eq!((seqs(&listed), &listed["hasMore"]), (page, &json!(more)));
    }
    let one = leased.commands(json!({ "limit": 1 })).await;
    assert_eq!((seqs(&one), &one["hasMore"]), (vec![6], &json!(true)));
}

#[tokio::test]
async fn a_command_has_at_most_half_a_mebibyte() {
    let runs = TestRuns::open().await;
    let leased = LeasedRun::begin(&runs).await;
    let of = |bytes: usize| json!({ "prompt": "x".repeat(bytes - r#"{"prompt":""}"#.len()) });
    let new = json!({ "runId": leased.run, "type": "turn", "payload": of((512 << 10) + 1) });
    assert_eq!(runs.refused("run.command_create", new).await, refusal("payload-too-large", 413));
    leased.submit(of(512 << 10)).await;
}

/// A secret of no bytes is shown with ten: what was stored fits on a page, and what is shown would not.
#[tokio::test]
async fn a_page_is_measured_as_it_is_shown() {
    let runs = TestRuns::open().await;
    let leased = LeasedRun::begin(&runs).await;
    for _ in 0..3 {
        leased.submit(json!({ "prompt": "x", "tokens": vec![""; 100_000] })).await;
    }
    let (mut before, mut seen) = (100, Vec::new());
    loop {
        let page = leased.commands(json!({ "beforeSeq": before, "limit": 100 })).await;
        assert!(page.to_string().len() < 3 << 20, "{}", page.to_string().len());
        seen.extend(seqs(&page));
        before = *seen.last().unwrap();
        if page["hasMore"] == false {
            break;
        }
    }
    assert_eq!(seen, [3, 2, 1]);
}

async fn listed(runs: &TestRuns, caller: &Caller, params: Value) -> Vec<Vec<String>> {
    let (mut pages, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let mut params = params.clone();
        if !cursor.is_null() {
            params["cursor"] = cursor;
        }
        let page = runs.call(caller, "run.list", params).await.unwrap();
        pages.push(ids(&page["runs"], "runId"));
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            return pages;
        }
    }
}

#[tokio::test]
async fn runs_of_several_tenants_are_one_list_with_every_run_once() {
    let runs = TestRuns::open().await;
    let (mut all, mut own) = (Vec::new(), Vec::new());
    for number in 0..7 {
        let (caller, tenant) = if number % 3 == 1 { (unidesk(), "unidesk") } else { (hwlab(), "hwlab") };
        let created = runs.call(&caller, "run.create", new_run(tenant, json!(null))).await.unwrap();
        all.insert(0, id(&created["run"]["runId"]));
        if tenant == "hwlab" {
            own.insert(0, all[0].clone());
        }
        runs.test.world.clock.advance_ms(1);
    }
    for limit in [1, 2, 3, 7, 200] {
        let pages = listed(&runs, &admin(), json!({ "limit": limit })).await;
        assert_eq!(pages.concat(), all, "{limit}");
        assert!(pages.iter().all(|page| (1..=limit).contains(&page.len())), "{limit}: {pages:?}");
        assert_eq!(listed(&runs, &hwlab(), json!({ "limit": limit })).await.concat(), own, "{limit}");
    }
    let ended = own.remove(2);
    runs.ok("run.cancel", json!({ "runId": ended })).await;
    assert_eq!(listed(&runs, &hwlab(), json!({ "open": true, "limit": 2 })).await.concat(), own);
    let open: Vec<String> = all.iter().filter(|run| **run != ended).cloned().collect();
    assert_eq!(listed(&runs, &admin(), json!({ "open": true, "limit": 2 })).await.concat(), open);
    assert_eq!(listed(&runs, &admin(), json!({ "tenantId": "hwlab", "open": true })).await.concat(), own);
    runs.sql("UPDATE run SET tenant = 'gone' WHERE tenant = 'unidesk'").await;
    assert_eq!(listed(&runs, &admin(), json!({})).await.concat(), all, "of a tenant that is listed no more");
}

#[tokio::test]
async fn a_page_of_runs_ends_with_the_one_that_fills_it() {
    let runs = TestRuns::open().await;
    for _ in 0..4 {
        runs.ok("run.create", new_run("hwlab", json!("NOTE"))).await;
        runs.test.world.clock.advance_ms(1);
    }
    // Larger than today's bounds allow: a page is measured, whatever they are.
    sqlx::query("UPDATE run SET fixed = replace(fixed, 'NOTE', $1)")
        .bind("x".repeat(400 << 10))
        .execute(runs.run.store.db().write_alone())
        .await
        .unwrap();
    let pages = listed(&runs, &hwlab(), json!({ "limit": 200 })).await;
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1]);
}

#[tokio::test]
async fn questions_of_one_answer_have_a_size_and_the_oldest_come_first() {
    let runs = TestRuns::open().await;
    let leased = LeasedRun::begin(&runs).await;
    let command = leased.taken().await;
    for number in 0..8 {
        leased.question(&command, number, 180 << 10).await;
    }
    let open = async || {
        let open = runs.ok("run.approvals", json!({ "runId": leased.run })).await;
        ids(&open["approvals"], "approvalId")
    };
    assert_eq!(open().await, ["q-0", "q-1", "q-2", "q-3", "q-4", "q-5"]);
    leased.answer(0).await;
    assert_eq!(open().await, ["q-1", "q-2", "q-3", "q-4", "q-5", "q-6"], "the next one is shown");
    for number in 1..8 {
        leased.answer(number).await;
    }
    assert!(open().await.is_empty());
    let heartbeat = leased.ask("runner.heartbeat", json!({})).await;
    for answer in [heartbeat, leased.poll(0).await.0] {
        let told = ids(&answer["approvals"], "approvalId");
        assert_eq!(told, ["q-0", "q-1", "q-2", "q-3", "q-4", "q-5"]);
    }
}

#[tokio::test]
async fn a_runner_is_told_of_a_cancel_at_once_and_then_once_a_second() {
    let runs = TestRuns::open().await;
    let leased = LeasedRun::begin(&runs).await;
    let (first, second) = (leased.taken().await, leased.taken().await);
    let at_once = Duration::from_millis(900);
    runs.ok("run.command_cancel", json!({ "commandId": first })).await;
    let (told, took) = leased.poll(20_000).await;
    assert!(took < at_once, "it is new: {took:?}");
    assert_eq!((&told["commandIds"], &told["cancelScope"]), (&json!([first]), &json!("command")));

    let (again, took) = leased.poll(20_000).await;
    assert_eq!(again, told);
    assert!((Duration::from_secs(1)..Duration::from_secs(10)).contains(&took), "{took:?}");
    let (_, took) = leased.poll(100).await;
    assert!((Duration::from_millis(100)..at_once).contains(&took), "no longer than it asked for: {took:?}");
    let (_, took) = leased.poll(0).await;
    assert!(took < at_once, "{took:?}");

    let later = async {
        sleep(Duration::from_millis(50)).await;
        runs.ok("run.command_cancel", json!({ "commandId": second })).await;
    };
    let ((both, took), ()) = tokio::join!(leased.poll(20_000), later);
    assert_eq!(both["commandIds"], json!([first, second]));
    assert!(took < at_once, "another cancel is new: {took:?}");
    for command in [&first, &second] {
        let ended = json!({ "commandId": command, "status": "cancelled" });
        leased.ask("runner.set_command_status", ended).await;
    }
    let (none, took) = leased.poll(1500).await;
    assert!(none["cancelRequested"] == false && took >= Duration::from_millis(1500), "{took:?} {none}");
}

#[tokio::test]
async fn the_answer_to_a_question_is_told_at_once_and_no_command_waits_for_it() {
    let runs = TestRuns::open().await;
    let leased = LeasedRun::begin(&runs).await;
    let command = leased.taken().await;
    leased.question(&command, 1, 30).await;
    leased.answer(1).await;
    let (told, took) = leased.poll(20_000).await;
    assert_eq!(ids(&told["approvals"], "approvalId"), ["q-1"]);
    assert!(took < Duration::from_millis(900), "{took:?}");
    leased.submit(json!({ "prompt": "y" })).await;
    let begun = Instant::now();
    let polled = leased.ask("runner.poll_commands", json!({ "afterSeq": 1, "waitMs": 20_000 })).await;
    assert_eq!(seqs(&polled), [2]);
    assert!(begun.elapsed() < Duration::from_millis(900), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn storage_is_measured_after_an_end_and_not_after_its_repetition() {
    let runs = TestRuns::open().await;
    let session = runs.session().await;
    let mut new = new_run("hwlab", json!(null));
    new["sessionRef"] = json!({ "sessionId": session });
    let leased = LeasedRun::of(&runs, new).await;
    let command = leased.taken().await;
    let idle = runs.run.tracker.len();
    let measured_at = async || {
        let measured = async {
            while runs.run.tracker.len() > idle {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(20), measured).await.expect("it is measured");
        runs.ok("session.storage", json!({ "sessionId": session })).await["storageUpdatedAt"].clone()
    };
    let completed = json!({ "commandId": command, "status": "completed" });
    leased.ask("runner.set_command_status", completed.clone()).await;
    let first = measured_at().await;
    assert!(first.is_string(), "{first}");
    runs.test.world.clock.advance_ms(1000);
    leased.ask("runner.set_command_status", completed).await;
    assert_eq!(measured_at().await, first);
}

#[tokio::test]
async fn every_run_whose_retention_is_over_is_removed() {
    let runs = TestRuns::open().await;
    for number in 0..120 {
        let (name, ended_at) = (format!("run_{number}"), Some(runs.now()));
        runs.insert_run(&TestRun { id: &name, ended_at, ..TestRun::NEW }).await;
    }
    assert_eq!(runs.run.remove_ended(runs.now() + 31 * DAY_MS).await.unwrap(), 120, "however many there are");
    let recounted = runs.call(&Caller::Operator, "run.account", json!({ "recount": true })).await.unwrap();
    assert_eq!(recounted["corrected"], 0);
}
