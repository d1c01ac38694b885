//! Leases under a clock that jumps, and a service that is started again: at most one runner has a run, nobody loses a lease before its
//! time, and what was asked to end ends.

use crate::tests::support::{TestRuns, hwlab, refusal, runner};
use crate::{RunService, Settings, service};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

const RUNNERS: usize = 3;
const ATTEMPT: &str = "attempt_1";

#[derive(Clone, Debug)]
enum LeaseStep {
    Claim {
        runner: usize,
        lease_ms: i64,
    },
    Renew {
        runner: usize,
    },
    Release {
        runner: usize,
    },
    Append {
        runner: usize,
    },
    /// Asked for, and confirmed by nobody: the sweep ends it when there is no lease.
    CancelRun,
    Sweep,
    /// Forward and back.
    Jump {
        ms: i64,
    },
    Restart,
}

fn step() -> impl Strategy<Value = LeaseStep> {
    let lengths = prop_oneof![Just(5000_i64), Just(60_000), 5000..600_000_i64];
    prop_oneof![
        8 => (0..RUNNERS, lengths).prop_map(|(runner, lease_ms)| LeaseStep::Claim { runner, lease_ms }),
        4 => (0..RUNNERS).prop_map(|runner| LeaseStep::Renew { runner }),
        1 => (0..RUNNERS).prop_map(|runner| LeaseStep::Release { runner }),
        5 => (0..RUNNERS).prop_map(|runner| LeaseStep::Append { runner }),
        1 => Just(LeaseStep::CancelRun),
        4 => Just(LeaseStep::Sweep),
        8 => prop_oneof![1..10_000_i64, 4998..5003_i64, 1..700_000_i64].prop_map(|ms| LeaseStep::Jump { ms }),
        2 => (1..100_000_i64).prop_map(|ms| LeaseStep::Jump { ms: -ms }),
        1 => Just(LeaseStep::Restart),
    ]
}

/// What must be true of the lease of a run.
#[derive(Clone, Debug, Default)]
struct LeaseModel {
    owner: Option<usize>,
    released: bool,
    epoch: i64,
    length: i64,
    until: i64,
    cancel_asked: bool,
    ended: bool,
    events: i64,
    refused: Vec<usize>,
    known_epochs: [i64; RUNNERS],
}

/// What must be true of the service.
struct ServiceModel {
    started_at: i64,
    last_now: i64,
}

impl LeaseModel {
    /// Each change is decided on at its time: after the clock was set back a lease lasts no longer than its length.
    fn at(&mut self, service: &mut ServiceModel, now: i64) {
        if now + 1000 < service.last_now || now < service.started_at {
            service.started_at = now;
        }
        service.last_now = now;
        self.until = self.until.min(now + self.length);
    }

    fn is_live(&self, service: &ServiceModel, now: i64) -> bool {
        self.owner.is_some() && !self.released && now < self.until.max(service.started_at + self.length)
    }

    fn holds(&self, runner: usize) -> bool {
        self.owner == Some(runner) && !self.released && self.epoch == self.known_epochs[runner]
    }
}

struct PlayedLease {
    runs: TestRuns,
    service: ServiceModel,
    model: LeaseModel,
    run: String,
    command: String,
    runners: Vec<String>,
    next: usize,
}

fn id(value: &Value) -> String {
    value.as_str().expect("an id").to_owned()
}

impl PlayedLease {
    /// A run with a turn that its first runner has taken.
    async fn begin(runs: TestRuns, service: ServiceModel) -> PlayedLease {
        let mut played = PlayedLease {
            runs,
            service,
            model: LeaseModel::default(),
            run: String::new(),
            command: String::new(),
            runners: Vec::new(),
            next: 0,
        };
        played.new_run().await;
        played
    }

    async fn new_run(&mut self) {
        let new = json!({
            "tenantId": "hwlab", "projectId": "acme/site", "workspaceRef": {}, "providerId": "G14",
            "backendProfile": "example", "traceSink": null, "executionPolicy": { "timeoutMs": 7_200_000 },
        });
        self.run = id(&self.runs.ok("run.create", new).await["run"]["runId"]);
        let turn = json!({ "runId": self.run, "type": "turn", "payload": { "prompt": "x" } });
        self.command = id(&self.runs.ok("run.command_create", turn).await["command"]["commandId"]);
        self.runners.clear();
        for _ in 0..RUNNERS {
            let register = json!({ "backendProfile": "example", "placement": "host-process" });
            self.runners
                .push(id(&self.ask("runner.register", register).await.expect("it registers")["runnerId"]));
        }
        let epochs = [0; RUNNERS];
        let now = self.runs.now();
        self.model = LeaseModel { length: 60_000, known_epochs: epochs, ..LeaseModel::default() };
        self.model.at(&mut self.service, now);
        self.claim(0, 60_000).await;
        let acknowledge = self.signed(0, json!({ "commandId": self.command }));
        self.ask("runner.acknowledge", acknowledge).await.expect("it is acknowledged");
    }

