//! An even load for half an hour: what the server holds in memory comes to rest. It is not among the tests that run by themselves:
//! `tests/run soak`.

use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, interval, sleep_until};

use crate::support::agent::{ConnectedAgent, text};
use crate::support::{TestServer, setting};

const AGENTS: usize = 40;
/// What each agent does per second.
const SENDS: usize = 50;
const TASKS: usize = 4;
/// After how many seconds it connects anew.
const RECONNECT: usize = 2;
/// How much more memory there may be at the end than after the first third, in percent.
const GROWTH: u64 = 5;
/// How often memory is measured for the mean of a part of the time.
const SAMPLE: Duration = Duration::from_secs(2);
const MIB: u64 = 1 << 20;

/// Forty agents send, work on tasks and connect again and again.
struct SoakLoad<'a> {
    server: &'a TestServer,
    aids: Vec<String>,
    /// The tasks that wait for each agent.
    tasks: Vec<Mutex<Vec<String>>>,
    done: Mutex<SoakCounts>,
    until: Instant,
}

#[derive(Clone, Copy, Debug, Default)]
struct SoakCounts {
    sends: usize,
    tasks: usize,
    reconnects: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it takes half an hour: tests/run soak"]
async fn memory_comes_to_rest_under_an_even_load() {
    let minutes = setting("AUND_SOAK_MINUTES").map_or(30, |minutes| minutes.parse().expect("a number"));
    let server = TestServer::start().await;
    let mut agents = Vec::new();
    for n in 0..AGENTS {
        agents.push(server.agent(&format!("agent{n:02}")).await);
    }
    let began = Instant::now();
    let load = SoakLoad {
        server: &server,
        aids: agents.iter().map(|agent| agent.aid().to_owned()).collect(),
        tasks: (0..AGENTS).map(|_| Mutex::default()).collect(),
        done: Mutex::default(),
        until: began + Duration::from_secs(60 * minutes),
    };
    println!("{} MiB before the load", server.memory() / MIB);
    let live = agents.into_iter().enumerate().map(|(at, agent)| load.live(at, agent));
    let (_, samples) = tokio::join!(join_all(live), load.measure(began));

    let tenth = samples.len() / 10;
    let third = samples.len() / 3;
    let (after_third, at_end) =
        (mean(&samples[third..third + tenth]), mean(&samples[samples.len() - tenth..]));
    println!(
        "{:?}: {} MiB after the first third, {} MiB at the end",
        load.done.lock(),
        after_third / MIB,
        at_end / MIB
    );
    assert!(
        at_end * 100 <= after_third * (100 + GROWTH),
        "memory grew by more than {GROWTH} %: from {} MiB to {} MiB",
        after_third / MIB,
        at_end / MIB
    );
}

impl SoakLoad<'_> {
    /// What one agent does in each second.
    async fn live(&self, at: usize, mut agent: ConnectedAgent) {
        let (mut seconds, mut read) = (interval(Duration::from_secs(1)), 0);
        for second in 1.. {
            if Instant::now() > self.until {
                return;
            }
            seconds.tick().await;
            self.send(at, &agent).await;
            self.work(at, &agent).await;
            read = acknowledge(&agent, read).await;
            // The events that came meanwhile are not looked at.
            agent.kept().await;
            if (at + second).is_multiple_of(RECONNECT) {
                agent.close().await;
                agent = self.server.reconnect(&agent).await;
                self.done.lock().reconnects += 1;
            }
        }
    }

    async fn send(&self, at: usize, agent: &ConnectedAgent) {
        let to = &self.aids[(at + 1) % AGENTS];
        let message = json!({ "to": to, "payload": { "type": "text", "text": "x".repeat(200) } });
        agent.call_many("message.send", &vec![message; SENDS]).await.into_iter().for_each(|sent| {
            sent.expect("a message is accepted");
        });
        self.done.lock().sends += SENDS;
    }

    /// Creates tasks for the next agent, and completes those that the one before has created.
    async fn work(&self, at: usize, agent: &ConnectedAgent) {
        let waiting = std::mem::take(&mut *self.tasks[at].lock());
        for task_id in &waiting {
            agent.call("task.accept", &json!({ "task_id": task_id })).await;
            agent.call("task.complete", &json!({ "task_id": task_id })).await;
        }
        self.done.lock().tasks += waiting.len();
        let next = (at + 1) % AGENTS;
        // An agent that is behind gets no more for a while: it may have so many that are open.
        if self.tasks[next].lock().len() > 4 * TASKS {
            return;
        }
        let task = json!({ "to": self.aids[next], "input": { "type": "text", "content": "a short task" } });
        for created in agent.call_many("task.create", &vec![task; TASKS]).await {
            let created = created.expect("a task is accepted");
            self.tasks[next].lock().push(text(&created["task_id"]));
        }
    }

    /// What the server held, from the beginning to the end.
    async fn measure(&self, began: Instant) -> Vec<u64> {
        let mut samples = Vec::new();
        let mut minute = 0;
        while Instant::now() < self.until {
            let now = self.server.memory();
            samples.push(now);
            if began.elapsed().as_secs() / 60 >= minute {
                println!("minute {minute}: {} MiB, {:?}", now / MIB, self.done.lock());
                minute += 1;
            }
            sleep_until(Instant::now() + SAMPLE).await;
        }
        samples
    }
}

/// Reads what came, and says so.
async fn acknowledge(agent: &ConnectedAgent, read: i64) -> i64 {
    let page = agent.call("message.pull", &json!({ "after_seq": read, "limit": 200 })).await;
    let last = page["messages"].as_array().and_then(|messages| messages.last()?["seq"].as_i64());
    let Some(last) = last else { return read };
    agent.call("message.ack", &json!({ "seq": last })).await;
    last
}

fn mean(samples: &[u64]) -> u64 {
    samples.iter().sum::<u64>() / samples.len().max(1) as u64
}
