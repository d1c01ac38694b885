//! Three views of one log: pages, event streams and subscribed connections. And runners that wait for commands.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::client::{
    SETTINGS, StreamedEvent, TENANT_OF_AGENTS, TestBackEnd, TestManager, TestRunner, assert_contiguous,
    number, replied, said,
};
use crate::support::TestServer;
use crate::support::agent::ConnectedAgent;

/// The next event of a run on a connection, without what belongs to the connection.
async fn told(agent: &ConnectedAgent) -> Value {
    let mut event = agent.next_event().await;
    assert_eq!(event["method"], "event/run.event", "{event}");
    let params = event["params"].as_object_mut().expect("an object");
    params.retain(|name, _| !name.starts_with('_'));
    event["params"].take()
}

fn ends_run(event: &Value) -> bool {
    event["type"] == "terminal_status" && event["payload"]["scope"] == "run"
}

/// A run of the agents' tenant, with a runner that works on a turn.
async fn run_of_agents(manager: &TestManager) -> (TestBackEnd, String, String, TestRunner) {
    let back_end = manager.back_end_of(TENANT_OF_AGENTS).await;
    let (run, command, runner) = back_end.working().await;
    (back_end, run, command, runner)
}

/// Nothing else was on its way: what is said now in another run, which it watches from here on, is the next that comes.
async fn hears_nothing_else(manager: &TestManager, agent: &ConnectedAgent) {
    let (_, run, command, runner) = run_of_agents(manager).await;
    agent.call("run.subscribe", &json!({ "runId": run, "afterSeq": 0 })).await;
    runner.say(&command, "marker", "marker").await;
    let next = told(agent).await;
    assert_eq!((&next["runId"], &next["payload"]["text"]), (&json!(run), &json!("marker")), "{next}");
}

/// Ends the run, and gives its log.
async fn ended(back_end: &TestBackEnd, runner: &TestRunner, command: &str) -> Vec<Value> {
    runner.report(command, "completed").await;
    assert_eq!(runner.try_report_run(json!({ "status": "completed" })).await.status, 200);
    let events = back_end.api.events(&runner.run).await;
    assert_contiguous(&events);
    assert!(ends_run(events.last().expect("its end")));
    events
}

fn assert_same(streamed: &[StreamedEvent], events: &[Value]) {
    assert_eq!(streamed.len(), events.len());
    for (shown, event) in streamed.iter().zip(events) {
        assert_eq!(&shown.data, event);
        assert_eq!((&shown.id, json!(shown.name)), (&event["seq"].to_string(), event["type"].clone()));
    }
}

#[tokio::test]
async fn pages_streams_and_connections_show_the_same_in_the_same_order() {
    let manager = TestManager::shared().await;
    let agent = manager.server.agent("alice").await;
    let (back_end, run, command, runner) = run_of_agents(&manager).await;
    let path = format!("/runs/{run}/events");
    let mut stream = back_end.api.watch(&path, &[]).await;
    assert_eq!(
        (stream.status, stream.header("content-type"), stream.header("cache-control")),
        (200, Some("text/event-stream"), Some("no-cache"))
    );
    let subscribed = agent.call("run.subscribe", &json!({ "runId": run, "afterSeq": 0 })).await;
    assert_eq!(subscribed, json!({ "subscribed": true, "lastSeq": 0 }));

    let writing = async {
        for batch in 0..40 {
            let events: Vec<Value> = (0..5)
                .map(|n| said(&command, &format!("e-{batch}-{n}"), &format!("ü {batch}\n{n}")))
                .collect();
            runner.append(json!(events)).await;
        }
        runner.append(json!([replied(&command, "last", "done")])).await;
        ended(&back_end, &runner, &command).await
    };
    let hearing = async {
        let mut heard = Vec::new();
        while !heard.last().is_some_and(ends_run) {
            heard.push(told(&agent).await);
        }
        heard
    };
    let (events, streamed, heard) = tokio::join!(writing, stream.rest(), hearing);
    assert_eq!(events.len(), 203);
    assert_same(&streamed, &events);
    assert_eq!(heard, events);
    hears_nothing_else(&manager, &agent).await;

    // Whoever comes later reads the same, from the beginning and from each seq on.
    for after in [0, 1, 100, 202, 203] {
        let rest = &events[after..];
        let query = format!("{path}?afterSeq={after}");
        assert_same(&back_end.api.watch(&query, &[]).await.rest().await, rest);
        // A browser that reconnects keeps the query that it began with.
        let id = after.to_string();
        let resumed =
            back_end.api.watch(&format!("{path}?afterSeq=7"), &[("Last-Event-ID", &id)]).await.rest().await;
        assert_same(&resumed, rest);
        agent.call("run.subscribe", &json!({ "runId": run, "afterSeq": after })).await;
        for event in rest {
            assert_eq!(&told(&agent).await, event, "from {after} on");
        }
    }
    hears_nothing_else(&manager, &agent).await;
}

