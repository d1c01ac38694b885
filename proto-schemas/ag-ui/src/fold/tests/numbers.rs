use super::super::FrameId;
use super::*;

#[test]
fn the_number_of_a_frame_has_one_form() {
    for (text, seq, n) in
        [("0-0", 0, 0), ("17-3", 17, 3), ("9223372036854775807-4294967295", i64::MAX, u32::MAX)]
    {
        assert_eq!(text.parse(), Ok(FrameId { seq, n }));
        assert_eq!(FrameId { seq, n }.to_string(), text);
    }
    for text in [
        "",
        "-",
        "1",
        "1-",
        "-1",
        "-1-0",
        "1--1",
        "+1-0",
        "1-+0",
        "01-0",
        "1-00",
        "1-0-0",
        " 1-0",
        "1-0\n",
        "a-0",
        "9223372036854775808-0",
        "1-4294967296",
        "١-0",
    ] {
        assert!(text.parse::<FrameId>().is_err(), "{text:?}");
    }
}

#[test]
fn numbers_order_by_the_event_and_then_by_the_frame() {
    let mut ids = [(2, 0), (1, 10), (1, 2)].map(|(seq, n)| FrameId { seq, n });
    ids.sort();
    assert_eq!(ids.map(|id| id.to_string()), ["1-2", "1-10", "2-0"]);
}

#[test]
fn the_base_is_added_to_every_number() {
    let mut fold = ThreadFold::with_plain_names("t", 40);
    fold.learn("c", vec![part("r")]);
    let frames = push(&mut fold, &ended("failed"), 2);
    assert_eq!(frames.iter().map(|frame| frame.id.to_string()).collect::<Vec<_>>(), ["42-0", "42-1"]);
    let mut fold = ThreadFold::with_plain_names("t", i64::MAX);
    fold.learn("c", vec![part("r")]);
    assert_eq!(push(&mut fold, &ended("failed"), 2)[1].id, FrameId { seq: i64::MAX, n: 1 });
}

#[test]
fn an_event_that_was_folded_shows_nothing_again() {
    let mut fold = ThreadFold::with_plain_names("t", 0);
    fold.learn("c", vec![part("r")]);
    assert_eq!(push(&mut fold, &partial("m", "a"), 5).len(), 6);
    assert_eq!(push(&mut fold, &partial("m", "a"), 5), []);
    assert_eq!(push(&mut fold, &partial("m", "a"), 4), []);
}

#[test]
fn events_of_no_learned_command_show_nothing() {
    let mut fold = ThreadFold::with_plain_names("t", 0);
    fold.learn("d", Vec::new());
    let log = LogEvent { seq: 1, kind: "backend_status", command_id: None, payload: "{}" };
    assert_eq!(fold.push(&log), []);
    assert_eq!(push(&mut fold, &ended("failed"), 2), []);
    assert_eq!(push(&mut fold, &ended("failed").of("d"), 3), []);
}
