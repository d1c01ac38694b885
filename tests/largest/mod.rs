//! Every method at its largest legal input, as often as its rate allows: nobody else notices, and what the server holds stays within its
//! budgets. The calls are made from the schemas, so that a new namespace is among them.

mod answers;
mod attackers;
mod formats;
mod growth;
mod http;
mod inputs;
mod pattern;
mod witnesses;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use attackers::{Attackers, CONNECTIONS, LoggedIn, is_callable};
use proto_schemas::{Method, methods};
use serde_json::json;
use witnesses::PingingBystander;

use crate::schema::{publish, register};
use crate::support::agent::{at, random_hex};
use crate::support::envelope::put_key;
use crate::support::{TestServer, on_sqlite};

const MIB: u64 = 1 << 20;
/// What the server may hold in memory by its default settings: unfinished frames and bodies, outboxes of connections, answers over HTTP
/// that nobody reads, messages for one connection, messages with a ttl, thoughts.
const BUDGETS: u64 = (256 + 256 + 128 + 128 + 64 + 128) * MIB;
/// No ping of a bystander takes as long, and no runtime is as late.
const SLOW_PING: Duration = Duration::from_secs(1);
const LATE: Duration = Duration::from_millis(250);
/// What is accepted where the machine has other work or the server is built without optimization, in times that a frame of the largest
/// size takes on the idle server. On a quiet machine, and optimized, that is less than the limits above.
const FRAMES_PER_PING: u32 = 10;
const FRAMES_PER_LAG: u32 = 3;
/// The buckets of `aund_runtime_lag_seconds` from there on.
const LAG_BUCKETS: [f64; 3] = [0.25, 1.0, 5.0];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_method_at_its_largest_input_harms_nobody_else() {
    // Everybody acts for a tenant, so runs are among the calls.
    let server = Arc::new(TestServer::with("run.tenants.demo.aids = [\"*\"]").await);
    let attackers = Attackers {
        recipient: prepared(&server, "recipient").await,
        helper: prepared(&server, "helper").await,
        server: &server,
        calls: AtomicU64::new(0),
    };
    let frame_before = frame_time(&server).await;
    let bystander = PingingBystander::begin(&server).await;
    let (memory, disk) = (server.memory(), bytes_below(&server.data()));
    // What its start took is not what an agent did.
    let late_before = late_counts(&server).await;

    let (mut flaws, mut accepted, mut most_memory) = (Vec::new(), 0, 0);
    let methods = in_order();
    for method in &methods {
        bystander.now(method.name);
        let answers = attackers.attack(method).await;
        most_memory = most_memory.max(server.memory());
        accepted += answers.accepted_bytes;
        println!("{}: {answers}; {} MiB", method.name, server.memory() / MIB);
        flaws.extend(answers.flaws);
    }

    let slowest = bystander.end().await;
    let frame = frame_before.max(frame_time(&server).await);
    let (slow, late) =
        (SLOW_PING.max(FRAMES_PER_PING * frame), late_runtimes(&server, frame, late_before).await);
    let grown = most_memory.saturating_sub(memory);
    let written = bytes_below(&server.data()).saturating_sub(disk);
    println!(
        "{} methods; the slowest ping took {:?} during {}; a largest frame: {frame:?}; late by {} s: {} times; memory: {} MiB more than {}; {} MiB written for {} MiB",
        methods.len(),
        slowest.took,
        slowest.during,
        late.from,
        late.too_late,
        grown / MIB,
        memory / MIB,
        written / MIB,
        accepted / MIB,
    );
    assert!(flaws.is_empty(), "{}", flaws.join("\n"));
    assert!(slowest.took < slow, "a ping took {:?} during {}", slowest.took, slowest.during);
    assert_eq!(late.too_late, 0, "times the runtime was late by {} s", late.from);
    assert!(grown < BUDGETS, "{} MiB more than the {} before", grown / MIB, memory / MIB);
    if on_sqlite() {
        // Rows, their indexes and the log that they are written to first.
        assert!(written < 4 * accepted + 64 * MIB, "{} MiB for {} MiB", written / MIB, accepted / MIB);
    }
}

/// What changes something comes first, so that there is something to read.
fn in_order() -> Vec<&'static Method> {
    let mut callable: Vec<_> = methods().iter().filter(|method| is_callable(method)).collect();
    callable.sort_by_key(|method| method.repeatable);
    callable
}

/// An agent that is what examples need another agent to be. All its devices have been connected, so that each has an inbox.
async fn prepared(server: &TestServer, name: &str) -> LoggedIn {
    let agent = server.agent(name).await;
    put_key(&agent).await;
    publish(server, &agent).await;
    register(&agent).await;
    for connection in 0..CONNECTIONS {
        let id = formats::connection_id(connection);
        server.connect_with(&agent.identity, &agent.tokens, at(&id, &id)).await.close().await;
    }
    agent.close().await;
    LoggedIn { identity: agent.identity.clone(), tokens: agent.tokens.clone() }
}

/// How long a call takes whose frame has the largest size, on a server that does nothing else.
async fn frame_time(server: &TestServer) -> Duration {
    let agent = server.agent(&format!("measuring-{}", random_hex(4))).await;
    let params = json!({ "filling": vec![0; 600_000] });
    let mut times = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        agent.call("meta.ping", &params).await;
        times.push(began.elapsed());
    }
    agent.close().await;
    times.sort();
    times[times.len() / 2]
}

/// How often a runtime of the server was late, in all its processes.
struct LateRuntimes {
    too_late: usize,
    /// From how many seconds on it is too late.
    from: f64,
}

async fn late_runtimes(server: &TestServer, frame: Duration, before: [f64; 3]) -> LateRuntimes {
    let accepted = LATE.max(FRAMES_PER_LAG * frame).as_secs_f64();
    let [.., last] = LAG_BUCKETS;
    let from = LAG_BUCKETS.into_iter().find(|bucket| *bucket >= accepted).unwrap_or(last);
    let counts = late_counts(server).await;
    let at = LAG_BUCKETS.iter().position(|bucket| *bucket == from).expect("it is one of them");
    LateRuntimes { too_late: (counts[at] - before[at]).max(0.0) as usize, from }
}

/// How often a runtime was later than each bucket, since the start of its process.
async fn late_counts(server: &TestServer) -> [f64; 3] {
    let all = server.metric_of_all("aund_runtime_lag_seconds_count").await;
    let mut late = [0.0; 3];
    for (late, bucket) in late.iter_mut().zip(LAG_BUCKETS) {
        let in_time = format!("aund_runtime_lag_seconds_bucket{{le=\"{bucket:?}\"}}");
        // Measured between the two questions, it was in time.
        *late = (all - server.metric_of_all(&in_time).await).max(0.0);
    }
    late
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_below(&entry.path()),
        Ok(found) => found.len(),
        // What is gone meanwhile has none.
        Err(_) => 0,
    });
    sizes.sum()
}
