//! Any interleaving of what a back end and three runners ask, with kills between: every answer and every event is what a small model of
//! a run says, and pages, streams and connections show the same log.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner;
use serde_json::{Value, json};

use super::client::{
    ManagerAnswer, SETTINGS, TENANT_OF_AGENTS, TestBackEnd, TestManager, TestRunner, assert_contiguous,
    number, said,
};
use crate::support::agent::{ConnectedAgent, text};
use crate::support::{TestServer, as_often, setting, split, until};

const RUNNERS: usize = 3;

#[derive(Clone, Debug)]
enum RunStep {
    /// A turn, with one of three keys or without one, and one of two texts.
    Submit {
        key: Option<usize>,
        words: usize,
        steer: bool,
    },
    CancelCommand {
        command: usize,
    },
    CancelRun,
    Claim {
        runner: usize,
    },
    Renew {
        runner: usize,
    },
    Release {
        runner: usize,
    },
    Poll {
        runner: usize,
    },
    /// Events with these ids, of which some may be stored already, or be there twice.
    Append {
        runner: usize,
        command: Option<usize>,
        ids: Vec<usize>,
    },
    Acknowledge {
        runner: usize,
        command: usize,
    },
    Report {
        runner: usize,
        command: usize,
        status: usize,
    },
    ReportRun {
        runner: usize,
        status: usize,
    },
    Kill,
}

const STATUSES: [&str; 5] = ["running", "completed", "failed", "blocked", "cancelled"];

fn step() -> impl Strategy<Value = RunStep> {
    let (runner, command) = (0..RUNNERS, 0..6_usize);
    prop_oneof![
        10 => (proptest::option::weighted(0.4, 0..3_usize), 0..2_usize, proptest::bool::weighted(0.2))
            .prop_map(|(key, words, steer)| RunStep::Submit { key, words, steer }),
        4 => command.clone().prop_map(|command| RunStep::CancelCommand { command }),
        1 => Just(RunStep::CancelRun),
        12 => runner.clone().prop_map(|runner| RunStep::Claim { runner }),
        4 => runner.clone().prop_map(|runner| RunStep::Renew { runner }),
        5 => runner.clone().prop_map(|runner| RunStep::Release { runner }),
        4 => runner.clone().prop_map(|runner| RunStep::Poll { runner }),
        16 => (runner.clone(), proptest::option::weighted(0.8, command.clone()), proptest::collection::vec(0..40_usize, 1..5))
            .prop_map(|(runner, command, ids)| RunStep::Append { runner, command, ids }),
        14 => (runner.clone(), command.clone()).prop_map(|(runner, command)| RunStep::Acknowledge { runner, command }),
        12 => (runner.clone(), command, 0..STATUSES.len())
            .prop_map(|(runner, command, status)| RunStep::Report { runner, command, status }),
        1 => (runner, 0..STATUSES.len()).prop_map(|(runner, status)| RunStep::ReportRun { runner, status }),
        1 => Just(RunStep::Kill),
    ]
}

/// A refusal: its status and its kind.
type ModelRefusal = (u16, String);

fn refusal(kind: &str) -> ModelRefusal {
    (409, kind.to_owned())
}

/// What must be true of a command.
#[derive(Clone, Debug)]
struct CommandModel {
    id: String,
    state: &'static str,
    kind: Option<&'static str>,
    cancel_asked: bool,
    epoch: i64,
    /// What was submitted with its key.
    request: (Option<usize>, (usize, bool)),
}

impl CommandModel {
    fn is_open(&self) -> bool {
        ["pending", "acknowledged", "running"].contains(&self.state)
    }

    fn is_taken(&self) -> bool {
        self.is_open() && self.state != "pending"
    }
}

/// An event, in short: `said 7`, `end completed`, `run end cancelled`, `waiting 2`; and the number of its command.
type EventModel = (String, Option<usize>);

