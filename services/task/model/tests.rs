//! Deciding alone: the order in which a call is refused, that a refused call changes nothing, and who hears of what.

use super::answer::{Decided, TaskAnswer};
use super::decide::decide;
use super::error::Error;
use super::event::TaskEventName;
use super::operation::{
    Actor, CallOrigin, NewChild, NewInput, NewTask, OfferedArtifact, Operation, RepeatKey, TaskCall,
};
use super::state::TaskState;
use super::tree::{OpenTasks, TaskLimits, Trees};
use kernel::{AccountFull, Aid, DeviceId, RpcError, SlotId};
use proto_schemas::requests::task::{TaskArtifact, TaskId, TaskVisibility};
use serde_json::value::RawValue;

const LIMITS: TaskLimits = TaskLimits {
    open_tasks: 3,
    open_per_sender: 3,
    open_per_domain: 2,
    accept_ms: 1000,
    input_ms: 2000,
    idle_ms: 3000,
};

fn aid(name: &str) -> Aid {
    Aid::parse(&format!("{name}.aid.pub")).unwrap()
}

fn id(text: &str) -> TaskId {
    TaskId::try_from(text.to_owned()).unwrap()
}

fn actor(name: &str) -> Actor {
    let (device, slot) = (DeviceId::default(), SlotId::default());
    Actor::Agent(CallOrigin { aid: aid(name), device, slot, connection: 1, payer: None })
}