    async fn ask(&self, method: &str, params: Value) -> Result<Value, (String, u16)> {
        let caller = runner(&self.run, ATTEMPT);
        self.runs.call(&caller, method, params).await.map_err(|error| {
            let word = error.data("failureKind").and_then(Value::as_str);
            (word.unwrap_or(error.kind()).to_owned(), error.http_status().as_u16())
        })
    }

    fn signed(&self, runner: usize, mut more: Value) -> Value {
        more["runId"] = json!(self.run);
        more["runnerId"] = json!(self.runners[runner]);
        more["epoch"] = json!(self.model.known_epochs[runner]);
        more
    }

    async fn claim(&mut self, runner: usize, lease_ms: i64) {
        let now = self.runs.now();
        let (model, service) = (&mut self.model, &mut self.service);
        model.at(service, now);
        let mine = model.owner == Some(runner);
        let expected = match (model.ended, !mine && model.is_live(service, now)) {
            (true, _) => Err(refusal("cancelled", 409)),
            (false, true) => Err(refusal("runner-lease-conflict", 409)),
            (false, false) => Ok(()),
        };
        let params = json!({
            "runId": self.run, "runnerId": self.runners[runner], "attemptId": ATTEMPT, "leaseMs": lease_ms,
        });
        let answer = self.ask("runner.claim", params).await;
        let model = &mut self.model;
        assert_eq!(answer.as_ref().map(|_| ()).map_err(Clone::clone), expected, "{runner} {model:?}");
        let Ok(answer) = answer else {
            if !model.ended && !model.refused.contains(&runner) {
                model.refused.push(runner);
                model.events += 1;
            }
            return;
        };
        let recovered = !mine && model.owner.is_some() && !model.released;
        assert_eq!(answer["recovered"], json!(recovered), "{model:?}");
        if recovered {
            model.events += 1;
        }
        if !mine || model.released {
            model.epoch += 1;
        }
        assert_eq!(answer["lease"]["epoch"], json!(model.epoch));
        (model.owner, model.released) = (Some(runner), false);
        (model.length, model.until) = (lease_ms, now + lease_ms);
        model.known_epochs[runner] = model.epoch;
    }

    /// Whether a change of this runner is accepted, as the model says.
    fn expected_of(&mut self, runner: usize) -> Result<(), (String, u16)> {
        let now = self.runs.now();
        self.model.at(&mut self.service, now);
        match (self.model.ended, self.model.holds(runner)) {
            (true, _) => Err(refusal("cancelled", 409)),
            (false, true) => Ok(()),
            (false, false) => Err(refusal("runner-lease-conflict", 409)),
        }
    }

    async fn take(&mut self, step: &LeaseStep) {
        match *step {
            LeaseStep::Claim { runner, lease_ms } => self.claim(runner, lease_ms).await,
            LeaseStep::Renew { runner } => {
                let expected = self.expected_of(runner);
                let answer = self.ask("runner.heartbeat", self.signed(runner, json!({}))).await;
                assert_eq!(answer.map(|_| ()), expected, "{runner} {:?}", self.model);
                if expected.is_ok() {
                    self.model.until = self.runs.now() + self.model.length;
                }
            }
            LeaseStep::Release { runner } => {
                let expected = self.expected_of(runner);
                let answer =
                    self.ask("runner.heartbeat", self.signed(runner, json!({ "release": true }))).await;
                // Its command is open, so it goes on.
                let released = answer.map(|answer| assert_eq!(answer["released"], false));
                assert_eq!(released, expected, "{runner} {:?}", self.model);
            }
            LeaseStep::Append { runner } => {
                let expected = self.expected_of(runner);
                self.next += 1;
                let event = json!({
                    "clientEventId": format!("e-{}", self.next), "type": "assistant_message",
                    "commandId": self.command, "payload": { "text": "x" },
                });
                let params = self.signed(runner, json!({ "events": [event] }));
                let answer = self.ask("runner.append_events", params).await;
                assert_eq!(answer.map(|_| ()), expected, "{runner} {:?}", self.model);
                self.model.events += i64::from(expected.is_ok());
            }
            LeaseStep::CancelRun => {
                let now = self.runs.now();
                self.model.at(&mut self.service, now);
                let live = self.model.is_live(&self.service, now);
                self.runs.ok("run.cancel", json!({ "runId": self.run })).await;
                if !self.model.ended {
                    self.model.cancel_asked = true;
                    self.model.ended = !live;
                    self.model.events += if live { 0 } else { 2 };
                }
            }
            LeaseStep::Sweep => self.sweep().await,
            LeaseStep::Jump { ms } => self.runs.test.world.clock.advance_ms(ms),
            LeaseStep::Restart => {}
        }
    }