/// What must be true of a run.
#[derive(Debug)]
struct RunModel {
    status: &'static str,
    kind: Option<&'static str>,
    cancel_asked: bool,
    owner: Option<usize>,
    released: bool,
    epoch: i64,
    refused: Vec<usize>,
    commands: Vec<CommandModel>,
    events: Vec<EventModel>,
    /// The seq of each id that a runner gave an event.
    stored: BTreeMap<usize, i64>,
    /// The epoch that each runner was given last.
    known_epochs: [i64; RUNNERS],
}

impl RunModel {
    fn has_ended(&self) -> bool {
        !["pending", "claimed", "running"].contains(&self.status)
    }

    fn ended(&self) -> ModelRefusal {
        refusal(self.kind.unwrap_or(if self.status == "cancelled" { "cancelled" } else { "schema-invalid" }))
    }

    fn is_open(&self) -> Result<(), ModelRefusal> {
        if self.has_ended() { Err(self.ended()) } else { Ok(()) }
    }

    fn is_leased(&self) -> bool {
        self.owner.is_some() && !self.released
    }

    fn has_lease(&self, runner: usize) -> Result<(), ModelRefusal> {
        let own = self.is_leased() && self.owner == Some(runner) && self.epoch == self.known_epochs[runner];
        if own { Ok(()) } else { Err(refusal("runner-lease-conflict")) }
    }

    fn open_command(&self, at: usize) -> Result<(), ModelRefusal> {
        let command = &self.commands[at];
        match command.is_open() {
            true => Ok(()),
            false => Err(refusal(command.kind.unwrap_or("schema-invalid"))),
        }
    }

    fn submit(&mut self, request: (Option<usize>, (usize, bool))) -> Result<Option<usize>, ModelRefusal> {
        let (key, said) = request;
        let known = self.commands.iter().position(|one| key.is_some() && one.request.0 == key);
        if let Some(known) = known {
            let same = self.commands[known].request.1 == said;
            return if same { Ok(Some(known)) } else { Err(refusal("idempotency-conflict")) };
        }
        self.is_open()?;
        if self.cancel_asked { Err(refusal("cancelled")) } else { Ok(None) }
    }

    fn end_command(&mut self, at: usize, status: &'static str) {
        let command = &mut self.commands[at];
        command.state = status;
        command.kind = match status {
            "failed" => Some("backend-failed"),
            "cancelled" => Some("cancelled"),
            _ => None,
        };
        self.events.push((format!("end {status}"), Some(at)));
        if self.status == "running" && !self.commands.iter().any(CommandModel::is_taken) {
            self.status = "claimed";
        }
    }

    fn end_run(&mut self, status: &'static str) {
        for at in 0..self.commands.len() {
            if self.commands[at].is_open() {
                self.end_command(at, status);
            }
        }
        self.status = status;
        self.kind = match status {
            "failed" => Some("backend-failed"),
            "cancelled" => Some("cancelled"),
            _ => None,
        };
        self.events.push((format!("run end {status}"), None));
    }

    fn end_if_cancelled(&mut self) {
        if self.cancel_asked && !self.has_ended() && !self.commands.iter().any(CommandModel::is_open) {
            self.end_run("cancelled");
        }
    }

    fn cancel_command(&mut self, at: usize) {
        if !self.commands[at].is_open() {
            return;
        }
        match self.commands[at].is_taken() && self.is_leased() {
            true => self.commands[at].cancel_asked = true,
            false => self.end_command(at, "cancelled"),
        }
    }

    fn cancel_run(&mut self) {
        if self.has_ended() {
            return;
        }
        self.cancel_asked = true;
        for at in 0..self.commands.len() {
            self.cancel_command(at);
        }
        self.end_if_cancelled();
    }

    fn claim(&mut self, runner: usize) -> Result<i64, ModelRefusal> {
        self.is_open()?;
        let mine = self.owner == Some(runner);
        if !mine && self.is_leased() {
            if !self.refused.contains(&runner) {
                self.refused.push(runner);
                self.events.push((format!("waiting {runner}"), None));
            }
            return Err(refusal("runner-lease-conflict"));
        }
        if !(mine && self.is_leased()) {
            self.epoch += 1;
        }
        (self.owner, self.released) = (Some(runner), false);
        self.known_epochs[runner] = self.epoch;
        if self.status == "pending" {
            self.status = "claimed";
        }
        Ok(self.epoch)
    }

