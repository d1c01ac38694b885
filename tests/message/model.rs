//! Any interleaving of sends, reads, acknowledgements, recalls, restarts and kills: every device sees every acknowledged
//! message exactly once, in the order of `seq`, without a hole, and cursors never go back.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use super::{BUSY, named};
use crate::support::agent::{ConnectedAgent, text};
use crate::support::envelope::{opened, put_key, sealed};
use crate::support::{TestServer, as_often};

#[derive(Clone, Debug)]
enum ModelStep {
    /// A message; one with the index of an earlier one is that message again.
    Send {
        from: usize,
        to: usize,
        again: Option<usize>,
        sealed: bool,
    },
    /// Messages from everybody at once.
    Burst {
        to: usize,
        many: usize,
    },
    Read {
        device: usize,
    },
    Ack {
        device: usize,
        percent: i64,
        second: bool,
    },
    Recall {
        from: usize,
        which: usize,
    },
    Restart,
    /// The server dies with so many messages on their way, which are then sent again.
    Kill {
        on_their_way: usize,
    },
}

fn step() -> impl Strategy<Value = ModelStep> {
    let send = (0..2_usize, 0..2_usize, proptest::option::weighted(0.2, 0..1000_usize), any::<bool>())
        .prop_map(|(from, to, again, sealed)| ModelStep::Send { from, to, again, sealed });
    prop_oneof![
        40 => send,
        10 => (0..2_usize, 2..20_usize).prop_map(|(to, many)| ModelStep::Burst { to, many }),
        15 => (0..DEVICES.len()).prop_map(|device| ModelStep::Read { device }),
        15 => (0..DEVICES.len(), 0..130_i64, any::<bool>())
            .prop_map(|(device, percent, second)| ModelStep::Ack { device, percent, second }),
        10 => (0..2_usize, 0..1000_usize).prop_map(|(from, which)| ModelStep::Recall { from, which }),
        1 => Just(ModelStep::Restart),
        2 => (0..20_usize).prop_map(|on_their_way| ModelStep::Kill { on_their_way }),
    ]
}

/// Two agents, three devices: who is at which one.
const DEVICES: [(usize, &str); 3] = [(0, "laptop"), (1, "laptop"), (1, "phone")];

/// For so long every message of a run can be recalled.
const RECALL_WINDOW: Duration = Duration::from_secs(115);

/// What must be true of the messages.
#[derive(Default)]
struct MessageModel {
    /// Every message that was answered: who sent it to whom.
    messages: BTreeMap<String, (usize, usize)>,
    recalled: BTreeSet<String>,
    /// What each device has seen at each seq. A message may become a tombstone, and nothing else changes.
    seen: [HashMap<i64, String>; 3],
    cursors: [i64; 3],
    next: usize,
}

struct ModelRun {
    server: TestServer,
    agents: Vec<ConnectedAgent>,
    model: MessageModel,
    began: Instant,
}

