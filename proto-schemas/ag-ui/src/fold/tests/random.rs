//! What holds for any log.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

pub(super) const KINDS: [&str; 14] = [
    "assistant_message",
    "command_output",
    "tool_call",
    "reasoning",
    "plan",
    "diff",
    "backend_status",
    "runner_status",
    "steer_delivery",
    "approval_request",
    "approval_resolved",
    "error",
    "terminal_status",
    "unknown",
];

const ENDS: [&str; 4] = ["completed", "failed", "blocked", "cancelled"];

/// Something that a command may do. Items, calls and questions are counted by whoever writes the log.
#[derive(Clone, Debug)]
enum Doing {
    /// Another message begins.
    Next,
    Part(String),
    Whole,
    Stage(&'static str, &'static str),
    Call(u8, &'static str),
    Think(String),
    /// A question, what is said before it is answered, and whether it is answered by AG-UI.
    Ask(Vec<String>, bool),
    Broken(&'static str, String),
}

#[derive(Clone, Debug)]
struct RandomScript {
    doings: Vec<Doing>,
    end: &'static str,
    /// Which of the commands behind it are cancelled meanwhile, and when.
    cancels: Option<(usize, usize)>,
    has_protocol_version: bool,
    ends_waiting: bool,
}

fn doing() -> impl Strategy<Value = Doing> {
    let words = || "[aé ]{0,3}";
    prop_oneof![
        2 => Just(Doing::Next),
        5 => words().prop_map(Doing::Part),
        2 => Just(Doing::Whole),
        2 => (select(&["router", "worker", "other"]), select(&["started", "finished"]))
            .prop_map(|(name, phase)| Doing::Stage(name, phase)),
        2 => (0..3_u8, select(&["started", "completed", "failed"])).prop_map(|(id, status)| Doing::Call(id, status)),
        1 => words().prop_map(Doing::Think),
        2 => (prop::collection::vec(words().prop_map_into(), 0..3), any::<bool>())
            .prop_map(|(said, by_part)| Doing::Ask(said, by_part)),
        1 => broken().prop_map(|(kind, payload)| Doing::Broken(kind, payload)),
    ]
}

fn broken() -> impl Strategy<Value = (&'static str, String)> {
    let payload = prop_oneof![
        ".{0,12}",
        select(&["{", "[]", "null", r#"{"text":7}"#, r#"{"approvalId":null}"#, r#"{"status":"done"}"#])
            .prop_map(str::to_owned),
    ];
    (select(&KINDS), payload)
}

fn select<T: Clone + std::fmt::Debug + 'static>(words: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(words.to_vec())
}

fn script() -> impl Strategy<Value = RandomScript> {
    let cancels = prop::option::weighted(0.3, (1..3_usize, 0..6_usize));
    (prop::collection::vec(doing(), 0..14), select(&ENDS), cancels, any::<bool>(), prop::bool::weighted(0.1))
        .prop_map(|(doings, end, cancels, has_protocol_version, ends_waiting)| RandomScript {
            doings,
            end,
            cancels,
            has_protocol_version,
            ends_waiting,
        })
}

/// A log with what it says.
#[derive(Default)]
struct Written {
    events: Vec<TestEvent>,
    parts: BTreeMap<String, Vec<RunPart>>,
    /// The text of each item, and whether all of it has to be shown.
    said: BTreeMap<String, (String, bool)>,
}

fn write(scripts: &[RandomScript]) -> Written {
    let mut written = Written::default();
    let mut cancelled = vec![false; scripts.len() + 3];
    for (at, script) in scripts.iter().enumerate() {
        let first = RunPart { has_protocol_version: script.has_protocol_version, ..part(&format!("r{at}")) };
        written.parts.insert(format!("c{at}"), vec![first]);
        if cancelled[at] {
            continue;
        }
        for (step, doing) in script.doings.iter().enumerate() {
            written.doing(at, step, doing);
            let Some((later, _)) = script.cancels.filter(|(_, when)| *when == step) else { continue };
            let queued = at + later;
            if queued < scripts.len() && !std::mem::replace(&mut cancelled[queued], true) {
                written.events.push(ended("cancelled").of(&format!("c{queued}")));
            }
        }
        if script.ends_waiting {
            written.add(at, asked(&format!("c{at}-last")));
            written.say(at, "x", script.end == "completed");
        }
        written.add(at, ended(script.end));
    }
    written
}

impl Written {
    fn add(&mut self, command: usize, event: TestEvent) {
        self.events.push(event.of(&format!("c{command}")));
    }

    /// The item that is being written. Items of a command come one after the other.
    fn item(&self, command: usize) -> String {
        let count = self.said.keys().filter(|item| item.starts_with(&format!("c{command}.m"))).count();
        format!("c{command}.m{}", count.max(1))
    }

    fn say(&mut self, command: usize, text: &str, is_shown: bool) {
        let item = self.item(command);
        self.add(command, partial(&item, text));
        let said = self.said.entry(item).or_insert_with(|| (String::new(), true));
        said.0.push_str(text);
        said.1 &= is_shown;
    }

    fn doing(&mut self, command: usize, step: usize, doing: &Doing) {
        match doing {
            Doing::Next => {
                let count =
                    self.said.keys().filter(|item| item.starts_with(&format!("c{command}.m"))).count();
                self.said.insert(format!("c{command}.m{}", count + 1), (String::new(), true));
            }
            Doing::Part(text) => self.say(command, text, true),
            Doing::Whole => {
                // It ends with something that no part of it has said, and another item follows.
                let item = self.item(command);
                let said = self.said.entry(item.clone()).or_insert_with(|| (String::new(), true));
                said.0.push('.');
                let text = said.0.clone();
                self.add(command, whole(&item, &text));
                self.doing(command, step, &Doing::Next);
            }
            Doing::Stage(name, phase) => self.add(command, stage(name, phase)),
            Doing::Call(id, status) => self.add(command, call(&format!("c{command}.k{id}"), status)),
            Doing::Think(text) => self.add(command, thought(&format!("c{command}.t"), text)),
            Doing::Ask(said, by_part) => {
                let question = format!("c{command}-q{step}");
                self.add(command, asked(&question));
                for text in said {
                    self.say(command, text, true);
                }
                if *by_part {
                    let parts = self.parts.get_mut(&format!("c{command}")).unwrap();
                    parts.push(answering(&format!("r{command}-{step}"), &[&question]));
                }
                self.add(command, answered(&question));
            }
            Doing::Broken(kind, payload) => {
                self.add(command, TestEvent { command: String::new(), kind, payload: payload.clone() });
            }
        }
    }

    fn fold(&self) -> ThreadFold {
        let mut fold = ThreadFold::with_plain_names("t", 100);
        for (command, parts) in &self.parts {
            fold.learn(command, parts.clone());
        }
        fold
    }
}

fn check_order(frames: &[Frame]) {
    assert!(frames.windows(2).all(|pair| pair[0].id < pair[1].id));
    let firsts =
        frames.iter().enumerate().filter(|(at, frame)| *at == 0 || frames[at - 1].id.seq != frame.id.seq);
    assert!(firsts.clone().all(|(_, frame)| frame.id.n == 0));
}

/// The text that is shown of each item, in all of its messages.
fn shown_texts(frames: &[Frame]) -> BTreeMap<String, String> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for frame in frames.iter().filter(|frame| frame.kind == "TEXT_MESSAGE_CONTENT") {
        let data: Value = serde_json::from_str(&frame.data).unwrap();
        let item = data["messageId"].as_str().unwrap().split('-').next().unwrap().to_owned();
        *texts.entry(item).or_default() += data["delta"].as_str().unwrap();
    }
    texts
}

/// Anything at any time, which no runner of ours says.
fn noise() -> impl Strategy<Value = TestEvent> {
    let id = || select(&["a", "b", "a-2"]);
    let any = prop_oneof![
        (id(), "[ab]{0,2}").prop_map(|(id, text)| partial(id, &text)),
        (id(), "[ab]{0,3}").prop_map(|(id, text)| whole(id, &text)),
        (id(), "[ab]{0,2}").prop_map(|(id, text)| thought(id, &text)),
        (id(), select(&["started", "completed", "failed"])).prop_map(|(id, status)| call(id, status)),
        (select(&["router", "worker"]), select(&["started", "finished"]))
            .prop_map(|(name, phase)| stage(name, phase)),
        id().prop_map(asked),
        id().prop_map(answered),
        broken().prop_map(|(kind, payload)| TestEvent { command: "c".to_owned(), kind, payload }),
    ];
    let end = select(&ENDS).prop_map(ended);
    (select(&["c", "c", "c", "d", "e"]), prop_oneof![9 => any, 1 => end])
        .prop_map(|(command, event)| event.of(command))
}

proptest! {
    #[test]
    fn a_log_is_shown_in_a_legal_order_and_every_text_once(scripts in prop::collection::vec(script(), 0..5)) {
        let written = write(&scripts);
        let frames = fold_all(&mut written.fold(), &written.events);
        verifier::check(&frames);
        check_order(&frames);
        let texts = shown_texts(&frames);
        for (item, (said, is_all_shown)) in &written.said {
            let shown = texts.get(item).cloned().unwrap_or_default();
            match is_all_shown {
                true => prop_assert_eq!(&shown, said, "{}", item),
                false => prop_assert!(said.starts_with(&shown), "{}", item),
            }
        }
        prop_assert_eq!(frames.iter().filter(|frame| frame.kind == "RUN_STARTED").count() > 0, !written.events.is_empty());
    }

    #[test]
    fn a_log_that_is_read_again_from_the_active_command_shows_the_same(
        scripts in prop::collection::vec(script(), 1..5),
    ) {
        let written = write(&scripts);
        let (mut fold, mut frames, mut begins) = (written.fold(), Vec::new(), Vec::new());
        for (event, seq) in written.events.iter().zip(1..) {
            begins.push((fold.active.is_none(), frames.len()));
            frames.extend(push(&mut fold, event, seq));
        }
        for (at, (_, before)) in begins.iter().enumerate().filter(|(_, (is_between, _))| *is_between) {
            let mut fold = written.fold();
            let mut again = Vec::new();
            for (event, seq) in written.events.iter().zip(1..).skip(at) {
                again.extend(push(&mut fold, event, seq));
            }
            prop_assert_eq!(&again, &frames[*before..]);
        }
    }

    #[test]
    fn a_log_that_is_cut_anywhere_goes_on_as_it_was(
        scripts in prop::collection::vec(script(), 1..3), cut in any::<prop::sample::Index>(),
    ) {
        let written = write(&scripts);
        let whole = fold_all(&mut written.fold(), &written.events);
        let cut = cut.index(written.events.len() + 1);
        let mut fold = written.fold();
        let mut frames = fold_all(&mut fold, &written.events[..cut]);
        let mut later = fold.clone();
        for (event, seq) in written.events.iter().zip(1..) {
            // Those before the cut show nothing again.
            frames.extend(push(&mut later, event, seq));
        }
        prop_assert_eq!(frames, whole);
    }

    #[test]
    fn nothing_that_a_runner_says_makes_frames_that_clients_refuse(
        events in prop::collection::vec(noise(), 0..60),
        versions in any::<bool>(),
    ) {
        let mut fold = ThreadFold::with_plain_names("t", 0);
        for command in ["c", "d", "e"] {
            let first = RunPart { has_protocol_version: versions, ..part(command) };
            fold.learn(command, vec![first, answering(&format!("{command}2"), &["a"])]);
        }
        // Two commands may name their items alike; that is for whoever gives the ids.
        let of_command = |event: &TestEvent| {
            let payload = event.payload.replace("\"a", &format!("\"{}a", event.command));
            TestEvent { payload: payload.replace("\"b\"", &format!("\"{}b\"", event.command)), ..event.clone() }
        };
        let events: Vec<TestEvent> = events.iter().map(of_command).collect();
        let frames = fold_all(&mut fold, &events);
        verifier::check(&frames);
        check_order(&frames);
    }
}