#[tokio::test]
async fn a_stream_ends_with_its_run_and_not_before() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let (run, first, runner) = back_end.working().await;
    let mut stream = back_end.api.watch(&format!("/runs/{run}/events"), &[]).await;
    runner.report(&first, "completed").await;
    let end = stream.next().await.expect("the end of a command");
    assert_eq!((&*end.name, &end.data["payload"]["scope"]), ("terminal_status", &json!("command")));
    let second = back_end.turn(&run, "and then?").await;
    runner.acknowledge(&second).await;
    runner.say(&second, "e", "more").await;
    assert_eq!(stream.next().await.expect("it goes on").data["payload"]["text"], "more");
    back_end.api.ok("POST", &format!("/runs/{run}/cancel"), &json!({}), 200).await;
    runner.report(&second, "cancelled").await;
    let rest = stream.rest().await;
    assert_eq!(rest.len(), 2, "{rest:?}");
    assert!(ends_run(&rest[1].data));
}

#[tokio::test]
async fn a_subscription_begins_now_and_ends_when_it_is_said() {
    let manager = TestManager::shared().await;
    let (agent, other) = (manager.server.agent("alice").await, manager.server.agent("bobb").await);
    let (back_end, run, command, runner) = run_of_agents(&manager).await;
    runner.say(&command, "before", "before").await;
    let subscribed = agent.call("run.subscribe", &json!({ "runId": run })).await;
    assert_eq!(subscribed["lastSeq"], 1);
    other.call("run.subscribe", &json!({ "runId": run, "afterSeq": 0 })).await;
    runner.say(&command, "after", "after").await;
    assert_eq!(told(&agent).await["payload"]["text"], "after", "without a seq only what is new");
    assert_eq!(told(&other).await["payload"]["text"], "before");
    assert_eq!(told(&other).await["payload"]["text"], "after");
    let ended = agent.call("run.unsubscribe", &json!({ "runId": run })).await;
    assert_eq!(ended, json!({ "unsubscribed": true }));
    assert_eq!(agent.call("run.unsubscribe", &json!({ "runId": run })).await["unsubscribed"], false);
    runner.say(&command, "later", "later").await;
    assert_eq!(told(&other).await["payload"]["text"], "later");
    hears_nothing_else(&manager, &agent).await;
    let again = manager.server.reconnect(&other).await;
    runner.say(&command, "last", "last").await;
    // A subscription ends with its connection.
    hears_nothing_else(&manager, &again).await;
    assert_eq!(back_end.api.events(&run).await.len(), 4);
}

#[tokio::test]
async fn a_stream_is_refused_as_a_page_is() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let run = back_end.run().await;
    let path = format!("/runs/{run}/events");
    let other = manager.back_end().await;
    for (api, path, headers, status) in [
        (&other.api, path.clone(), vec![], 404),
        (&other.api.with(Some("forged")), path.clone(), vec![], 401),
        (&back_end.api, format!("{path}?afterSeq=-1"), vec![], 400),
        (&back_end.api, format!("{path}?afterSeq=x"), vec![], 400),
        (&back_end.api, path.clone(), vec![("Last-Event-ID", "evt_1")], 400),
    ] {
        assert_eq!(api.watch(&path, &headers).await.status, status, "{path} {headers:?}");
    }
    // Without asking for a stream it is a page, also when somebody takes anything.
    let page = back_end.api.send("GET", &path, &[("Accept", "*/*")], "").await;
    assert_eq!((page.status, &page.body["data"]["events"]), (200, &json!([])));
}

#[tokio::test]
async fn whoever_does_not_read_harms_nobody() {
    let manager = TestManager::shared().await;
    let (back_end, run, command, runner) = run_of_agents(&manager).await;
    let agent = manager.server.agent("alice").await;
    let silent = manager.server.connect_narrow(&agent, "phone").await;
    silent.call("run.subscribe", &json!({ "runId": run, "afterSeq": 0 })).await;
    let path = format!("/runs/{run}/events");
    let mut unread = Vec::new();
    for _ in 0..16 {
        unread.push(back_end.api.watch(&path, &[]).await);
    }
    let mut stream = back_end.api.watch(&path, &[]).await;
    let writing = async {
        // Far more than sockets and their buffers hold.
        for n in 0..150 {
            runner.say(&command, &format!("e-{n}"), &format!("{n:06}{}", "x".repeat(60_000))).await;
        }
        ended(&back_end, &runner, &command).await
    };
    let others = async {
        let other = manager.back_end().await;
        for _ in 0..50 {
            other.run().await;
        }
    };
    let (events, streamed, ()) = tokio::join!(writing, stream.rest(), others);
    assert_same(&streamed, &events);
    // Each of them reads everything when it does.
    for mut late in unread.drain(..2) {
        assert_same(&late.rest().await, &events);
    }
    assert_eq!(agent.call("run.get", &json!({ "runId": run })).await["run"]["status"], "completed");
}

