//! Agents whose tasks runs work on: somebody gives such an agent a task, a runner works on it, and the task tells how it goes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::local::{WAITS, go_on, nothing_is_left, runners, scripted, server, signal};
use crate::runs::client::{TestManager, number};
use crate::runs::kill::kill_service;
use crate::support::agent::{ConnectedAgent, aid, text};
use crate::support::domain::TestDomain;
use crate::support::{TestServer, split, until};

const WORKER: &str = "worker";

/// The tasks of an agent of this name are worked on with this profile.
fn works(name: &str, profile: &str) -> String {
    format!(
        "run.agents.\"{}\" = {{ tenant = \"l0\", profile = \"{profile}\", project = \"acme/tasks\" }}\n",
        aid(name)
    )
}

/// A server with the agent whose tasks the example back end works on, and one that gives it tasks.
async fn hired(settings: &str) -> (TestManager, ConnectedAgent) {
    let manager = server(&format!("{}{settings}", works(WORKER, "example")));
    manager.server.register(WORKER).await;
    let alice = manager.server.agent("alice").await;
    (manager, alice)
}

async fn give(owner: &ConnectedAgent, to: &str, words: &str) -> String {
    let new = json!({ "to": aid(to), "input": { "type": "text", "content": words } });
    text(&owner.call("task.create", &new).await["task_id"])
}

async fn say(owner: &ConnectedAgent, task: &str, words: &str) {
    let input = json!({ "task_id": task, "input": { "type": "text", "content": words } });
    owner.call("task.send_input", &input).await;
}

async fn get(owner: &ConnectedAgent, task: &str) -> Value {
    owner.call("task.get", &json!({ "task_id": task })).await
}

async fn until_is(owner: &ConnectedAgent, task: &str, status: &str) -> Value {
    let read = || async {
        let read = get(owner, task).await;
        let ended = !read["ended_at"].is_null();
        assert!(read["status"] == status || !ended, "{status} is waited for: {read}");
        (read["status"] == status).then_some(read)
    };
    until(&format!("{task} is {status}"), read).await
}

/// What a completed task has as its one result.
async fn reply(owner: &ConnectedAgent, task: &str) -> String {
    let read = until_is(owner, task, "completed").await;
    let artifacts = read["artifacts"].as_array().expect("a list");
    assert_eq!(artifacts.len(), 1, "{read}");
    let artifact = &artifacts[0];
    assert_eq!(
        (&artifact["id"], &artifact["type"], &artifact["mime_type"]),
        (&json!("reply"), &json!("text"), &json!("text/markdown"))
    );
    text(&artifact["content"])
}

/// All runs of the tenant.
async fn runs(manager: &TestManager) -> Vec<Value> {
    let back_end = manager.back_end_of("l0").await;
    let page = back_end.api.get("/runs?limit=200").await;
    page["runs"].as_array().expect("a list").clone()
}

/// The run that works on a task, by the payload of its turn.
async fn run_of(manager: &TestManager, task: &str) -> Value {
    for run in runs(manager).await {
        let commands = manager.server.by_operator("run.commands", &json!({ "runId": run["runId"] })).await;
        let commands = commands.expect("the operator sees commands");
        let mut all = commands["commands"].as_array().expect("a list").iter();
        if all.any(|command| command["payload"]["task"]["taskId"] == task) {
            return run;
        }
    }
    panic!("{task} has a run");
}

async fn job_of(manager: &TestManager, run: &Value) -> Value {
    let back_end = manager.back_end_of("l0").await;
    let jobs = back_end.api.get(&format!("/runs/{}/runner-jobs", text(&run["runId"]))).await;
    jobs["runnerJobs"].as_array().and_then(|jobs| jobs.last()).cloned().expect("it has a runner")
}

async fn until_run(manager: &TestManager, task: &str, status: &str) -> Value {
    let read = || async {
        let run = run_of(manager, task).await;
        (run["status"] == status).then_some(run)
    };
    until(&format!("the run is {status}"), read).await
}

