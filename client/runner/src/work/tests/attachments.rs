//! Turns whose images a manager has.

use super::fake_manager::FakeAttachment;
use super::*;
use serde_json::json;
use std::path::Path;
use tempfile::TempDir;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n a picture";
const JPEG: &[u8] = b"\xff\xd8\xff\xe0 a photo";
const FIRST: &str = "alice.example%2F1.png";

fn png(id: &str) -> Value {
    json!({ "attachmentId": id, "mimeType": "image/png" })
}

fn look_at(attachments: Value) -> Value {
    json!({ "prompt": "look", "attachments": attachments })
}

/// A manager with these turns, and a runner whose back end notes the images.
struct PictureWork {
    manager: FakeManager,
    folder: TempDir,
    images: SeenImages,
}

impl PictureWork {
    async fn new(turns: Vec<Value>) -> PictureWork {
        let folder = tempfile::tempdir().unwrap();
        let images = SeenImages { folder: folder.path().to_owned(), ..SeenImages::default() };
        PictureWork { manager: FakeManager::with_turns(turns).await, folder, images }
    }

    async fn one(answer: Option<FakeAttachment>) -> PictureWork {
        let work = PictureWork::new(vec![look_at(json!([png("alice.example/1.png")]))]).await;
        answer.into_iter().for_each(|answer| work.manager.attach(FIRST, answer));
        work
    }

    async fn run(&self) -> RunnerOutcome {
        let make = |_: &_| FakeBackEnd {
            says: Vec::new(),
            now: VecDeque::new(),
            read: Arc::default(),
            images: self.images.clone(),
        };
        tokio::select! {
            outcome = work_by(settings(&self.manager.url()), make) => outcome,
            () = self.manager.serve() => unreachable!("it serves until it is dropped"),
        }
    }

    /// The images that the back end had, as the commands, the paths, the types and the bytes.
    fn seen(&self) -> Vec<(String, String, String, Vec<u8>)> {
        let seen = self.images.seen.lock();
        let shown = seen.iter().map(|(command, image, bytes, rights)| {
            assert_eq!(*rights, 0o600);
            let path = image.path.strip_prefix(self.folder.path()).unwrap_or(Path::new("elsewhere"));
            (command.clone(), path.display().to_string(), image.mime_type.clone(), bytes.clone())
        });
        shown.collect()
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(self.folder.path()).unwrap().next().is_none()
    }
}

#[tokio::test]
async fn images_are_fetched_for_each_turn_and_removed_after_it() {
    let photo = json!({ "attachmentId": "böb/x y?.jpg", "mimeType": "image/jpeg" });
    let turns = vec![look_at(json!([png("alice.example/1.png"), photo])), look_at(json!([photo]))];
    let work = PictureWork::new(turns).await;
    work.manager.attach(FIRST, FakeAttachment::Bytes(PNG.to_vec()));
    work.manager.attach("b%C3%B6b%2Fx%20y%3F.jpg", FakeAttachment::Bytes(JPEG.to_vec()));
    assert_eq!(work.run().await, RunnerOutcome::Released);
    assert_eq!(work.manager.ends(), ["cmd_1 completed", "cmd_2 completed"]);
    let seen = |command: &str, file: &str, mime_type: &str, bytes: &[u8]| {
        let path = format!("aund-attachments-{command}/{file}");
        (command.to_owned(), path, mime_type.to_owned(), bytes.to_vec())
    };
    assert_eq!(
        work.seen(),
        [
            seen("cmd_1", "1.png", "image/png", PNG),
            seen("cmd_1", "2.jpg", "image/jpeg", JPEG),
            seen("cmd_2", "1.jpg", "image/jpeg", JPEG),
        ]
    );
    assert!(work.is_empty());
}

#[tokio::test]
async fn the_largest_image_is_fetched() {
    let mut largest = PNG.to_vec();
    largest.resize(10 << 20, 0);
    let work = PictureWork::one(Some(FakeAttachment::Bytes(largest))).await;
    work.run().await;
    assert_eq!(work.manager.ends(), ["cmd_1 completed"]);
    assert_eq!(work.seen()[0].3.len(), 10 << 20);
}

#[tokio::test]
async fn without_an_image_its_turn_fails_and_the_next_one_goes_on() {
    let mut large = PNG.to_vec();
    large.resize((10 << 20) + 1, 0);
    for (answer, sentence) in [
        (None, "attachment 1 cannot be fetched: no attachment (not-found)"),
        (
            Some(FakeAttachment::After(9, 403, Vec::new())),
            "attachment 1 cannot be fetched: no attachment (infra-failed)",
        ),
        (Some(FakeAttachment::Bytes(JPEG.to_vec())), "attachment 1 is not what it is said to be: image/png"),
        (Some(FakeAttachment::Bytes(Vec::new())), "attachment 1 is not what it is said to be: image/png"),
        (Some(FakeAttachment::Bytes(large)), "attachment 1 has more than 10 MiB"),
    ] {
        let turns = vec![look_at(json!([png("alice.example/1.png")])), json!({ "prompt": "hello" })];
        let work = PictureWork::new(turns).await;
        answer.into_iter().for_each(|answer| work.manager.attach(FIRST, answer));
        assert_eq!(work.run().await, RunnerOutcome::Released, "{sentence}");
        assert_eq!(work.manager.ends(), ["cmd_1 failed", "cmd_2 completed"], "{sentence}");
        assert_eq!(work.manager.failures(), [sentence]);
        assert!(work.seen().is_empty() && work.is_empty(), "{sentence}");
    }
}

#[tokio::test]
async fn attachments_that_are_none_are_not_asked_for() {
    for attachments in
        [json!("x"), json!([png("../../x")]), json!([{ "attachmentId": "a/1", "mimeType": "text/html" }])]
    {
        let work = PictureWork::new(vec![look_at(attachments.clone())]).await;
        assert_eq!(work.run().await, RunnerOutcome::Released);
        assert_eq!(work.manager.ends(), ["cmd_1 failed"], "{attachments}");
        assert_eq!((work.manager.asked(), work.manager.failures().len()), (0, 1), "{attachments}");
    }
}

#[tokio::test]
async fn a_manager_that_is_away_is_asked_again() {
    let work = PictureWork::one(Some(FakeAttachment::After(3, 503, PNG.to_vec()))).await;
    work.run().await;
    assert_eq!(work.manager.ends(), ["cmd_1 completed"]);
    assert_eq!((work.manager.asked(), work.seen().len()), (4, 1));
}

#[tokio::test]
async fn a_turn_can_be_cancelled_while_its_images_are_fetched() {
    let turns = vec![
        look_at(json!([png("alice.example/1.png"), png("alice.example/2.png")])),
        look_at(json!([png("alice.example/1.png")])),
    ];
    let work = PictureWork::new(turns).await;
    work.manager.attach(FIRST, FakeAttachment::Bytes(PNG.to_vec()));
    work.manager.attach("alice.example%2F2.png", FakeAttachment::Silent);
    let cancelling = async {
        while work.manager.asked() < 2 {
            sleep(Duration::from_millis(5)).await;
        }
        assert!(!work.is_empty(), "the first has come");
        work.manager.cancel("cmd_1");
        std::future::pending::<()>().await;
    };
    let outcome = tokio::select! {
        outcome = work.run() => outcome,
        () = cancelling => unreachable!("it waits"),
    };
    assert_eq!(outcome, RunnerOutcome::Released);
    assert_eq!(work.manager.ends(), ["cmd_1 cancelled", "cmd_2 completed"]);
    assert_eq!(work.seen().len(), 1, "the next turn has its own");
    assert!(work.is_empty());
}
