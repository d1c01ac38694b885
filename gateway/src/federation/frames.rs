//! What goes into the next frame of a link: from the front of the queue, as much as the other side takes.

use super::job::Job;
use super::refused;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// Past so many frames under way a few calls wait for company: until there are enough for a frame worth its trip, or
/// the first of them has waited this long.
pub const FEW_FRAMES: usize = 8;
const COMPANY: usize = 64;
const COMPANY_PATIENCE: Duration = Duration::from_millis(2);

/// What a frame is, beside its relays, at most.
const ENVELOPE: usize = 160;

#[derive(Default)]
pub struct Picked {
    pub jobs: Vec<Job>,
    /// Those that will never be sent.
    pub out: Vec<Job>,
    pub held: Option<Instant>,
}

/// The jobs of the next frame, from the front of the queue.
pub fn pick(waiting: &mut VecDeque<Job>, few: bool, service: usize, most: usize, now: Instant) -> Picked {
    let mut picked = Picked::default();
    let Some(first) = waiting.front() else { return picked };
    let patience = first.since + COMPANY_PATIENCE;
    if !few && waiting.len() < COMPANY && now < patience {
        picked.held = Some(patience);
        return picked;
    }
    let mut bytes = ENVELOPE;
    while picked.jobs.len() < service
        && let Some(job) = waiting.front()
    {
        let fits = bytes + job.len() <= most;
        if !fits && !picked.jobs.is_empty() {
            break;
        }
        bytes += job.len() + 1;
        let Some(job) = waiting.pop_front() else { break };
        if !fits || job.deadline <= now || job.is_forgotten() {
            bytes -= job.len() + 1;
            picked.out.push(job);
        } else {
            picked.jobs.push(job);
        }
    }
    picked
}

pub fn end_unsent(mut job: Job, most: usize, now: Instant) {
    if job.deadline <= now {
        job.end_late();
    } else if !job.is_forgotten() {
        let sentence = format!("the call is larger than the {most} bytes the other gateway takes");
        job.end(Err(refused("oversize", sentence)));
    }
}

pub fn write_frame(id: u64, jobs: &mut [Job], now: Instant) -> Utf8Bytes {
    let bytes: usize = jobs.iter().map(|job| job.len() + 1).sum();
    let mut frame = String::with_capacity(bytes + ENVELOPE);
    frame.push_str("{\"jsonrpc\":\"2.0\",\"id\":");
    frame.push_str(itoa::Buffer::new().format(id));
    if let [job] = jobs {
        frame.push_str(",\"method\":\"federation.relay\",\"params\":");
        job.write(&mut frame, now);
        frame.push('}');
        return frame.into();
    }
    frame.push_str(",\"method\":\"federation.relay_batch\",\"params\":{\"batch_id\":\"");
    frame.push_str(itoa::Buffer::new().format(id));
    frame.push_str("\",\"items\":");
    let mut before = '[';
    for job in jobs {
        frame.push(before);
        before = ',';
        job.write(&mut frame, now);
    }
    frame.push_str("]}}");
    frame.into()
}