    /// It may end what was cancelled, and only when nobody has the lease.
    async fn sweep(&mut self) {
        let now = self.runs.now();
        let looked_at = self.runs.run.sweep(now).await.expect("the store answers");
        if looked_at > 0 {
            self.model.at(&mut self.service, now);
        }
        let ended = !self.read().await["terminalStatus"].is_null();
        if ended && !self.model.ended {
            assert!(self.model.cancel_asked && !self.model.is_live(&self.service, now), "{:?}", self.model);
            self.model.ended = true;
            self.model.events += 2;
        }
    }

    async fn read(&self) -> Value {
        self.runs.ok("run.get", json!({ "runId": self.run })).await["run"].clone()
    }

    async fn assert_as_modelled(&self) {
        let read = self.read().await;
        let model = &self.model;
        assert_eq!(read["lastSeq"], json!(model.events), "{read} {model:?}");
        assert_eq!(read["status"] == "cancelled", model.ended, "{read} {model:?}");
        let owner =
            model.owner.filter(|_| !model.ended).map(|owner| json!([self.runners[owner], model.epoch]));
        let shown = read["lease"].as_object().map(|lease| json!([lease["runnerId"], lease["epoch"]]));
        assert_eq!(shown, owner, "{read} {model:?}");
    }

    /// Whoever was asked to end and has nobody ends soon.
    async fn assert_it_ends(&mut self) {
        self.take(&LeaseStep::CancelRun).await;
        for _ in 0..2 {
            self.runs.test.world.clock.advance_ms(700_000);
            self.sweep().await;
        }
        assert!(self.model.ended, "{:?}", self.model);
        self.assert_as_modelled().await;
        let command = json!({ "runId": self.run, "commandId": self.command });
        assert_eq!(self.runs.ok("run.command_get", command).await["command"]["state"], "cancelled");
        let page = self.runs.ok("run.events", json!({ "runId": self.run, "limit": 500 })).await;
        let seqs: Vec<i64> =
            page["events"].as_array().expect("events").iter().filter_map(|one| one["seq"].as_i64()).collect();
        assert_eq!(seqs, (1..=self.model.events).collect::<Vec<_>>());
    }
}

async fn play(script: Vec<LeaseStep>) {
    let runs = TestRuns::open().await;
    let now = runs.now();
    let mut played = PlayedLease::begin(runs, ServiceModel { started_at: now, last_now: now }).await;
    for step in script {
        if matches!(step, LeaseStep::Restart) {
            played = restarted(played).await;
        }
        played.take(&step).await;
        played.assert_as_modelled().await;
        if played.model.ended {
            played.new_run().await;
        }
    }
    played.assert_it_ends().await;
}

/// The same store under a new service, which does not know how long its runners could not reach it.
async fn restarted(played: PlayedLease) -> PlayedLease {
    let PlayedLease { runs: TestRuns { test, run: before }, .. } = played;
    drop(before);
    let test = test.restart().await;
    let run = RunService::open(&test.world, &Settings::default()).await.expect("it opens again");
    test.world.add(service(run.clone(), kernel::AgentRemoval::nothing_kept("a test removes it by itself")));
    let now = test.world.clock.now_ms();
    PlayedLease {
        runs: TestRuns { test, run },
        service: ServiceModel { started_at: now, last_now: now },
        ..played
    }
}

#[test]
fn whatever_the_clock_does_one_runner_has_a_run() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let scripts = proptest::collection::vec(step(), 40..120);
    let outcome = TestRunner::new(testing::cases(24)).run(&scripts, |script| {
        runtime.block_on(play(script));
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[tokio::test]
async fn a_lease_ends_at_its_time_and_not_before() {
    let runs = TestRuns::open().await;
    let now = runs.now();
    let mut played = PlayedLease::begin(runs, ServiceModel { started_at: now, last_now: now }).await;
    played.claim(0, 5000).await;
    for (ms, owner) in [(4999, 0), (1, 1)] {
        played.runs.test.world.clock.advance_ms(ms);
        played.claim(1, 5000).await;
        assert_eq!(played.model.owner, Some(owner), "{ms} later: {:?}", played.model);
    }
    let seen = played.runs.call(&hwlab(), "run.get", json!({ "runId": played.run })).await;
    assert_eq!(seen.expect("it is there")["run"]["lease"]["runnerId"], json!(played.runners[1]));
}
