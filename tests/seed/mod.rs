//! The samples of the protocol's document on the business layer, by name: each is sent as it stands there, in the domain that it
//! names, and what the server says is compared with it member by member.
//!
//! Three things cannot stand as they do: Bob, whose name is shorter than an AID may be, is Bobb here; ids of tasks and messages, and
//! cursors, are those that this server gave out.

mod compare;

use std::collections::BTreeSet;
use std::sync::Mutex;

use compare::differences;
use serde_json::{Value, json};

use crate::support::agent::{ConnectedAgent, TestIdentity, at, text};
use crate::support::domain::TestDomain;
use crate::support::{TestServer, until};

const SAMPLES: &str = include_str!("business_layer.json");

/// Where the server says something else than a sample, and why.
const DEPARTURES: [(&str, &str); 4] = [
    // A message without a mode is stored and goes to every device, as the table of modes has it; the sample's message has none.
    ("message.send", r#".delivery_mode is "fanout", and "queue" in the sample"#),
    ("event/message.received", r#".delivery_mode is "fanout", and "queue" in the sample"#),
    // The second message is unknown, and not too old: nobody waits two minutes here.
    ("message.recall", r#".errors[].error is "not_found", and "expired" in the sample"#),
    // The root of this domain has a name of its own.
    ("meta.trust_roots", r#".root_cas[].name is "AUN Root CA aid.pub", and "AUN Root CA A" in the sample"#),
];

struct Samples {
    rows: Vec<Value>,
    used: Mutex<BTreeSet<String>>,
    departed: Mutex<BTreeSet<usize>>,
}

impl Samples {
    fn read() -> Samples {
        let rows = serde_json::from_str(SAMPLES).expect("the samples are JSON");
        Samples { rows, used: Mutex::default(), departed: Mutex::default() }
    }

    fn row(&self, name: &str) -> &Value {
        self.used.lock().expect("nobody panics with it").insert(name.to_owned());
        self.rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("there is a sample {name}"))
    }

    /// Sends the request of a sample with these texts in place of others, and compares the answer if the sample has one.
    async fn send(&self, name: &str, caller: &ConnectedAgent, own: &[(&str, &str)]) -> Value {
        let row = self.row(name);
        let mut request = row["request"].clone();
        if request.get("id").is_none() {
            (request["id"], request["jsonrpc"]) = (json!(0), json!("2.0"));
        }
        let answer = caller.answer_to(&with(&request, own).to_string()).await;
        assert_eq!((&answer["id"], &answer["jsonrpc"]), (&request["id"], &json!("2.0")), "{name}: {answer}");
        assert!(answer.get("error").is_none(), "{name}: {answer}");
        if let Some(sample) = row["answer"].get("result") {
            self.compare(name, &with(sample, own), &answer["result"]);
        }
        answer["result"].clone()
    }

    /// The error of a sample that names what only its own server has.
    async fn refused(&self, name: &str, caller: &ConnectedAgent) -> Value {
        caller.answer_to(&self.row(name)["request"].to_string()).await["error"]["code"].clone()
    }

    /// Waits for the event of a sample.
    async fn hear(&self, name: &str, listener: &ConnectedAgent, own: &[(&str, &str)]) {
        let sample = with(&self.row(name)["event"], own);
        loop {
            let event = listener.next_event().await;
            if event["method"] == sample["method"] {
                return self.compare(name, &sample["params"], &event["params"]);
            }
        }
    }

    fn compare(&self, name: &str, sample: &Value, said: &Value) {
        let mut found = differences(sample, said);
        found.retain(|difference| {
            let known = DEPARTURES.iter().position(|(of, what)| *of == name && what == difference);
            known.is_none_or(|at| {
                self.departed.lock().expect("nobody panics with it").insert(at);
                false
            })
        });
        assert!(found.is_empty(), "{name}: {}\n{said:#}", found.join("; "));
    }

    /// Every sample was sent or heard.
    fn all_were_used(&self) {
        let used = self.used.lock().expect("nobody panics with it");
        let unused: Vec<&Value> =
            self.rows.iter().map(|row| &row["name"]).filter(|name| !used.contains(&text(name))).collect();
        assert!(unused.is_empty(), "{unused:?}");
        let departed = self.departed.lock().expect("nobody panics with it");
        let over: Vec<_> =
            (0..DEPARTURES.len()).filter(|at| !departed.contains(at)).map(|at| DEPARTURES[at]).collect();
        assert!(
            over.is_empty(),
            "the server says now what the sample says; this is no departure any more: {over:?}"
        );
    }
}

/// A value with each of these texts replaced, wherever it stands.
fn with(value: &Value, own: &[(&str, &str)]) -> Value {
    let everywhere = [("bob.aid.pub", "bobb.aid.pub"), ("bob.company.com", "bobb.aid.pub")];
    let all = own.iter().chain(&everywhere);
    let text = all.fold(value.to_string(), |text, (from, to)| {
        text.replace(&format!("\"{from}\""), &format!("\"{to}\""))
    });
    serde_json::from_str(&text).expect("it is still JSON")
}

struct Agents {
    server: TestServer,
    alice: ConnectedAgent,
    bobb: TestIdentity,
    reviewer: ConnectedAgent,
    database_reviewer: ConnectedAgent,
}

async fn agents() -> Agents {
    let domain = TestDomain { issuer: "aid.pub".to_owned(), ..TestDomain::new("seed") };
    let mut server = domain.prepared("limits.classes.\"search.query\" = 1000000");
    server.start_again();
    let alice = server.register("alice").await;
    let alice = server.connect(&alice, at("device-001", "slot-a")).await;
    let (bobb, reviewer) = (server.register("bobb").await, server.agent("reviewer").await);
    let database_reviewer = server.agent("db-reviewer").await;
    Agents { server, alice, bobb, reviewer, database_reviewer }
}

#[tokio::test]
async fn the_samples_of_the_business_layer_are_answered_as_they_are_written() {
    let (samples, agents) = (Samples::read(), agents().await);
    meta(&samples, &agents).await;
    messages(&samples, &agents).await;
    search(&samples, &agents).await;
    tasks(&samples, &agents).await;
    samples.all_were_used();
}

async fn meta(samples: &Samples, agents: &Agents) {
    for name in ["meta.ping", "meta.status", "meta.trust_roots"] {
        samples.send(name, &agents.alice, &[]).await;
    }
}

async fn messages(samples: &Samples, Agents { server, alice, bobb, .. }: &Agents) {
    let sent = samples.send("message.send", alice, &[]).await;
    let bobb = server.connect(bobb, at("device-001", "slot-a")).await;
    let pulled = samples.send("message.pull", &bobb, &[]).await;
    assert_eq!((&pulled["count"], &pulled["latest_seq"]), (&json!(1), &sent["seq"]));
    // The sample acknowledges what its server had sent by then.
    let acked = samples.row("message.ack")["request"]["params"].clone();
    assert_eq!(acked, json!({ "seq": 43, "device_id": "device-001", "slot_id": "slot-a" }));
    let seq = sent["seq"].as_i64().expect("a number");
    let ack = json!({ "seq": seq, "device_id": "device-001", "slot_id": "slot-a" });
    samples.compare(
        "message.ack",
        &json!({ "success": true, "ack_seq": seq }),
        &bobb.call("message.ack", &ack).await,
    );
    hear_ack(samples, alice, seq).await;

    let reply = json!({ "to": alice.aid(), "payload": { "type": "text", "text": "你好" } });
    bobb.call("message.send", &reply).await;
    samples.hear("event/message.received", alice, &[]).await;

    let own = [
        ("uuid-1", sent["message_id"].as_str().expect("text")),
        ("uuid-2", "00000000-0000-4000-8000-000000000002"),
    ];
    samples.send("message.recall", alice, &own).await;
    samples.hear("event/message.recalled", &bobb, &own).await;
    samples.send("message.query_online", alice, &[]).await;

    samples.send("peer.offer", alice, &[]).await;
    let offered = samples.row("peer.offer")["request"]["params"]["payload"].clone();
    let event = bobb.next_event().await;
    assert_eq!((&event["params"]["payload"], &event["params"]["delivery_mode"]), (&offered, &json!("queue")));
}

/// The event of the sample, with the seq that was acknowledged here.
async fn hear_ack(samples: &Samples, alice: &ConnectedAgent, seq: i64) {
    let mut sample = with(&samples.row("event/message.ack")["event"], &[]);
    sample["params"]["ack_seq"] = json!(seq);
    let event = alice.next_event().await;
    assert_eq!(event["method"], sample["method"]);
    samples.compare("event/message.ack", &sample["params"], &event["params"]);
}

/// The document that the answers of the samples describe.
const REVIEWER: &str = "---\naid: \"reviewer.aid.pub\"\nname: \"Reviewer\"\ntype: \"assistant\"\nversion: \"1.0.0\"\n\
    description: \"面向工程团队的代码审查 Agent\"\ntags:\n  - coding\n  - review\n---\n# Reviewer\n\nAn assistant for code review.\n";

async fn search(samples: &Samples, Agents { server, alice, reviewer, database_reviewer, .. }: &Agents) {
    for (agent, text) in [
        (database_reviewer, REVIEWER.replace("reviewer.aid", "db-reviewer.aid").replace("[coding", "[sql")),
        (reviewer, REVIEWER.to_owned()),
    ] {
        let put = server
            .http("PUT", "/agent.md")
            .host(agent.aid())
            .bearer(&agent.tokens.access)
            .body(text)
            .send()
            .await;
        assert_eq!(put.status, 200, "{}", put.text());
        let wanted = json!({ "aid": agent.aid() });
        until("the directory lists it", || async { alice.try_call("search.get_agent", &wanted).await.ok() })
            .await;
    }
    let gone = server.http("DELETE", "/agent.md").host(database_reviewer.aid());
    assert_eq!(gone.bearer(&database_reviewer.tokens.access).send().await.status, 204);
    let wanted = json!({ "aid": database_reviewer.aid() });
    until("the directory lists it no more", || async {
        alice.try_call("search.get_agent", &wanted).await.err()
    })
    .await;

    let question = &samples.row("search.query")["request"]["params"];
    until("searches find one and not the other", || async {
        let found = alice.try_call("search.query", question).await.ok()?;
        let aids: Vec<&Value> = found["items"].as_array()?.iter().map(|item| &item["aid"]).collect();
        (aids == ["reviewer.aid.pub"]).then_some(())
    })
    .await;
    let info = samples.send("search.ap_info", alice, &[]).await;
    samples.send("search.query", alice, &[]).await;
    let found = samples.send("search.get_agent", alice, &[]).await;
    assert_eq!(found["agent_md"], REVIEWER);
    let suggested = alice.answer_to(&samples.row("search.suggest")["request"].to_string()).await;
    for suggestion in suggested["result"]["suggestions"].as_array().expect("a list") {
        assert!(["query", "tag", "aid"].iter().any(|kind| suggestion["type"] == *kind), "{suggested}");
    }
    // That of the sample begins no name, tag or question here.
    let suggested = alice.call("search.suggest", &json!({ "prefix": "cod" })).await;
    let tag = json!({ "type": "tag", "value": "coding" });
    assert!(suggested["suggestions"].as_array().expect("a list").contains(&tag), "{suggested}");
    snapshot(samples, alice, &info).await;
}

/// A snapshot and a cursor of another server are unknown here; those of this one are answered.
async fn snapshot(samples: &Samples, alice: &ConnectedAgent, info: &Value) {
    assert_eq!(samples.refused("search.snapshot", alice).await, -32163);
    assert_eq!(samples.refused("search.changes", alice).await, -32164);
    assert_eq!(
        info["capabilities"],
        json!({ "query": true, "suggest": true, "snapshot": true, "changes": true })
    );
    let own = [("chg_00000920", "chg_00000000")];
    let answer = alice.answer_to(&with(&samples.row("search.changes")["request"], &own).to_string()).await;
    let changes = answer["result"]["changes"].as_array().expect("a list").clone();
    let ops: Vec<(&Value, &Value)> = changes.iter().map(|change| (&change["op"], &change["aid"])).collect();
    let (upsert, delete) = (json!("upsert"), json!("delete"));
    assert!(ops.contains(&(&upsert, &json!("reviewer.aid.pub"))), "{answer}");
    assert!(ops.contains(&(&delete, &json!("db-reviewer.aid.pub"))), "{answer}");
    let sample = &samples.row("search.changes")["answer"]["result"]["changes"][0];
    let listed =
        changes.iter().find(|change| change["op"] == "upsert" && change["aid"] == "reviewer.aid.pub");
    assert_eq!(differences(sample, listed.expect("it is listed")), [""; 0]);
    let ours = alice.call("search.snapshot", &json!({ "limit": 500 })).await;
    let sample = &samples.row("search.snapshot")["answer"]["result"]["items"][0];
    assert_eq!(differences(sample, &ours["items"][0]), [""; 0]);
}

async fn tasks(samples: &Samples, Agents { alice, reviewer, database_reviewer, .. }: &Agents) {
    let create = async || text(&samples.send("task.create", alice, &[]).await["task_id"]);
    let id = create().await;
    let own = [("task_01HV7J6N8F", id.as_str())];
    samples.send("task.subscribe", reviewer, &own).await;
    samples.send("task.accept", reviewer, &own).await;
    let question = json!({ "task_id": id, "message": { "type": "text", "content": "请提供 PR 链接" } });
    reviewer.call("task.request_input", &question).await;
    hear_question(samples, alice, &own).await;
    samples.send("task.send_input", alice, &own).await;
    let child = text(&samples.send("task.delegate", reviewer, &own).await["task_id"]);
    let children = samples.send("task.children", alice, &own).await;
    assert_eq!(children["children"][0]["task_id"], child.as_str(), "{children}");
    let listed = samples.send("task.list", alice, &own).await;
    assert_eq!(listed["items"][0]["task_id"], id.as_str(), "{listed}");
    for method in ["task.accept", "task.complete"] {
        database_reviewer.call(method, &json!({ "task_id": child })).await;
    }
    samples.send("task.complete", reviewer, &own).await;
    let whole = samples.send("task.get", alice, &own).await;
    assert_eq!((&whole["status"], &whole["owner"]), (&json!("completed"), &json!(alice.aid())));
    let artifact = &samples.row("task.complete")["request"]["params"]["artifacts"][0];
    assert_eq!(differences(artifact, &whole["artifacts"][0]), [""; 0]);
    for member in ["participants", "children", "messages", "visibility", "input", "assignee"] {
        assert!(whole.get(member).is_some(), "{member}: {whole}");
    }
    for (method, caller, accept) in
        [("task.reject", reviewer, false), ("task.cancel", alice, false), ("task.fail", reviewer, true)]
    {
        let id = create().await;
        if accept {
            reviewer.call("task.accept", &json!({ "task_id": id })).await;
        }
        samples.send(method, caller, &[("task_01HV7J6N8F", id.as_str())]).await;
    }
}

/// The status and the question of the sample; the owner hears of other changes before.
async fn hear_question(samples: &Samples, alice: &ConnectedAgent, own: &[(&str, &str)]) {
    loop {
        let event = alice.next_event().await;
        if event["params"]["status"] == "input_required" {
            let sample = with(&samples.row("event/task.updated")["event"], own);
            return samples.compare("event/task.updated", &sample["params"], &event["params"]);
        }
    }
}
