//! A ticker of a fixed rate, whatever the server does.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

/// Ticks `count` times, each `gap` after the one before, and sends the number of each tick to the next of the queues in turn.
///
/// It is a thread that sleeps: timers of the runtime are a millisecond coarse, and at this rate that is five messages.
pub(super) fn tick(start: Instant, gap: Duration, count: u64, queues: &[mpsc::Sender<u64>]) {
    reduce_timer_slack();
    for number in 0..count {
        std::thread::sleep(due(start, gap, number).saturating_duration_since(Instant::now()));
        let turn = number as usize % queues.len();
        // A receiver that is dropped belongs to a sender that failed, which reports it.
        let _ = queues[turn].blocking_send(number);
    }
}

/// When a message should be sent. Its delay counts from here, so that a server which holds up the sender gains nothing.
pub(super) fn due(start: Instant, gap: Duration, number: u64) -> Instant {
    start + gap * u32::try_from(number).unwrap_or(u32::MAX)
}

/// Linux lets a sleeper oversleep by 50 µs, which would count as delay on both sides. It can be told not to.
fn reduce_timer_slack() {
    if let Ok(thread) = std::fs::read_link("/proc/thread-self")
        && let Some(number) = thread.file_name().and_then(|name| name.to_str())
    {
        // Where it may not be set the sleep is coarser, and the figures of both sides with it.
        let _ = std::fs::write(format!("/proc/{number}/timerslack_ns"), "1");
    }
}