/// Alone on its server, whose memory is measured: a reader that never reads is kept by nobody.
#[tokio::test]
async fn readers_that_never_read_cost_no_memory() {
    let manager = TestManager::of(TestServer::with(&SETTINGS).await);
    let back_end = manager.back_end().await;
    let (run, command, runner) = back_end.working().await;
    let path = format!("/runs/{run}/events");
    let mut unread = Vec::new();
    for _ in 0..32 {
        let stream = back_end.api.watch(&path, &[]).await;
        assert_eq!(stream.status, 200);
        unread.push(stream);
    }
    runner.say(&command, "warm", &"x".repeat(60_000)).await;
    let before = manager.server.memory();
    for n in 0..120 {
        runner.say(&command, &format!("e-{n}"), &format!("{n:06}{}", "x".repeat(60_000))).await;
    }
    // Of 7 MB for each of them, which is more than 220 MB.
    let grown = manager.server.memory().saturating_sub(before);
    println!("{} MiB more", grown >> 20);
    assert!(grown < 128 << 20, "{} MiB more", grown >> 20);
    let events = ended(&back_end, &runner, &command).await;
    for mut late in unread.into_iter().take(2) {
        assert_same(&late.rest().await, &events);
    }
}

#[tokio::test]
async fn a_runner_that_waits_is_answered_when_there_is_something() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let (run, first, runner) = back_end.working().await;
    runner.report(&first, "completed").await;
    let waiting = async || {
        let began = Instant::now();
        let answer = runner.api.call("GET", &runner.poll_path(0, 15_000), &Value::Null).await;
        let took = began.elapsed();
        assert!(took < Duration::from_secs(10), "it waited for {took:?}");
        answer
    };
    let (answer, second) = tokio::join!(waiting(), back_end.turn(&run, "a turn"));
    assert_eq!(answer.body["data"]["commands"][0]["commandId"], json!(second), "{}", answer.body);
    runner.acknowledge(&second).await;
    // What was seen already is behind the seq from which it asks.
    let path = runner.poll_path(2, 15_000);
    let question = json!({ "approvalId": "a-1", "reason": "may I?" });
    runner.append(json!([{ "clientEventId": "q", "type": "approval_request", "commandId": second, "payload": question }])).await;
    let began = Instant::now();
    let answering = async {
        let decision = json!({ "decision": "accept" });
        back_end.api.ok("POST", &format!("/runs/{run}/approvals/a-1"), &decision, 200).await
    };
    let (answer, _) = tokio::join!(runner.api.get(&path), answering);
    assert_eq!(answer["approvals"][0]["decision"], "accept", "{answer}");
    let resolved = json!({ "approvalId": "a-1", "decision": "accept" });
    runner.append(json!([{ "clientEventId": "r", "type": "approval_resolved", "commandId": second, "payload": resolved }])).await;
    let cancel = format!("/commands/{second}/cancel");
    let (answer, _) =
        tokio::join!(runner.api.get(&path), back_end.api.ok("POST", &cancel, &Value::Null, 200));
    assert_eq!(answer["commandIds"], json!([second]), "{answer}");
    runner.report(&second, "cancelled").await;
    let (answer, _) = tokio::join!(
        runner.api.call("GET", &path, &Value::Null),
        runner.try_report_run(json!({ "status": "completed" }))
    );
    assert_eq!(answer.status, 409, "the run has ended: {}", answer.body);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_runner_that_waits_in_vain_is_answered_after_its_time() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let (_, command, runner) = back_end.working().await;
    runner.report(&command, "completed").await;
    let began = Instant::now();
    let answer = runner.api.get(&runner.poll_path(0, 1200)).await;
    let took = began.elapsed();
    assert_eq!((&answer["commands"], number(&answer["nextAfterSeq"])), (&json!([]), 0));
    assert!(took >= Duration::from_millis(1190), "it was answered after {took:?}");
    let began = Instant::now();
    runner.poll().await;
    assert!(began.elapsed() < took, "without a time it is answered at once");
    assert!(answer["cancelScope"].is_null(), "{answer}");
}
