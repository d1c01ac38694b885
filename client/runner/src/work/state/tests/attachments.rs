//! A turn whose images are fetched first.

use super::*;
use crate::back_end::TurnImage;

const FETCH: &str = "fetch for cmd_1: a/1.png a/2.jpg";

fn picture_turn(seq: i64) -> CommandRecord {
    let attachments = json!([
        { "attachmentId": "a/1.png", "mimeType": "image/png" },
        { "attachmentId": "a/2.jpg", "mimeType": "image/jpeg" },
    ]);
    command(seq, "turn", json!({ "prompt": "look", "attachments": attachments }))
}

fn fetched() -> Result<Vec<TurnImage>, String> {
    let image = |name: &str| TurnImage { path: name.into(), mime_type: "image/png".to_owned() };
    Ok(vec![image("/t/1.png"), image("/t/2.jpg")])
}

impl TestWork {
    /// The images of the first turn are on their way.
    fn fetching() -> TestWork {
        let mut work = TestWork::new();
        assert_eq!(work.polled(vec![picture_turn(1)]), ["take cmd_1"]);
        assert_eq!(work.taken(picture_turn(1)), [FETCH]);
        work
    }

    fn came(&mut self, images: Result<Vec<TurnImage>, String>) -> Vec<String> {
        self.state.fetched(images, self.now);
        self.actions()
    }
}

#[test]
fn a_turn_begins_when_its_images_are_there() {
    let mut work = TestWork::fetching();
    assert!(work.polled(vec![turn(2)]).is_empty());
    assert!(work.after(IDLE, true).is_empty(), "it is at work");
    assert_eq!(work.came(fetched()), ["begin cmd_1: look with 2"]);
    assert!(work.came(fetched()).is_empty(), "it begins once");
    assert_eq!(work.cancel("cmd_1"), ["interrupt"], "it is a turn as every other");
    assert_eq!(work.ended(interrupted()), ["end cmd_1: cancelled cancelled", "take cmd_2"]);
    assert_eq!(work.taken(turn(2)), ["begin cmd_2: hello"]);
}

#[test]
fn without_its_images_a_turn_fails() {
    let mut work = TestWork::fetching();
    work.polled(vec![turn(2)]);
    let refused = Err("attachment 1 cannot be fetched".to_owned());
    assert_eq!(work.came(refused), ["end cmd_1: failed infra-failed", "take cmd_2"]);
}

#[test]
fn attachments_that_are_none_fail_the_turn() {
    let one = json!({ "attachmentId": "a/1.png", "mimeType": "image/png" });
    for attachments in [
        json!("a/1.png"),
        json!({}),
        json!([7]),
        json!([{ "attachmentId": "a/1.png" }]),
        json!([{ "attachmentId": "../../etc/passwd", "mimeType": "image/png" }]),
        json!([{ "attachmentId": "a/1.svg", "mimeType": "image/svg+xml" }]),
        json!([one, one, one, one]),
    ] {
        let odd = command(1, "turn", json!({ "prompt": "look", "attachments": attachments }));
        let mut work = TestWork::new();
        work.polled(vec![odd.clone()]);
        assert_eq!(work.taken(odd), ["end cmd_1: failed schema-invalid"], "{attachments}");
    }
    for none in [json!(null), json!([])] {
        let plain = command(1, "turn", json!({ "prompt": "hello", "attachments": none }));
        let mut work = TestWork::new();
        work.polled(vec![plain.clone()]);
        assert_eq!(work.taken(plain), ["begin cmd_1: hello"]);
    }
}

#[test]
fn a_turn_that_is_told_to_end_while_its_images_are_fetched_ends_at_once() {
    let mut work = TestWork::fetching();
    assert_eq!(work.cancel("cmd_1"), ["end cmd_1: cancelled cancelled"]);
    assert!(work.came(fetched()).is_empty());

    let mut work = TestWork::fetching();
    assert_eq!(work.after(TIMEOUT, true), ["end cmd_1: failed backend-timeout"]);

    let mut work = TestWork::fetching();
    let interrupt = || command(2, "interrupt", json!({}));
    work.polled(vec![interrupt()]);
    assert_eq!(work.taken(interrupt()), ["end cmd_1: failed cancelled", "report cmd_2: completed"]);

    let mut work = TestWork::fetching();
    let over = WorkSignal::CommandOver { command_id: "cmd_1".to_owned() };
    assert_eq!(work.hear(over), ["say nothing of cmd_1", "check", "forget the rest of cmd_1"]);

    let mut work = TestWork::fetching();
    work.state.stop(work.now);
    assert_eq!(work.actions(), ["end cmd_1: failed infra-failed"]);
    assert_eq!(work.after(Duration::ZERO, true), ["release"]);
}

#[test]
fn guidance_waits_until_the_turn_begins() {
    let mut work = TestWork::fetching();
    assert_eq!(work.polled(vec![steer(2)]), ["take cmd_2"]);
    assert!(work.taken(steer(2)).is_empty());
    assert_eq!(work.came(fetched()), ["begin cmd_1: look with 2", "steer cmd_1 by cmd_2: left"]);

    let mut work = TestWork::fetching();
    work.polled(vec![steer(2), turn(3)]);
    work.taken(steer(2));
    assert_eq!(
        work.came(Err("m".to_owned())),
        ["end cmd_1: failed infra-failed", "report cmd_2: blocked backend-failed", "take cmd_3"]
    );
    assert_eq!(work.state.waiting_bytes, 0);

    let mut work = TestWork::fetching();
    work.polled(vec![steer(2)]);
    work.taken(steer(2));
    work.state.stop(work.now);
    assert_eq!(work.actions(), ["end cmd_1: failed infra-failed", "report cmd_2: blocked backend-failed"]);
    assert_eq!(work.state.waiting_bytes, 0);
}