fn input(name: &str) -> NewInput {
    let body = RawValue::from_string(format!(r#"{{"type":"text","content":"{name}"}}"#)).unwrap();
    NewInput { id: name.to_owned(), once: false, body }
}

fn artifact(name: &str, bytes: i64) -> OfferedArtifact {
    let stored = TaskArtifact {
        id: name.to_owned(),
        kind: "text".to_owned(),
        name: None,
        mime_type: None,
        content: None,
        reference: None,
        size_bytes: Some(bytes),
        sha256: None,
        created_by: String::new(),
        created_at: String::new(),
    };
    OfferedArtifact { stored, content: None, bytes, digest: format!("{name} {bytes}") }
}

fn call(name: &str, task: &str, operation: Operation) -> TaskCall {
    TaskCall { actor: actor(name), task_id: id(task), repeat: None, expected_version: None, operation }
}

fn new_task(to: &str) -> Operation {
    Operation::Create(Box::new(NewTask {
        to: aid(to),
        input: input("what to do"),
        visibility: TaskVisibility::Private,
        title: String::new(),
        participants: vec![aid("paul")],
        metadata: None,
        accept_timeout_ms: None,
        repeat: None,
    }))
}

fn new_child(child: &str, to: &str, required: bool) -> Operation {
    let (id, to) = (id(child), aid(to));
    Operation::Delegate(Box::new(NewChild {
        id,
        to,
        input: input("a part"),
        required,
        visibility: None,
        repeat: None,
    }))
}

/// Anna has given Bert a task, at the time 0.
fn trees() -> Trees {
    let mut trees = Trees::default();
    for name in ["anna", "bert", "carl", "dora"] {
        trees.open.insert(aid(name), OpenTasks::default());
        trees.open_between.senders.extend(["anna", "carl", "dora"].map(|from| ((aid(from), aid(name)), 0)));
    }
    run(&mut trees, call("anna", "root", new_task("bert")));
    trees
}

fn run(trees: &mut Trees, call: TaskCall) -> Decided {
    decide(trees, &LIMITS, call, 0).unwrap()
}

fn refusal(trees: &mut Trees, call: TaskCall) -> i32 {
    RpcError::from(decide(trees, &LIMITS, call, 0).unwrap_err()).code()
}

/// Bert works, Carl has a required part of it and Dora an optional part of that.
fn three_levels() -> Trees {
    let mut trees = trees();
    run(&mut trees, call("bert", "root", Operation::Accept));
    run(&mut trees, call("bert", "root", new_child("child", "carl", true)));
    run(&mut trees, call("carl", "child", Operation::Accept));
    run(&mut trees, call("carl", "child", new_child("leaf", "dora", false)));
    trees
}

#[test]
fn what_is_answered_first_is_what_the_caller_may_know_first() {
    let complete = || Operation::Complete { artifacts: vec![artifact("large", 1 << 20)] };
    let with =
        |name: &str, operation| TaskCall { expected_version: Some(99), ..call(name, "root", operation) };
    let mut trees = three_levels();
    assert_eq!(refusal(&mut trees, with("nora", complete())), -32170, "the task is not known to exist");
    assert_eq!(refusal(&mut trees, with("paul", complete())), -32175, "then the right is missing");
    assert_eq!(refusal(&mut trees, with("paul", new_child("x", "dora", true))), -32178);
    assert_eq!(refusal(&mut trees, with("bert", complete())), -32185, "then the state does not allow it");
    run(&mut trees, call("anna", "child", Operation::Cancel { reason: None }));
    assert_eq!(refusal(&mut trees, with("bert", complete())), -32171, "then the version is another one");
    assert_eq!(refusal(&mut trees, call("bert", "root", complete())), -32174, "limits come last");
    run(&mut trees, call("bert", "root", Operation::Fail { reason: None }));
    assert_eq!(refusal(&mut trees, with("bert", complete())), -32186, "an end comes before the version");
}

#[test]
fn an_earlier_call_is_answered_again_after_the_rights_and_before_the_state() {
    let repeat = |hash: &str| RepeatKey { scope: "s".into(), key: "k".into(), body_hash: hash.into() };
    let fail = |name: &str, hash| TaskCall {
        repeat: Some(repeat(hash)),
        ..call(name, "root", Operation::Fail { reason: None })
    };
    let mut trees = trees();
    run(&mut trees, call("bert", "root", Operation::Accept));
    let first = run(&mut trees, fail("bert", "h"));
    let version = trees.get(&id("root")).unwrap().version;
    let again = run(&mut trees, fail("bert", "h"));
    assert_eq!(again.answer.written().unwrap(), first.answer.written().unwrap());
    assert!(again.events.is_empty() && matches!(again.answer, TaskAnswer::Again(_)));
    assert_eq!(trees.get(&id("root")).unwrap().version, version);
    assert_eq!(refusal(&mut trees, fail("anna", "h")), -32175);
    assert_eq!(refusal(&mut trees, fail("bert", "other")), -32602);
    let other = TaskCall { repeat: None, ..fail("bert", "h") };
    assert_eq!(refusal(&mut trees, other), -32186);
}

#[test]
fn a_call_that_is_refused_changes_nothing() {
    let mut trees = three_levels();
    let state = |trees: &Trees| format!("{trees:?}");
    let before = state(&trees);
    for call in [
        call("anna", "nothing", Operation::Accept),
        call("nora", "root", Operation::Accept),
        call("anna", "root", Operation::Accept),
        call("bert", "root", Operation::Accept),
        call("bert", "root", Operation::Complete { artifacts: vec![artifact("a", 1)] }),
        call("bert", "root", Operation::AddArtifact(Box::new(artifact("a", 300 << 10)))),
        TaskCall { expected_version: Some(1), ..call("anna", "root", Operation::Cancel { reason: None }) },
        call("anna", "root", Operation::TimeOut { due_at: 3000 }),
    ] {
        assert!(decide(&mut trees, &LIMITS, call, 0).is_err());
        assert_eq!(state(&trees), before);
    }
}

#[test]
fn an_end_reaches_everything_below_the_lowest_first_in_one_version_each() {
    for (operation, reason) in [
        (Operation::Cancel { reason: Some("enough".into()) }, "parent_canceled"),
        (Operation::Fail { reason: None }, "parent_failed"),
    ] {
        let mut trees = three_levels();
        let by = if reason == "parent_failed" { "bert" } else { "anna" };
        let before: Vec<i64> =
            ["leaf", "child", "root"].map(|task| trees.get(&id(task)).unwrap().version).into();
        let decided = run(&mut trees, call(by, "root", operation));
        let told: Vec<&str> = decided.events.iter().map(|event| event.task_id.as_str()).collect();
        assert_eq!(told, ["leaf", "child", "root"]);
        for (task, before) in ["leaf", "child", "root"].into_iter().zip(before) {
            let row = trees.get(&id(task)).unwrap();
            assert!(row.state.is_terminal() && row.due_at.is_none() && row.ended_at == Some(0));
            assert_eq!(row.version, before + 1);
            if task != "root" {
                assert_eq!((row.state, row.reason.as_deref()), (TaskState::Canceled, Some(reason)));
            }
        }
        let params = &decided.events[0].params;
        assert_eq!((params.actor.as_str(), params.status), (aid(by).as_str(), TaskState::Canceled));
    }
}

#[test]
fn an_optional_part_is_canceled_with_all_below_it_when_the_task_is_completed() {
    let mut trees = trees();
    run(&mut trees, call("bert", "root", Operation::Accept));
    run(&mut trees, call("bert", "root", new_child("child", "carl", false)));
    run(&mut trees, call("carl", "child", Operation::Accept));
    run(&mut trees, call("carl", "child", new_child("leaf", "dora", true)));
    let decided =
        run(&mut trees, call("bert", "root", Operation::Complete { artifacts: vec![artifact("a", 1)] }));
    let told: Vec<_> = decided.events.iter().map(|event| (event.task_id.as_str(), event.name)).collect();
    assert_eq!(
        told,
        [
            ("leaf", TaskEventName::Updated),
            ("child", TaskEventName::Updated),
            ("root", TaskEventName::Artifact),
            ("root", TaskEventName::Completed)
        ]
    );
    let versions: Vec<i64> = decided.events[2..].iter().map(|event| event.params.version).collect();
    assert_eq!(versions[0], versions[1], "one call makes one version");
    assert_eq!(trees.get(&id("leaf")).unwrap().reason.as_deref(), Some("parent_completed"));
}

#[test]
fn a_time_that_ran_out_ends_a_task_unless_something_happened() {
    let time_out =
        |due_at| TaskCall { actor: Actor::System, ..call("anna", "root", Operation::TimeOut { due_at }) };
    let mut trees = trees();
    let early = decide(&mut trees, &LIMITS, time_out(1000), 999).unwrap();
    assert!(matches!(early.answer, TaskAnswer::TimedOut(false)));
    run(&mut trees, call("bert", "root", Operation::Accept));
    let late = decide(&mut trees, &LIMITS, time_out(1000), 1000).unwrap();
    assert!(matches!(late.answer, TaskAnswer::TimedOut(false)), "it was accepted before");
    let stale = decide(&mut trees, &LIMITS, time_out(3000), 3000).unwrap();
    assert!(matches!(stale.answer, TaskAnswer::TimedOut(true)));
    let row = trees.get(&id("root")).unwrap();
    assert_eq!((row.state, row.reason.as_deref()), (TaskState::Failed, Some("stale")));
    assert_eq!(stale.events[0].assignee, Some(aid("bert")), "the assignee has not brought it about");
    assert_eq!(stale.events[0].params.actor, "system");
    let again = decide(&mut trees, &LIMITS, time_out(3000), 4000).unwrap();
    assert!(matches!(again.answer, TaskAnswer::TimedOut(false)));
}

#[test]
fn the_assignee_hears_of_work_of_words_and_of_ends_that_are_not_its_own() {
    let mut trees = trees();
    let hears = |trees: &mut Trees, call: TaskCall| {
        let decided = run(trees, call);
        decided.events.last().unwrap().assignee.is_some()
    };
    assert!(hears(&mut trees, call("anna", "new", new_task("bert"))));
    assert!(!hears(&mut trees, call("bert", "root", Operation::Accept)));
    assert!(hears(&mut trees, call("paul", "root", Operation::SendInput(input("a")))));
    assert!(hears(&mut trees, call("bert", "root", Operation::RequestInput(input("b")))));
    assert!(!hears(&mut trees, call("bert", "root", Operation::AddArtifact(Box::new(artifact("a", 1))))));
    assert!(!hears(&mut trees, call("bert", "root", Operation::Fail { reason: None })));
    assert!(hears(&mut trees, call("anna", "new", Operation::Cancel { reason: None })));
}

#[test]
fn open_tasks_are_limited_and_an_end_makes_space() {
    let mut trees = trees();
    for task in ["two", "three"] {
        run(&mut trees, call("anna", task, new_task("bert")));
    }
    assert_eq!(refusal(&mut trees, call("anna", "four", new_task("carl"))), -32029, "anna has given three");
    run(&mut trees, call("anna", "two", Operation::Cancel { reason: None }));
    run(&mut trees, call("anna", "four", new_task("bert")));
}

#[test]
fn a_full_list_has_places_for_those_who_have_few_in_it() {
    let mut trees = trees();
    let between = (aid("anna"), aid("bert"));
    // All places are taken by one who may have so many.
    trees.open_between.senders.insert(between, 4);
    trees.open.insert(aid("bert"), OpenTasks { owned: 0, assigned: 3 });
    let limits = TaskLimits { open_per_sender: 10, ..LIMITS };
    let refused = decide(&mut trees, &limits, call("anna", "more", new_task("bert")), 0).unwrap_err();
    assert!(
        matches!(refused, Error::Full(AccountFull { scope: "task.open_tasks", limit: 3, held: 3, .. })),
        "{refused}"
    );
    let refused = decide(&mut trees, &LIMITS, call("anna", "more", new_task("bert")), 0).unwrap_err();
    assert!(
        matches!(refused, Error::Full(AccountFull { scope: "task.open_tasks_per_sender", .. })),
        "{refused}"
    );
    for n in 0..3 {
        run(&mut trees, call("carl", &format!("carl{n}"), new_task("bert")));
    }
    assert_eq!(trees.open_between.of_sender(&aid("carl"), &aid("bert")), 3);
    let twice = refusal(&mut trees, call("dora", "one", new_task("bert")));
    assert_eq!(twice, -32029, "twice as many are the end");
}

#[test]
fn all_senders_of_another_domain_have_a_part_of_the_list() {
    let mut trees = trees();
    trees.open_between.domains.insert(("aid.pub".to_owned(), aid("bert")), 2);
    trees.open_between.senders.insert((aid("anna"), aid("bert")), 5);
    let limits = TaskLimits { open_per_sender: 10, ..LIMITS };
    let refused = decide(&mut trees, &limits, call("anna", "more", new_task("bert")), 0).unwrap_err();
    assert!(
        matches!(refused, Error::Full(AccountFull { scope: "task.open_tasks_per_domain", .. })),
        "{refused}"
    );
    run(&mut trees, call("carl", "two", new_task("bert")));
}

#[test]
fn time_does_not_go_back_in_a_tree() {
    let mut trees = trees();
    decide(&mut trees, &LIMITS, call("bert", "root", Operation::Accept), 500).unwrap();
    decide(&mut trees, &LIMITS, call("bert", "root", new_child("child", "carl", true)), 400).unwrap();
    assert_eq!(trees.get(&id("child")).unwrap().created_at, 500);
    assert_eq!(trees.get(&id("root")).unwrap().updated_at, 500);
}

#[test]
fn a_part_is_not_more_visible_than_the_whole() {
    let mut trees = trees();
    run(&mut trees, call("bert", "root", Operation::Accept));
    let mut child = new_child("child", "carl", true);
    if let Operation::Delegate(new) = &mut child {
        new.visibility = Some(TaskVisibility::Shared);
    }
    let refused = decide(&mut trees, &LIMITS, call("bert", "root", child), 0).unwrap_err();
    assert!(matches!(refused, Error::Conflict { reason: "too_visible", .. }));
}

#[test]
fn a_task_that_cannot_be_told_to_its_assignee_ends_unless_it_was_accepted() {
    let undeliverable = |actor| {
        let operation = Operation::Undeliverable { reason: "assignee_unknown" };
        TaskCall { actor, ..call("anna", "root", operation) }
    };
    let mut trees = trees();
    assert_eq!(refusal(&mut trees, undeliverable(actor("anna"))), -32175, "nobody but the server does this");
    let ended = run(&mut trees, undeliverable(Actor::System));
    let row = trees.get(&id("root")).unwrap();
    assert_eq!((row.state, row.reason.as_deref()), (TaskState::Canceled, Some("assignee_unknown")));
    assert_eq!(ended.events[0].params.actor, "system");
    assert_eq!(refusal(&mut three_levels(), undeliverable(Actor::System)), -32171);
}

#[test]
fn other_domains_are_those_of_participants_and_not_that_of_the_owner_of_the_root() {
    let mut trees = trees();
    assert!(trees.changes.tasks.iter().all(|task| !trees.is_known_elsewhere(trees.get(task).unwrap())));
    let far = Aid::parse("bobb.b.example").unwrap();
    let mut new = new_task("bert");
    if let Operation::Create(new) = &mut new {
        new.to = far.clone();
    }
    let decided = run(&mut trees, call("anna", "other", new));
    assert_eq!(decided.events[0].relayed.as_ref().map(|task| task.version), Some(1));
    let (device, slot) = (DeviceId::default(), SlotId::default());
    let by_far = |operation| TaskCall {
        actor: Actor::Agent(CallOrigin {
            aid: far.clone(),
            device: device.clone(),
            slot: slot.clone(),
            connection: 0,
            payer: None,
        }),
        ..call("anna", "other", operation)
    };
    run(&mut trees, by_far(Operation::Accept));
    run(&mut trees, by_far(new_child("child", "carl", true)));
    let child = trees.get(&id("child")).unwrap();
    assert_eq!(
        trees.other_domains(child).into_iter().collect::<Vec<_>>(),
        ["b.example"],
        "its owner is there"
    );
}