#[tokio::test]
async fn a_task_becomes_a_run_and_its_reply_the_result() {
    let (manager, alice) = hired("").await;
    let titled = json!({
        "to": aid(WORKER), "title": "A question", "input": { "type": "text", "content": "What time is it?" },
    });
    let titled = text(&alice.call("task.create", &titled).await["task_id"]);
    let data = json!({ "to": aid(WORKER), "input": { "type": "json", "content": { "rows": [1, 2] } } });
    let data = text(&alice.call("task.create", &data).await["task_id"]);
    assert_eq!(reply(&alice, &titled).await, "You said: A question\n\nWhat time is it?");
    assert_eq!(reply(&alice, &data).await, "You said: {\"rows\":[1,2]}");
    let read = get(&alice, &titled).await;
    assert_eq!(
        (&read["assignee"], &read["artifacts"][0]["created_by"]),
        (&json!(aid(WORKER)), &json!(aid(WORKER)))
    );
    assert!(!read["accepted_at"].is_null());

    let run = until_run(&manager, &titled, "completed").await;
    assert_eq!((&run["tenantId"], &run["projectId"]), (&json!("l0"), &json!("acme/tasks")), "{run}");
    nothing_is_left(&manager, &job_of(&manager, &run).await).await;
    assert_eq!(runs(&manager).await.len(), 2, "one for each task");
}

#[tokio::test]
async fn the_owner_is_asked_and_its_answer_counts() {
    let (manager, alice) = hired("").await;
    let (yes, no, stop) = (
        give(&alice, WORKER, "/ask").await,
        give(&alice, WORKER, "/ask").await,
        give(&alice, WORKER, "/ask").await,
    );
    for task in [&yes, &no, &stop] {
        let asked = until_is(&alice, task, "input_required").await;
        let messages = asked["messages"].as_array().expect("a list");
        let question = messages.last().expect("it was asked");
        assert_eq!((&question["kind"], &question["from"]), (&json!("prompt"), &json!(aid(WORKER))));
        let words = text(&question["body"]["content"]);
        assert_eq!(words, "May the example go on?\n\nAnswer with one of: accept, decline.");
    }
    say(&alice, &yes, "Hm, let me think.").await;
    let again = until_is(&alice, &yes, "input_required").await;
    let last = again["messages"].as_array().and_then(|all| all.last().cloned()).expect("there are some");
    assert_eq!(
        last["body"]["content"],
        "This is no answer to the question. Answer with one of: accept, decline."
    );
    say(&alice, &yes, "Yes!").await;
    say(&alice, &no, "no").await;
    say(&alice, &stop, "cancel").await;
    assert_eq!(reply(&alice, &yes).await, "approved\nYou said: /ask");
    assert_eq!(reply(&alice, &no).await, "declined\nYou said: /ask");
    let stopped = until_is(&alice, &stop, "failed").await;
    assert!(text(&stopped["reason"]).starts_with("cancelled"), "{stopped}");
    let events =
        manager.back_end_of("l0").await.api.events(&text(&run_of(&manager, &yes).await["runId"])).await;
    let resolved = events.iter().find(|event| event["type"] == "approval_resolved").expect("it was answered");
    assert_eq!(
        (&resolved["payload"]["decision"], &resolved["payload"]["by"]),
        (&json!("accept"), &json!(alice.aid()))
    );
}

/// Its turn has ended with the answer of somebody else, and the task ends when its owner has said something, too.
#[tokio::test]
async fn a_task_that_waits_for_its_owner_is_left_alone_until_then() {
    if !split() {
        // Only calls between processes are counted.
        return;
    }
    let (manager, alice) = hired("").await;
    let task = give(&alice, WORKER, "/ask").await;
    until_is(&alice, &task, "input_required").await;
    let run = text(&run_of(&manager, &task).await["runId"]);
    let api = manager.back_end_of("l0").await.api;
    let asked = api.get(&format!("/runs/{run}/approvals")).await;
    let path = format!("/runs/{run}/approvals/{}", text(&asked["approvals"][0]["approvalId"]));
    api.ok("POST", &path, &json!({ "decision": "accept" }), 200).await;
    let ended = || async {
        let events = api.events(&run).await;
        events.iter().any(|event| event["type"] == "terminal_status").then_some(())
    };
    until("the turn ends", ended).await;

    // It is looked at now and then, and not asked each time whether it can be completed now.
    let answered = async |method: &str| {
        manager.server.metric_of_all(&format!("aund_requests_total{{method=\"task.{method}\"")).await
    };
    let looks = async |many: f64| {
        let before = answered("assigned").await;
        until("it is looked at", || async { (answered("assigned").await >= before + many).then_some(()) })
            .await;
    };
    looks(2.0).await;
    let before = answered("act").await;
    assert!(before > 0.0, "calls are counted");
    looks(6.0).await;
    assert_eq!(answered("act").await, before, "nothing is called");
    assert_eq!(get(&alice, &task).await["status"], "input_required");
    say(&alice, &task, "accept").await;
    assert_eq!(reply(&alice, &task).await, "approved\nYou said: /ask");
    until_run(&manager, &task, "completed").await;
}