    /// Whether the lease was given back.
    fn release(&mut self, runner: usize) -> Result<bool, ModelRefusal> {
        self.is_open()?;
        self.has_lease(runner)?;
        let free = !self.commands.iter().any(CommandModel::is_open);
        if free {
            self.released = true;
        }
        Ok(free)
    }

    fn append(
        &mut self,
        runner: usize,
        command: Option<usize>,
        ids: &[usize],
    ) -> Result<Vec<i64>, ModelRefusal> {
        let is_new = ids.iter().any(|id| !self.stored.contains_key(id));
        if is_new {
            self.is_open()?;
        }
        self.has_lease(runner)?;
        if let (Some(at), true) = (command, is_new) {
            self.open_command(at)?;
            if self.commands[at].state == "pending" {
                return Err(refusal("schema-invalid"));
            }
        }
        let mut seqs = Vec::new();
        for id in ids {
            if !self.stored.contains_key(id) {
                if let Some(at) = command {
                    self.begin(at);
                }
                self.events.push((format!("said {id}"), command));
                self.stored.insert(*id, i64::try_from(self.events.len()).expect("few"));
            }
            seqs.push(self.stored[id]);
        }
        Ok(seqs)
    }

    fn begin(&mut self, at: usize) {
        if self.commands[at].state == "acknowledged" {
            self.commands[at].state = "running";
        }
        self.status = "running";
    }

    fn acknowledge(&mut self, runner: usize, at: usize) -> Result<(), ModelRefusal> {
        self.is_open()?;
        self.has_lease(runner)?;
        self.open_command(at)?;
        let epoch = self.epoch;
        let command = &mut self.commands[at];
        command.epoch = epoch;
        if command.state == "pending" {
            command.state = "acknowledged";
        }
        Ok(())
    }

    fn report(&mut self, runner: usize, at: usize, status: &'static str) -> Result<(), ModelRefusal> {
        if !self.commands[at].is_open() {
            return if self.commands[at].state == status { Ok(()) } else { Err(refusal("schema-invalid")) };
        }
        self.has_lease(runner)?;
        let command = &self.commands[at];
        let unasked = status == "cancelled" && !command.cancel_asked && !self.cancel_asked;
        if command.state == "pending" || unasked {
            return Err(refusal("schema-invalid"));
        }
        if status == "running" {
            self.begin(at);
        } else {
            self.end_command(at, status);
            self.end_if_cancelled();
        }
        Ok(())
    }

    fn report_run(&mut self, runner: usize, status: &'static str) -> Result<(), ModelRefusal> {
        if self.has_ended() {
            let again = self.status == status && self.epoch == self.known_epochs[runner];
            return if again { Ok(()) } else { Err(self.ended()) };
        }
        self.has_lease(runner)?;
        if status == "running" {
            if self.status == "claimed" {
                self.status = "running";
            }
            return Ok(());
        }
        let open = self.commands.iter().any(CommandModel::is_open);
        if (status == "completed" && open) || (status == "cancelled" && !self.cancel_asked) {
            return Err(refusal("schema-invalid"));
        }
        self.end_run(status);
        Ok(())
    }
}

/// A run, and what must be true of it.
struct PlayedRun<'a> {
    manager: &'a mut TestManager,
    back_end: TestBackEnd,
    run: String,
    runners: Vec<TestRunner>,
    model: RunModel,
}

