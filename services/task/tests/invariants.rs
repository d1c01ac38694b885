//! The invariants of the protocol, for any order of calls and passing time, held against a simple model.

mod calls;
mod simple;

use super::*;
use proptest::prelude::*;
use simple::{ACTIONS, AGENTS, SimpleTasks};
use std::collections::{BTreeMap, BTreeSet};
use testing::cases;

#[derive(Clone, Debug)]
pub(super) enum TaskStep {
    Create {
        owner: usize,
        to: usize,
        visibility: usize,
        participant: Option<usize>,
        key: Option<u8>,
    },
    Act {
        who: usize,
        task: usize,
        action: usize,
        /// Whether the expected version is the right one.
        expects: Option<bool>,
        request: Option<u8>,
    },
    Delegate {
        who: usize,
        task: usize,
        to: usize,
        required: bool,
        key: Option<u8>,
    },
    Hours(i64),
    Timers,
}

fn step() -> impl Strategy<Value = TaskStep> {
    let agent = || 0..AGENTS.len();
    let rarely = || prop::option::weighted(0.2, 0..2_u8);
    prop_oneof![
        3 => (agent(), agent(), 0..3_usize, prop::option::of(agent()), rarely())
            .prop_map(|(owner, to, visibility, participant, key)| TaskStep::Create { owner, to, visibility, participant, key }),
        12 => (agent(), 0..50_usize, 0..ACTIONS.len(), prop::option::weighted(0.2, any::<bool>()), rarely())
            .prop_map(|(who, task, action, expects, request)| TaskStep::Act { who, task, action, expects, request }),
        4 => (agent(), 0..50_usize, agent(), any::<bool>(), rarely())
            .prop_map(|(who, task, to, required, key)| TaskStep::Delegate { who, task, to, required, key }),
        1 => (1..300_i64).prop_map(TaskStep::Hours),
        1 => Just(TaskStep::Timers),
    ]
}

/// A step that ends in an acting agent's success more often than by chance: the assignee does what an assignee does.
fn likely(step: TaskStep, simple: &SimpleTasks) -> TaskStep {
    match step {
        TaskStep::Act { task, action, expects, request, who } if who != 0 && !simple.is_empty() => {
            let row = simple.row(task);
            let who = if ACTIONS[action] == "cancel" { row.owner } else { row.assignee };
            TaskStep::Act { who, task, action, expects, request }
        }
        TaskStep::Delegate { task, to, required, key, who } if who != 0 && !simple.is_empty() => {
            TaskStep::Delegate { who: simple.row(task).assignee, task, to, required, key }
        }
        other => other,
    }
}

struct Run {
    tasks: TestTasks,
    agents: Vec<TestAgent>,
    simple: SimpleTasks,
    /// The ids of the tasks, in the order of the model.
    ids: Vec<String>,
}

impl Run {
    async fn step(&mut self, step: TaskStep) {
        self.tasks.pass(1000);
        let now = self.tasks.test.world.clock.now_ms();
        let step = likely(step, &self.simple);
        match step {
            TaskStep::Hours(hours) => return self.tasks.pass(hours * 3_600_000),
            TaskStep::Timers => {
                self.tasks.service.end_due().await.unwrap();
                return self.simple.time_out(now);
            }
            _ if self.simple.is_empty() && !matches!(step, TaskStep::Create { .. }) => return,
            _ => {}
        }
        let (who, method, params) = self.simple.call(&step, &self.agents, &self.ids);
        let expected = self.simple.step(&step, now);
        let answer = self.tasks.call(&self.agents[who], method, params).await;
        match (answer, expected) {
            (Ok(answer), Ok(expected)) => {
                if let Some(status) = expected {
                    assert_eq!(answer["status"], status, "{step:?} {answer}");
                }
                if self.simple.len() > self.ids.len() {
                    self.ids.push(id(&answer));
                }
            }
            (Err(error), Err(expected)) => assert_eq!(error.code(), expected, "{step:?} {error}"),
            (answer, expected) => panic!("{step:?}: {answer:?} and not {expected:?}"),
        }
    }

    /// What everybody sees is what the model says.
    async fn compare(&self) {
        for (who, agent) in self.agents.iter().enumerate() {
            let mut visible = BTreeSet::new();
            for (n, task) in self.ids.iter().enumerate() {
                let seen = self.tasks.call(agent, "get", json!({ "task_id": task })).await;
                let row = self.simple.row(n);
                match (seen, self.simple.may_read(n, who)) {
                    (Ok(seen), Ok(())) => {
                        assert_eq!(
                            (seen["status"].as_str(), seen["version"].as_i64()),
                            (Some(row.state), Some(row.version))
                        );
                    }
                    (Err(error), Err(code)) => assert_eq!(error.code(), code),
                    (seen, expected) => panic!("{task}: {seen:?} and not {expected:?}"),
                }
                if row.participants.contains(&who) {
                    visible.insert(task.clone());
                }
            }
            // Every page together has each task once, and each can be read.
            let (mut listed, mut params) = (Vec::new(), json!({ "limit": 3 }));
            loop {
                let page = self.tasks.ok(agent, "list", params.clone()).await;
                listed.extend(page["items"].as_array().unwrap().iter().map(id));
                if page["next_cursor"].is_null() {
                    break;
                }
                params["cursor"] = page["next_cursor"].clone();
            }
            assert_eq!(listed.len(), visible.len());
            assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), visible);
        }
    }

    /// The owner of each task has heard of every version, in order, and of nothing that is not stored.
    async fn events(&self) {
        let mut versions: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        let mut states: BTreeMap<String, String> = BTreeMap::new();
        for event in self.tasks.events().await {
            let params = params_of(&event);
            let task = id(&params);
            let Some(n) = self.ids.iter().position(|known| *known == task) else { continue };
            let owner = self.agents[self.simple.row(n).owner].aid.split('.').next().unwrap().to_owned();
            if audience(&event).split(' ').next() == Some(owner.as_str()) {
                versions.entry(task.clone()).or_default().push(params["version"].as_i64().unwrap());
                states.insert(task, params["status"].as_str().unwrap().to_owned());
            }
        }
        for (n, task) in self.ids.iter().enumerate() {
            let row = self.simple.row(n);
            let mut heard = versions.remove(task).unwrap_or_default();
            assert!(heard.is_sorted(), "{heard:?}");
            heard.dedup();
            assert_eq!(heard, (1..=row.version).collect::<Vec<_>>());
            assert_eq!(states[task], row.state);
        }
    }
}

async fn run(steps: Vec<TaskStep>) {
    let tasks = TestTasks::open().await;
    let mut agents = Vec::new();
    for name in AGENTS {
        let agent = tasks.test.register(name).await;
        tasks.arrive(&agent, "", "", 2);
        agents.push(agent);
    }
    let mut run = Run { tasks, agents, simple: SimpleTasks::default(), ids: Vec::new() };
    for step in steps {
        run.step(step).await;
        run.simple.assert_legal();
    }
    run.compare().await;
    run.events().await;
}

proptest! {
    #![proptest_config(cases(24))]
    #[test]
    fn the_service_does_what_the_simple_model_does(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(steps));
    }
}