#[tokio::test]
async fn what_is_said_meanwhile_is_guidance_and_a_task_that_is_canceled_stops_its_run() {
    let (manager, alice) = hired("").await;
    let (guided, canceled) = (give(&alice, WORKER, "/slow").await, give(&alice, WORKER, "/slow").await);
    until_is(&alice, &guided, "working").await;
    say(&alice, &guided, "quietly").await;
    until_is(&alice, &canceled, "working").await;
    let job = job_of(&manager, &run_of(&manager, &canceled).await).await;
    alice.call("task.cancel", &json!({ "task_id": canceled, "reason": "too late" })).await;
    let run = until_run(&manager, &canceled, "cancelled").await;
    assert_eq!(run["failureMessage"], "the task is canceled", "{run}");
    nothing_is_left(&manager, &job).await;
    let said = reply(&alice, &guided).await;
    assert!(said.contains("quietly") && said.ends_with("You said: /slow"), "{said}");
}

#[tokio::test]
async fn a_task_that_cannot_be_done_says_why() {
    let settings =
        format!("{}{}{}", scripted("dies", "exit 3"), works("broken", "dies"), works("locked", "deepseek"));
    let (manager, alice) = hired(&settings).await;
    manager.server.register("broken").await;
    manager.server.register("locked").await;
    let failed = give(&alice, WORKER, "/fail").await;
    let unreadable = json!({ "to": aid(WORKER), "input": { "type": "e2ee", "ciphertext": "x" } });
    let unreadable = text(&alice.call("task.create", &unreadable).await["task_id"]);
    let (broken, locked) = (give(&alice, "broken", "go").await, give(&alice, "locked", "go").await);
    let reason = async |task: &str, status: &str| text(&until_is(&alice, task, status).await["reason"]);
    assert_eq!(reason(&failed, "failed").await, "backend-failed: asked to fail");
    let sentence = "an input of type e2ee cannot be read by this agent: send text or json";
    assert_eq!(reason(&unreadable, "rejected").await, sentence);
    let sentence = reason(&broken, "failed").await;
    assert!(sentence.starts_with("backend-failed: "), "{sentence}");
    let sentence = reason(&locked, "rejected").await;
    assert!(sentence.contains("deepseek"), "{sentence}");
    until_run(&manager, &failed, "failed").await;
}

/// Each of those who take part is killed while a task is worked on; what the task says in the end is what its run did, once.
#[tokio::test]
async fn a_task_outlives_its_runner_and_the_server() {
    let (mut manager, mut alice) = hired("").await;
    let (lost, kept) = (give(&alice, WORKER, "/slow").await, give(&alice, WORKER, "/slow").await);
    for task in [&lost, &kept] {
        until_is(&alice, task, "working").await;
    }
    let job = job_of(&manager, &run_of(&manager, &lost).await).await;
    signal(number(&job["pid"]), "KILL");
    if split() {
        kill_service(&manager.server).await;
    } else {
        manager.server.kill();
        manager.server.start_again();
        manager.dial_again();
        alice = manager.server.reconnect(&alice).await;
    }
    let late = give(&alice, WORKER, "And you?").await;
    let words: Vec<String> = (1..=50).map(|number| format!("word{number}")).collect();
    assert_eq!(reply(&alice, &kept).await, format!("{}\nYou said: /slow", words.join(" ")));
    assert_eq!(reply(&alice, &late).await, "You said: And you?");
    // A turn that was begun is never run twice, and its replacement says so.
    let failed = until_is(&alice, &lost, "failed").await;
    assert!(text(&failed["reason"]).starts_with("backend-failed"), "{failed}");
    let runs: BTreeSet<String> = runs(&manager).await.iter().map(|run| text(&run["runId"])).collect();
    assert_eq!(runs.len(), 3, "one for each task");
}