/// The answer is what the model says; its data.
fn agreed<T>(answer: &mut ManagerAnswer, expected: Result<T, ModelRefusal>, at: &str) -> Option<(T, Value)> {
    match expected {
        Ok(expected) => {
            assert!(answer.status == 200 || answer.status == 201, "{at}: {} {}", answer.status, answer.body);
            Some((expected, answer.body["data"].take()))
        }
        Err((status, kind)) => {
            assert_eq!(
                (answer.status, answer.failure_kind()),
                (status, kind.as_str()),
                "{at}: {}",
                answer.body
            );
            None
        }
    }
}

impl PlayedRun<'_> {
    async fn take(&mut self, step: &RunStep) {
        let at = format!("{step:?} of {:?}", self.model);
        let commands = self.model.commands.len();
        let chosen = |command: usize| (commands > 0).then(|| command % commands);
        let (api, run) = (&self.back_end.api, &self.run);
        match step {
            RunStep::Submit { key, words, steer } => {
                let kind = if *steer { "steer" } else { "turn" };
                let mut body = json!({ "type": kind, "payload": { "prompt": format!("words {words}") } });
                if let Some(key) = key {
                    body["idempotencyKey"] = json!(format!("k-{key}"));
                }
                let request = (*key, (*words, *steer));
                let expected = self.model.submit(request);
                let mut answer = api.call("POST", &format!("/runs/{run}/commands"), &body).await;
                let created = answer.status == 201;
                let Some((known, data)) = agreed(&mut answer, expected, &at) else { return };
                let id = text(&data["commandId"]);
                assert_eq!(created, known.is_none(), "{at}: {data}");
                match known {
                    Some(known) => assert_eq!(id, self.model.commands[known].id, "{at}"),
                    None => self.model.commands.push(CommandModel {
                        id,
                        state: "pending",
                        kind: None,
                        cancel_asked: false,
                        epoch: 0,
                        request,
                    }),
                }
            }
            RunStep::CancelCommand { command } => {
                let Some(command) = chosen(*command) else { return };
                self.model.cancel_command(command);
                let path = format!("/commands/{}/cancel", self.model.commands[command].id);
                api.ok("POST", &path, &json!({}), 200).await;
            }
            RunStep::CancelRun => {
                self.model.cancel_run();
                api.ok("POST", &format!("/runs/{run}/cancel"), &json!({}), 200).await;
            }
            RunStep::Claim { runner } => {
                let expected = self.model.claim(*runner);
                let mut answer = self.runners[*runner].try_claim(600_000).await;
                let Some((epoch, data)) = agreed(&mut answer, expected, &at) else { return };
                assert_eq!(
                    (number(&data["lease"]["epoch"]), &data["recovered"]),
                    (epoch, &json!(false)),
                    "{at}"
                );
                self.runners[*runner].epoch = epoch;
            }
            RunStep::Renew { runner } => {
                let expected = self.model.is_open().and_then(|()| self.model.has_lease(*runner));
                agreed(&mut self.runners[*runner].try_lease(json!({})).await, expected, &at);
            }
            RunStep::Release { runner } => {
                let expected = self.model.release(*runner);
                let mut answer = self.runners[*runner].try_lease(json!({ "release": true })).await;
                let Some((released, data)) = agreed(&mut answer, expected, &at) else { return };
                assert_eq!(data["released"], json!(released), "{at}");
            }
            RunStep::Poll { runner } => {
                let expected = self.model.is_open().and_then(|()| self.model.has_lease(*runner));
                let runner = &self.runners[*runner];
                let mut answer = runner.api.call("GET", &runner.poll_path(0, 0), &Value::Null).await;
                let Some(((), data)) = agreed(&mut answer, expected, &at) else { return };
                let open = self.model.commands.iter().filter(|command| command.is_open());
                let open: Vec<&str> = open.map(|command| command.id.as_str()).take(20).collect();
                let shown: Vec<&str> = data["commands"]
                    .as_array()
                    .expect("commands")
                    .iter()
                    .filter_map(|one| one["commandId"].as_str())
                    .collect();
                assert_eq!(shown, open, "{at}");
                let asked = self
                    .model
                    .commands
                    .iter()
                    .filter(|one| one.is_taken() && (one.cancel_asked || self.model.cancel_asked));
                let asked: Vec<&str> = asked.map(|one| one.id.as_str()).collect();
                assert_eq!(data["commandIds"], json!(asked), "{at}");
            }
            RunStep::Append { runner, command, ids } => {
                let command = command.and_then(chosen);
                let id = command.map(|command| self.model.commands[command].id.clone());
                let expected = self.model.append(*runner, command, ids);
                let events = ids.iter().map(|n| {
                    let mut event =
                        said(id.as_deref().unwrap_or_default(), &format!("id-{n}"), &format!("said {n}"));
                    if id.is_none() {
                        event["commandId"] = Value::Null;
                    }
                    event
                });
                let mut answer = self.runners[*runner].try_append(events.collect()).await;
                let Some((seqs, data)) = agreed(&mut answer, expected, &at) else { return };
                let appended = data["appended"].as_array().expect("a list");
                let shown: Vec<i64> = appended.iter().map(|one| number(&one["seq"])).collect();
                assert_eq!(shown, seqs, "{at}");
            }
            RunStep::Acknowledge { runner, command } => {
                let Some(command) = chosen(*command) else { return };
                let expected = self.model.acknowledge(*runner, command);
                let id = &self.model.commands[command].id;
                agreed(&mut self.runners[*runner].try_acknowledge(id).await, expected, &at);
            }
            RunStep::Report { runner, command, status } => {
                let Some(command) = chosen(*command) else { return };
                let status = STATUSES[*status];
                let expected = self.model.report(*runner, command, status);
                let id = &self.model.commands[command].id;
                agreed(&mut self.runners[*runner].try_report(id, status).await, expected, &at);
            }
            RunStep::ReportRun { runner, status } => {
                let status = STATUSES[*status];
                let expected = self.model.report_run(*runner, status);
                let mut answer = self.runners[*runner].try_report_run(json!({ "status": status })).await;
                agreed(&mut answer, expected, &at);
            }
            RunStep::Kill => self.kill().await,
        }
        self.assert_as_modelled(&at).await;
    }

    async fn kill(&mut self) {
        match split() {
            true => super::kill::kill_service(&self.manager.server).await,
            false => {
                self.manager.server.kill();
                self.manager.server.start_again();
                self.manager.dial_again();
            }
        }
        until("the service answers", || async {
            let answer = self.back_end.api.call("GET", "/runs?limit=1", &Value::Null).await;
            (answer.status == 200).then_some(())
        })
        .await;
    }

    /// The run, and one of its commands, are what they should be.
    async fn assert_as_modelled(&self, at: &str) {
        let read = self.back_end.read(&self.run).await;
        let model = &self.model;
        assert_eq!(read["status"], json!(model.status), "{at}: {read}");
        assert_eq!(read["lastSeq"], json!(model.events.len()), "{at}: {read}");
        assert_eq!(!read["cancelRequestedAt"].is_null(), model.cancel_asked, "{at}: {read}");
        let owner = model.owner.filter(|_| model.is_leased() && !model.has_ended());
        let lease = owner.map(|owner| json!([self.runners[owner].id, model.epoch]));
        let shown = read["lease"].as_object().map(|lease| json!([lease["runnerId"], lease["epoch"]]));
        assert_eq!(shown, lease, "{at}: {read}");
    }

    /// Everything at the end: the commands, and the log in all of its views.
    async fn assert_views_agree(&self, agent: &ConnectedAgent) {
        for (n, command) in self.model.commands.iter().enumerate() {
            let read = self.back_end.read_command(&self.run, &command.id).await;
            assert_eq!((&read["state"], &read["seq"]), (&json!(command.state), &json!(n + 1)), "{read}");
            let epoch = read["acknowledgedEpoch"].as_i64().unwrap_or(0);
            assert_eq!(epoch, command.epoch, "{read}");
            let result = self.back_end.result(&self.run, &command.id).await;
            assert_eq!(
                (&result["status"], &result["completed"]),
                (&json!(command.state), &json!(command.state == "completed")),
                "{result}"
            );
        }
        let events = self.back_end.api.events(&self.run).await;
        assert_contiguous(&events);
        let shown: Vec<EventModel> = events.iter().map(|event| self.short(event)).collect();
        assert_eq!(shown, self.model.events);

        let path = format!("/runs/{}/events", self.run);
        let mut stream = self.back_end.api.watch(&path, &[]).await;
        agent.call("run.subscribe", &json!({ "runId": self.run, "afterSeq": 0 })).await;
        for event in &events {
            assert_eq!(&stream.next().await.expect("it has all of them").data, event);
            let mut told = agent.next_event().await;
            let params = told["params"].as_object_mut().expect("an object");
            params.retain(|name, _| !name.starts_with('_'));
            assert_eq!(&told["params"], event);
        }
        if self.model.has_ended() {
            assert_eq!(stream.next().await, None, "it ends with its run");
        }
    }

    fn short(&self, event: &Value) -> EventModel {
        let payload = &event["payload"];
        let command = event["commandId"].as_str();
        let command = command.map(|id| {
            self.model.commands.iter().position(|known| known.id == id).unwrap_or_else(|| panic!("{event}"))
        });
        let short = match text(&event["type"]).as_str() {
            "assistant_message" => text(&payload["text"]),
            "terminal_status" if payload["scope"] == "run" => format!("run end {}", text(&payload["status"])),
            "terminal_status" => format!("end {}", text(&payload["status"])),
            "runner_status" => {
                assert_eq!(payload["phase"], "claim-waiting", "{event}");
                let runner = self.runners.iter().position(|runner| payload["runnerId"] == json!(runner.id));
                format!("waiting {}", runner.expect("one of ours"))
            }
            other => panic!("{other}: {event}"),
        };
        (short, command)
    }
}