#[test]
fn whatever_happens_every_message_arrives_once_and_in_order() {
    let mut runner = TestRunner::new(Config {
        cases: as_often(6, 2),
        max_shrink_iters: 20,
        failure_persistence: None,
        ..Config::default()
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let scripts = proptest::collection::vec(step(), 120..160);
    let outcome = runner.run(&scripts, |script| {
        runtime.block_on(play(script));
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

async fn play(script: Vec<ModelStep>) {
    let server = TestServer::with(BUSY).await;
    let (alice, bob) = super::two(&server).await;
    let phone = server.connect_device(&bob, "phone", "default").await;
    let mut run = ModelRun {
        server,
        agents: vec![alice, bob, phone],
        model: MessageModel::default(),
        began: Instant::now(),
    };
    for agent in &run.agents {
        put_key(agent).await;
    }
    for step in script {
        run.take(step).await;
    }
    for device in 0..DEVICES.len() {
        run.read(device).await;
    }
}

impl ModelRun {
    async fn take(&mut self, step: ModelStep) {
        match step {
            ModelStep::Send { from, to, again, sealed } => self.send(from, to, again, sealed).await,
            ModelStep::Burst { to, many } => self.burst(to, many).await,
            ModelStep::Read { device } => self.read(device).await,
            ModelStep::Ack { device, percent, second } => self.ack(device, percent, second).await,
            ModelStep::Recall { from, which } => self.recall(from, which).await,
            ModelStep::Restart => {
                self.server.restart().await;
                self.come_back().await;
            }
            ModelStep::Kill { on_their_way } => self.kill(on_their_way).await,
        }
    }

    fn fresh(&mut self) -> String {
        self.model.next += 1;
        format!("m-{}", self.model.next)
    }

    fn message(&self, from: usize, to: usize, id: &str, encrypted: bool) -> Value {
        let aid = self.agents[to].aid();
        if encrypted { sealed(&self.agents[from], aid, id) } else { named(aid, id, id) }
    }

    async fn send(&mut self, from: usize, to: usize, again: Option<usize>, encrypted: bool) {
        let old = again.and_then(|n| self.model.messages.iter().nth(n % self.model.messages.len().max(1)));
        let (id, from, known) = match old {
            Some((id, (sender, _))) => (id.clone(), *sender, true),
            None => (self.fresh(), from, false),
        };
        // An encrypted message to oneself would need another row for every other device; a plain one does the same here.
        let message = self.message(from, to, &id, encrypted && from != to);
        let sent = self.agents[from].call("message.send", &message).await;
        assert_eq!(sent["status"] == "duplicate", known, "{id}: {sent}");
        self.model.messages.entry(id).or_insert((from, to));
    }

    async fn burst(&mut self, to: usize, many: usize) {
        let mut messages = [Vec::new(), Vec::new()];
        for n in 0..many {
            let id = self.fresh();
            messages[n % 2].push(self.message(n % 2, to, &id, false));
            self.model.messages.insert(id, (n % 2, to));
        }
        let [mine, theirs] = &messages;
        let (mine, theirs) = futures_util::join!(
            self.agents[0].call_many("message.send", mine),
            self.agents[1].call_many("message.send", theirs)
        );
        for outcome in mine.iter().chain(&theirs) {
            assert!(outcome.is_ok(), "{outcome:?}");
        }
    }

    async fn recall(&mut self, from: usize, which: usize) {
        let Some((id, (sender, _))) =
            self.model.messages.iter().nth(which % self.model.messages.len().max(1))
        else {
            return;
        };
        let (id, mine) = (id.clone(), *sender == from);
        let answer = self.agents[from].call("message.recall", &json!({ "message_ids": [id] })).await;
        if answer["errors"][0]["error"] == "expired" && self.began.elapsed() > RECALL_WINDOW {
            return;
        }
        let expected = i32::from(mine && !self.model.recalled.contains(&id));
        assert_eq!(answer["recalled"], expected, "{id}: {answer}");
        if expected == 1 {
            self.model.recalled.insert(id);
        }
    }

    async fn ack(&mut self, device: usize, percent: i64, second: bool) {
        let head = self.rows(device).await.len();
        let head = i64::try_from(head).expect("a small number");
        let seq = head * percent / 100;
        let (method, member) = if second { ("message.v2.ack", "up_to_seq") } else { ("message.ack", "seq") };
        let acked = self.agents[device].call(method, &json!({ (member): seq })).await;
        let cursor = self.model.cursors[device].max(seq.min(head));
        assert_eq!(acked["ack_seq"], cursor, "from {} to {seq} of {head}", self.model.cursors[device]);
        self.model.cursors[device] = cursor;
    }

    async fn kill(&mut self, on_their_way: usize) {
        let mut cut_off = Vec::new();
        for n in 0..on_their_way {
            let id = self.fresh();
            let (from, to) = (n % 2, (n / 2) % 2);
            let message = self.message(from, to, &id, n % 3 == 0 && from != to);
            self.agents[from].ask("message.send", &message).await;
            cut_off.push((id, from, to, message));
        }
        self.server.kill();
        self.server.start_again();
        self.come_back().await;
        // Nobody knows what became of them, so they are sent again, as clients do: there once, whatever it was.
        for (id, from, to, message) in cut_off {
            self.agents[from].call("message.send", &message).await;
            self.model.messages.insert(id, (from, to));
        }
    }

    async fn come_back(&mut self) {
        for device in 0..DEVICES.len() {
            self.agents[device] = self.server.reconnect(&self.agents[device]).await;
        }
    }

    /// Everything in the inbox of a device, page by page.
    async fn rows(&self, device: usize) -> Vec<Value> {
        let mut rows = Vec::new();
        loop {
            let page = self.agents[device]
                .call("message.v2.pull", &json!({ "after_seq": rows.len(), "limit": 50 }))
                .await;
            assert_eq!(page["server_ack_seq"], self.model.cursors[device], "the cursor of {device}");
            rows.extend(super::rows(&page).clone());
            if page["has_more"] == false {
                return rows;
            }
        }
    }

    /// Compares the inbox of a device with the model.
    async fn read(&mut self, device: usize) {
        let rows = self.rows(device).await;
        let owner = DEVICES[device].0;
        let (mut found, mut notices) = (BTreeMap::new(), BTreeSet::new());
        for (n, row) in rows.iter().enumerate() {
            let (seq, id) = (row["seq"].as_i64().expect("a seq"), text(&row["message_id"]));
            assert_eq!(usize::try_from(seq).expect("a small number"), n + 1, "no hole: {row}");
            let before = self.model.seen[device].insert(seq, id.clone());
            assert!(
                before.as_ref().is_none_or(|before| *before == id),
                "seq {seq} was {before:?} and is {id}"
            );
            if self.model.messages.contains_key(&id) {
                assert!(found.insert(id.clone(), row).is_none(), "{id} is there twice");
            } else {
                assert_eq!(row["type"], "message.recalled", "nobody sent this: {row}");
                let of = text(&row["legacy_v1"]["payload"]["message_ids"][0]);
                assert!(notices.insert(of), "a notice twice: {row}");
            }
        }
        let expected: BTreeSet<&String> =
            self.model.messages.iter().filter(|(_, (_, to))| *to == owner).map(|(id, _)| id).collect();
        assert_eq!(found.keys().collect::<BTreeSet<_>>(), expected, "the messages at {device}");
        let recalled: BTreeSet<String> =
            self.model.recalled.iter().filter(|id| expected.contains(id)).cloned().collect();
        assert_eq!(notices, recalled, "the notices at {device}");
        for (id, row) in found {
            check(&id, row, recalled.contains(&id));
        }
        self.events_ascend(device).await;
    }

    /// Events of this connection came in the order of their seq.
    async fn events_ascend(&self, device: usize) {
        let mut last = 0;
        for event in self.agents[device].events_so_far().await {
            let of_inbox = event["method"] != "event/message.ack";
            let Some(seq) = event["params"]["seq"].as_i64().filter(|_| of_inbox) else { continue };
            assert!(seq > last, "{seq} was told after {last}");
            last = seq;
        }
    }
}

fn check(id: &str, row: &Value, recalled: bool) {
    if recalled {
        assert_eq!(row["type"], "message.recalled", "{row}");
        assert!(row.get("envelope_json").is_none(), "{row}");
    } else if row["version"] == "v2" {
        assert_eq!(opened(&row["envelope_json"])["aad"]["message_id"], id);
    } else {
        assert_eq!(row["legacy_v1"]["payload"]["text"], id);
    }
}
