//! A whole runner against a manager that does what the real one does not do when it is asked: it loses answers, and takes nothing for a while.

mod attachments;
mod fake_manager;

use super::*;
use crate::back_end::{
    ApprovalAnswer, BackEnd, BackEndError, BackEndEvent, PastTurn, TurnEnd, TurnImage, TurnRequest,
    WrittenStream,
};
use crate::manager::RunnerToken;
use crate::secrets::RunnerSecrets;
use fake_manager::FakeManager;
use parking_lot::Mutex;
use proto_schemas::requests::run::ApprovalMode;
use proto_schemas::requests::runner::ClaimedRun;
use serde_json::Value;
use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

const WITHIN: Duration = Duration::from_secs(20);

/// A back end that says in each turn what it was made with, and counts how much was read.
struct FakeBackEnd {
    says: Vec<BackEndEvent>,
    now: VecDeque<BackEndEvent>,
    read: Arc<AtomicUsize>,
    images: SeenImages,
}

/// Where images are put, and those that the turns had, as they were when it began.
#[derive(Clone, Default)]
struct SeenImages {
    folder: PathBuf,
    seen: Arc<Mutex<Vec<SeenImage>>>,
}

/// The command and the image with its bytes and the rights to its file.
type SeenImage = (String, TurnImage, Vec<u8>, u32);

impl SeenImages {
    fn see(&self, turn: &TurnRequest) {
        for image in &turn.images {
            let rights = fs::metadata(&image.path).expect("it is there").permissions().mode() & 0o777;
            let bytes = fs::read(&image.path).expect("it can be read");
            self.seen.lock().push((turn.command_id.clone(), image.clone(), bytes, rights));
        }
    }
}

impl BackEnd for FakeBackEnd {
    async fn begin(&mut self, turn: TurnRequest) -> Result<(), BackEndError> {
        self.images.see(&turn);
        self.now = self.says.clone().into();
        self.now.push_back(BackEndEvent::Ended(TurnEnd::completed()));
        Ok(())
    }

    async fn steer(&mut self, _text: String) -> Result<(), BackEndError> {
        Ok(())
    }

    async fn interrupt(&mut self) -> Result<(), BackEndError> {
        Ok(())
    }

    async fn answer(&mut self, _answer: ApprovalAnswer) -> Result<(), BackEndError> {
        Ok(())
    }

    async fn next(&mut self) -> BackEndEvent {
        match self.now.pop_front() {
            Some(event) => {
                self.read.fetch_add(1, Ordering::Relaxed);
                event
            }
            None => std::future::pending().await,
        }
    }

    async fn past_turn(&mut self, _command_id: &str) -> PastTurn {
        PastTurn::NotProven { why: "nobody knows".to_owned() }
    }

    async fn stop(&mut self) {
        self.now.clear();
    }

    fn session_state(&self) -> Option<Value> {
        None
    }

    fn passes_questions(&self, _mode: ApprovalMode) -> bool {
        true
    }

    fn image_folder(&self) -> PathBuf {
        self.images.folder.clone()
    }
}

fn settings(manager: &str) -> RunnerSettings {
    RunnerSettings {
        manager: manager.parse().unwrap(),
        root: None,
        dial: None,
        token: RunnerToken::read("arr_0123456789").unwrap(),
        run: "run_1".to_owned(),
        attempt: "attempt_1".to_owned(),
        command: None,
        profile: "example".to_owned(),
        // Pauses are a part of it.
        lease: Duration::from_millis(200),
        idle: Duration::from_millis(100),
    }
}

async fn work_with(manager: &FakeManager, says: Vec<BackEndEvent>, read: Arc<AtomicUsize>) -> RunnerOutcome {
    work_as(settings(&manager.url()), says, read).await
}

async fn work_as(settings: RunnerSettings, says: Vec<BackEndEvent>, read: Arc<AtomicUsize>) -> RunnerOutcome {
    let images = SeenImages::default();
    let make = |_: &_| FakeBackEnd { says, now: VecDeque::new(), read, images };
    work_by(settings, make).await
}

async fn work_by(settings: RunnerSettings, make: impl FnOnce(&ClaimedRun) -> FakeBackEnd) -> RunnerOutcome {
    let secrets = RunnerSecrets::default();
    let outcome = work(settings, &secrets, make, CancellationToken::new());
    timeout(WITHIN, outcome).await.expect("it ends in time").unwrap()
}

fn printed(text: &str) -> BackEndEvent {
    BackEndEvent::Written { stream: WrittenStream::Stdout, text: text.to_owned() }
}

#[tokio::test]
async fn a_manager_is_dialled_at_another_address_and_keeps_its_name() {
    let manager = FakeManager::start().await;
    let settings =
        RunnerSettings { dial: Some(manager.address()), ..settings("http://manager.invalid:4321") };
    let outcome = tokio::select! {
        outcome = work_as(settings, Vec::new(), Arc::default()) => outcome,
        () = manager.serve() => unreachable!("it serves until it is dropped"),
    };
    assert_eq!(outcome, RunnerOutcome::Released);
    assert_eq!(manager.host(), "manager.invalid:4321");
}

#[tokio::test]
async fn where_every_other_answer_is_lost_nothing_is_told_twice() {
    let manager = FakeManager::start().await;
    manager.lose_every_other_answer();
    let says: Vec<String> = (0..300).map(|n| format!("output {n}")).collect();
    let events = says.iter().map(|text| printed(text)).collect();
    let serving = manager.serve();
    let outcome = tokio::select! {
        outcome = work_with(&manager, events, Arc::default()) => outcome,
        () = serving => unreachable!("it serves until it is dropped"),
    };
    assert_eq!(outcome, RunnerOutcome::Released);
    assert_eq!(manager.printed(), says);
    assert_eq!(manager.ends(), ["cmd_1 completed"]);
    assert!(manager.lost() > 3, "answers were lost: {}", manager.lost());
}

#[tokio::test]
async fn while_nothing_is_taken_the_back_end_is_read_within_bounds() {
    let manager = FakeManager::start().await;
    manager.take_nothing(true);
    let (read, large) = (Arc::new(AtomicUsize::new(0)), "x".repeat(1 << 20));
    let events = vec![printed(&large); 40];
    let watching = async {
        // Until it is full nothing stops it.
        while read.load(Ordering::Relaxed) < 8 || manager.refused() < 3 {
            sleep(Duration::from_millis(5)).await;
        }
        let full = read.load(Ordering::Relaxed);
        sleep(Duration::from_millis(300)).await;
        assert_eq!(read.load(Ordering::Relaxed), full, "nothing more is read");
        assert!(full <= 9, "{full}");
        manager.take_nothing(false);
        std::future::pending::<()>().await;
    };
    let outcome = tokio::select! {
        outcome = work_with(&manager, events, read.clone()) => outcome,
        () = async { tokio::join!(manager.serve(), watching); } => unreachable!("they go on"),
    };
    assert_eq!(outcome, RunnerOutcome::Released);
    assert_eq!(manager.printed().len(), 40);
}