async fn play(manager: &mut TestManager, script: &[RunStep]) {
    let back_end = manager.back_end_of(TENANT_OF_AGENTS).await;
    let run = back_end.run().await;
    // A command is needed for a runner's token; it is over before anything begins.
    let first = back_end.turn(&run, "words 9").await;
    let mut runners = vec![back_end.runner(&run, &first).await];
    for _ in 1..RUNNERS {
        runners.push(runners[0].beside().await);
    }
    back_end.api.ok("POST", &format!("/commands/{first}/cancel"), &json!({}), 200).await;
    let command = CommandModel {
        id: first,
        state: "cancelled",
        kind: Some("cancelled"),
        cancel_asked: false,
        epoch: 0,
        request: (None, (9, false)),
    };
    let model = RunModel {
        status: "pending",
        kind: None,
        cancel_asked: false,
        owner: None,
        released: false,
        epoch: 0,
        refused: Vec::new(),
        commands: vec![command],
        events: vec![("end cancelled".to_owned(), Some(0))],
        stored: BTreeMap::new(),
        known_epochs: [0; RUNNERS],
    };
    let mut played = PlayedRun { manager, back_end, run, runners, model };
    for step in script {
        played.take(step).await;
    }
    let agent = played.manager.server.agent(&format!("m{}", crate::support::agent::random_hex(4))).await;
    played.assert_views_agree(&agent).await;
    agent.close().await;
}

#[test]
fn whatever_is_asked_a_run_is_what_its_model_says() {
    let cases = setting("AUND_TEST_RUN_CASES")
        .and_then(|cases| cases.parse().ok())
        .unwrap_or_else(|| as_often(16, 5));
    let mut cases = test_runner::TestRunner::new(test_runner::Config {
        cases,
        max_shrink_iters: 60,
        failure_persistence: None,
        ..test_runner::Config::default()
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let manager = RefCell::new(TestManager::of(runtime.block_on(TestServer::with(&SETTINGS))));
    let scripts = proptest::collection::vec(step(), 60..90);
    let outcome = cases.run(&scripts, |script| {
        runtime.block_on(play(&mut manager.borrow_mut(), &script));
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