/// In one process both are away together, which is the test before.
#[tokio::test]
async fn a_turn_that_ends_while_the_service_of_tasks_is_down_is_told_later() {
    if !split() {
        return;
    }
    let (manager, alice) = hired(&format!("{}{}", scripted("waits", WAITS), works("patient", "waits"))).await;
    manager.server.register("patient").await;
    let task = give(&alice, "patient", "Take your time.").await;
    until_is(&alice, &task, "working").await;
    let run = run_of(&manager, &task).await;
    let (job, back_end) = (job_of(&manager, &run).await, manager.back_end_of("l0").await);

    let held = manager.server.hold_down("task1").await;
    go_on(&runners(&manager), &text(&run["runId"]));
    let command = text(&job["commandId"]);
    let ended = || async {
        let read = back_end.read_command(&text(&run["runId"]), &command).await;
        (read["state"] == "completed").then_some(())
    };
    until("the turn ends", ended).await;
    let unheard = back_end.read(&text(&run["runId"])).await;
    assert!(unheard["terminalStatus"].is_null(), "nobody could be told: {unheard}");
    held.let_go().await;
    let answered = || async { alice.try_call("task.get", &json!({ "task_id": task })).await.ok().map(drop) };
    until("the service of tasks answers", answered).await;

    assert_eq!(reply(&alice, &task).await, "begun and done");
    until_run(&manager, &task, "completed").await;
    nothing_is_left(&manager, &job).await;
    assert_eq!(runs(&manager).await.len(), 1, "nothing was done twice");
}

/// More tasks than runners: they wait for each other, and none is lost.
#[tokio::test]
async fn many_tasks_at_once_are_worked_on_as_runners_become_free() {
    let (manager, alice) = hired("run.local_runners = 2\n").await;
    let words: Vec<String> = (0..8).map(|number| format!("task {number}")).collect();
    let mut given = Vec::new();
    for words in &words {
        given.push(give(&alice, WORKER, words).await);
    }
    for (task, words) in given.iter().zip(&words) {
        assert_eq!(reply(&alice, task).await, format!("You said: {words}"));
    }
    assert_eq!(runs(&manager).await.len(), 8);
}

#[tokio::test]
async fn an_agent_of_another_domain_hires_a_run() {
    let (near, far) = (TestDomain::new("near"), TestDomain::new("far"));
    let worker = format!("{WORKER}.{}", far.issuer);
    let mut settings = format!("run.tenants.l0 = {{}}\nrun.agents.\"{worker}\" = {{ tenant = \"l0\" }}\n");
    if split() {
        // The run service knows by itself only of a gateway in its own process.
        settings += &format!("run.manager_url = \"{}\"\n", far.plain_url());
    }
    let names = near.resolve() + &far.resolve();
    let (mut near, mut far) = (near.prepared(&names), far.prepared(&format!("{names}{settings}")));
    for server in [&mut near, &mut far] {
        server.start_again();
        server.knows_its_gateway().await;
    }
    near.trusts(&far).await;
    far.trusts(&near).await;
    far.register(WORKER).await;
    let alice = near.agent("alice").await;
    let give = async |words: &str| {
        let new = json!({ "to": worker, "input": { "type": "text", "content": words } });
        text(&alice.call("task.create", &new).await["task_id"])
    };
    let (plain, asks, stops) = (give("hello").await, give("/ask").await, give("/slow").await);
    assert_eq!(reply(&alice, &plain).await, "You said: hello");
    until_is(&alice, &asks, "input_required").await;
    say(&alice, &asks, "accept").await;
    assert_eq!(reply(&alice, &asks).await, "approved\nYou said: /ask");
    until_is(&alice, &stops, "working").await;
    alice.call("task.cancel", &json!({ "task_id": stops })).await;
    let all_over = || async {
        let runs = operator_runs(&far).await;
        runs.iter().all(|status| ["completed", "cancelled"].contains(&status.as_str())).then_some(runs)
    };
    let mut runs = until("all runs have ended", all_over).await;
    runs.sort();
    assert_eq!(runs, ["cancelled", "completed", "completed"]);
}

async fn operator_runs(server: &TestServer) -> Vec<String> {
    let page =
        server.by_operator("run.list", &json!({ "limit": 100 })).await.expect("the operator sees runs");
    page["runs"].as_array().expect("a list").iter().map(|run| text(&run["status"])).collect()
}
