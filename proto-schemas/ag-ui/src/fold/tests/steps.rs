use super::*;

fn steps(events: &[TestEvent]) -> String {
    let mut text = String::new();
    for frame in shown(events) {
        text += match &*frame {
            "STEP_STARTED router" => "(r",
            "STEP_FINISHED router" => "r)",
            "STEP_STARTED worker" => "(w",
            "STEP_FINISHED worker" => "w)",
            frame if frame.starts_with("TEXT_MESSAGE_CONTENT") => "-",
            frame if frame.starts_with("RUN_STARTED") => "[",
            frame if frame.starts_with("RUN_") => "]",
            _ => "",
        };
    }
    text
}

#[test]
fn both_steps_are_always_shown_and_each_once() {
    let (router, worker) = (|phase: &str| stage("router", phase), |phase: &str| stage("worker", phase));
    let (on, off) = ("started", "finished");
    let said = || partial("m", "a");
    let end = || ended("completed");
    let table: [(&[TestEvent], &str); 12] = [
        (&[end()], "[(rr)(ww)]"),
        (&[said(), end()], "[(rr)(w-w)]"),
        (&[router(on), router(off), worker(on), said(), worker(off), end()], "[(rr)(w-w)]"),
        (&[router(on), said(), end()], "[(r-r)(ww)]"),
        (&[router(on), router(on), worker(on), worker(on), end()], "[(rr)(ww)]"),
        (&[router(on), router(off), said(), worker(on), end()], "[(rr)(w-w)]"),
        (&[router(off), worker(off), worker(on), router(on), worker(off), worker(on), end()], "[(rr)(ww)]"),
        (&[worker(on), worker(off), router(on), said(), end()], "[(rr)(ww)-]"),
        (&[stage("planner", on), stage("planner", off), end()], "[(rr)(ww)]"),
        (&[router(on), ended("failed")], "[(rr)]"),
        (&[ended("failed")], "[]"),
        (&[said(), ended("cancelled")], "[(rr)(w-w)]"),
    ];
    for (events, expected) in table {
        assert_eq!(steps(events), expected, "{events:?}");
    }
}

#[test]
fn a_step_goes_on_after_a_question() {
    let (on, off) = ("started", "finished");
    let said = || partial("m", "a");
    let table: [(&[TestEvent], &str); 5] = [
        (&[said(), asked("q2"), answered("q2"), said(), ended("completed")], "[(rr)(w-w)][(w-w)]"),
        (&[said(), asked("q2"), answered("q2"), ended("completed")], "[(rr)(w-w)][]"),
        (&[asked("q2"), answered("q2"), ended("completed")], "[][(rr)(ww)]"),
        (
            &[stage("router", on), asked("q2"), answered("q2"), said(), ended("completed")],
            "[(rr)][(r-r)(ww)]",
        ),
        (
            &[
                stage("router", on),
                asked("q2"),
                stage("router", off),
                stage("worker", on),
                answered("q2"),
                stage("worker", off),
                ended("completed"),
            ],
            "[(rr)][(ww)]",
        ),
    ];
    for (events, expected) in table {
        assert_eq!(steps(events), expected, "{events:?}");
    }
}
