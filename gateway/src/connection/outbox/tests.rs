//! What an outbox takes, gives and counts.

use super::*;

fn outbox(per_connection: usize, total: usize) -> (ConnectionOutbox, Arc<OutboxBudget>) {
    let budget = Arc::new(OutboxBudget::new(per_connection, total, Arc::default()));
    (ConnectionOutbox::new(budget.clone()), budget)
}

#[test]
fn frames_come_out_in_order_and_give_back_their_bytes() {
    let (outbox, budget) = outbox(100, 1000);
    outbox.push("one".into());
    outbox.push("two".into());
    assert_eq!(budget.used(), 6);
    for expected in ["one", "two"] {
        assert!(matches!(outbox.pop(), Some(OutboxItem::Frame(frame)) if frame == expected));
    }
    assert!(outbox.pop().is_none());
    assert_eq!(budget.used(), 0);
}

#[test]
fn several_frames_are_taken_at_once_and_the_rest_stays_counted() {
    let (outbox, budget) = outbox(1 << 20, 1 << 20);
    for frame in ["one", "two", "three"] {
        outbox.push(frame.into());
    }
    assert!(matches!(outbox.take(), Some(OutboxItem::Frames(frames)) if frames == ["one", "two", "three"]));
    assert!(outbox.take().is_none());
    assert_eq!(budget.used(), 0);
    let large = "x".repeat(AT_ONCE_BYTES);
    outbox.push(large.as_str().into());
    outbox.push("small".into());
    outbox.close(CloseReason::plain(1012, "restart"));
    assert!(matches!(outbox.take(), Some(OutboxItem::Frame(frame)) if frame == large));
    assert_eq!(budget.used(), 5);
    assert!(matches!(outbox.take(), Some(OutboxItem::Frame(frame)) if frame == "small"));
    assert!(matches!(outbox.take(), Some(OutboxItem::CloseReason(_))));
}

#[test]
fn a_slow_reader_is_closed_and_its_outbox_holds_nothing() {
    let (outbox, budget) = outbox(10, 1000);
    outbox.push("12345678".into());
    outbox.push("12345678".into());
    assert!(matches!(outbox.pop(), Some(OutboxItem::CloseReason(close_reason)) if close_reason.code == 1013));
    outbox.push("x".into());
    assert!(outbox.pop().is_none());
    assert_eq!(budget.used(), 0);
}

#[test]
fn what_outboxes_hold_together_is_counted_for_each_agent_and_for_all() {
    let budget = Arc::new(OutboxBudget::new(100, 1000, Arc::default()));
    let outboxes = [(); 3].map(|()| ConnectionOutbox::new(budget.clone()));
    let agent = Arc::new(AgentOutboxes::default());
    outboxes[0].push("12345".into());
    for outbox in &outboxes[..2] {
        outbox.join(&agent);
        outbox.push("123456".into());
    }
    outboxes[2].push("1234567".into());
    assert!(outboxes[1].reserve(10));
    assert_eq!((agent.used(), budget.used()), (27, 34), "what came before the session counts, too");
    assert_eq!(budget.metrics.outbox_bytes.get(), 34, "without a scrape");
    outboxes[1].release(10);
    let [first, second, third] = outboxes;
    assert!(matches!(first.take(), Some(OutboxItem::Frames(_))));
    assert_eq!((agent.used(), budget.used()), (6, 13));
    drop(second);
    assert_eq!((agent.used(), budget.used()), (0, 7));
    drop(third);
    assert_eq!(budget.used(), 0);
}

#[test]
fn what_is_reserved_counts_like_a_frame() {
    let (outbox, budget) = outbox(10, 1000);
    assert!(outbox.reserve(8));
    assert!(!outbox.reserve(8));
    assert!(matches!(outbox.pop(), Some(OutboxItem::CloseReason(close_reason)) if close_reason.code == 1013));
    assert_eq!(budget.used(), 8);
    outbox.release(8);
    assert_eq!(budget.used(), 0);
}

#[test]
fn the_first_close_reason_counts_and_comes_after_the_frames() {
    let (outbox, _) = outbox(100, 100);
    outbox.push("last frame".into());
    outbox.close(CloseReason::plain(4009, "replaced"));
    outbox.close(CloseReason::plain(1012, "restart"));
    assert!(matches!(outbox.pop(), Some(OutboxItem::Frame(_))));
    assert!(matches!(outbox.pop(), Some(OutboxItem::CloseReason(close_reason)) if close_reason.code == 4009));
}
