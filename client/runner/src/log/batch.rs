//! The queue of what waits to be told, and what goes into one call.

use super::{EntryBatch, LogEntry};
use std::collections::VecDeque;

/// What the manager takes in one call.
const MOST_EVENTS: usize = 200;
/// After so many bytes no further event is added. The manager takes 4 MiB, and one event has 2 MiB at most.
const BATCH_BYTES: usize = 1 << 20;

/// What waits, with its bytes. What was taken counts until it was told.
#[derive(Debug, Default)]
pub(super) struct EntryQueue {
    waiting: VecDeque<LogEntry>,
    waiting_bytes: usize,
    taken_bytes: usize,
    is_taken: bool,
}

impl EntryQueue {
    pub fn push(&mut self, entry: LogEntry) {
        self.waiting_bytes += entry.bytes();
        self.waiting.push_back(entry);
    }

    pub fn bytes(&self) -> usize {
        self.waiting_bytes + self.taken_bytes
    }

    /// Whether everything has been told.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && !self.is_taken
    }

    /// What is told next. Until [`EntryQueue::told`] there is nothing else.
    pub fn take(&mut self) -> Option<EntryBatch> {
        if self.is_taken {
            return None;
        }
        let first = self.pop()?;
        self.is_taken = true;
        Some(match first {
            LogEntry::Acknowledge { command_id } => EntryBatch::Acknowledge { command_id },
            LogEntry::Report(report) => EntryBatch::Report(report),
            LogEntry::Release => EntryBatch::Release,
            LogEntry::Event(event) => {
                let command_id = event.command_id.clone();
                let mut events = vec![event];
                while events.len() < MOST_EVENTS && self.taken_bytes < BATCH_BYTES {
                    match self.waiting.front() {
                        Some(LogEntry::Event(next)) if next.command_id == command_id => {}
                        _ => break,
                    }
                    let Some(LogEntry::Event(next)) = self.pop() else { break };
                    events.push(next);
                }
                EntryBatch::Events { command_id, events }
            }
        })
    }

    fn pop(&mut self) -> Option<LogEntry> {
        let entry = self.waiting.pop_front()?;
        self.waiting_bytes -= entry.bytes();
        self.taken_bytes += entry.bytes();
        Some(entry)
    }

    /// What was taken has been told, or nobody wants to hear it.
    pub fn told(&mut self) {
        (self.is_taken, self.taken_bytes) = (false, 0);
    }

    /// Forgets what waits about a command that has ended without us.
    pub fn forget(&mut self, command_id: &str) {
        self.waiting.retain(|entry| entry.command_id() != Some(command_id));
        self.waiting_bytes = self.waiting.iter().map(LogEntry::bytes).sum();
    }

    /// Forgets everything that waits.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.waiting_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogReport;
    use proto_schemas::requests::run::RunEventType;
    use proto_schemas::requests::runner::{NewRunEvent, ReportedStatus};
    use serde_json::value::to_raw_value;

    fn event(command: Option<&str>, text: &str) -> LogEntry {
        LogEntry::Event(NewRunEvent {
            client_event_id: text.to_owned(),
            kind: RunEventType::AssistantMessage,
            command_id: command.map(str::to_owned),
            payload: to_raw_value(text).unwrap(),
            occurred_at: None,
        })
    }

    fn report(command: &str) -> LogEntry {
        LogEntry::Report(LogReport {
            command_id: command.to_owned(),
            status: ReportedStatus::Completed,
            failure_kind: None,
            failure_message: None,
            session_state: None,
        })
    }

    /// The batches in their order, as words.
    fn drained(queue: &mut EntryQueue) -> Vec<String> {
        let mut batches = Vec::new();
        while let Some(batch) = queue.take() {
            batches.push(match batch {
                EntryBatch::Acknowledge { command_id } => format!("take {command_id}"),
                EntryBatch::Report(report) => format!("end {}", report.command_id),
                EntryBatch::Release => "release".to_owned(),
                EntryBatch::Events { command_id, events } => {
                    format!("{} of {}", events.len(), command_id.unwrap_or_default())
                }
            });
            queue.told();
        }
        assert!(queue.is_empty() && queue.bytes() == 0);
        batches
    }

    #[test]
    fn events_of_one_command_go_together_and_the_order_stays() {
        let mut queue = EntryQueue::default();
        queue.push(LogEntry::Acknowledge { command_id: "a".to_owned() });
        (0..250).for_each(|n| queue.push(event(Some("a"), &n.to_string())));
        queue.push(event(Some("b"), "x"));
        queue.push(event(None, "y"));
        queue.push(report("a"));
        queue.push(LogEntry::Release);
        assert_eq!(
            drained(&mut queue),
            ["take a", "200 of a", "50 of a", "1 of b", "1 of ", "end a", "release"]
        );
    }

    #[test]
    fn a_batch_is_limited_in_bytes() {
        let mut queue = EntryQueue::default();
        (0..5).for_each(|_| queue.push(event(Some("a"), &"x".repeat(600 << 10))));
        assert_eq!(drained(&mut queue), ["2 of a", "2 of a", "1 of a"]);
    }

    #[test]
    fn what_was_taken_counts_until_it_was_told() {
        let mut queue = EntryQueue::default();
        queue.push(event(Some("a"), &"x".repeat(1000)));
        let bytes = queue.bytes();
        assert!(bytes > 1000);
        assert!(queue.take().is_some());
        assert!(queue.take().is_none(), "one at a time");
        assert_eq!((queue.bytes(), queue.is_empty()), (bytes, false));
        queue.told();
        assert!(queue.is_empty());
    }

    #[test]
    fn what_has_ended_is_forgotten() {
        let mut queue = EntryQueue::default();
        queue.push(event(Some("a"), "1"));
        queue.push(event(Some("b"), "2"));
        queue.push(report("a"));
        queue.forget("a");
        assert_eq!(drained(&mut queue), ["1 of b"]);
    }
}
