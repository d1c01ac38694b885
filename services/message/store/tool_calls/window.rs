//! The tool calls of one agent within the last minute: at most sixty, each with the time that it was counted at.

use crate::store::stored_message::MessageKey;
use crate::store::write::CountOutcome;
use std::collections::VecDeque;
use std::fmt::Write as _;

/// How many tool calls an agent may send…
pub(crate) const TOOL_CALL_LIMIT: usize = 60;
/// … in any stretch of this length.
pub(crate) const TOOL_CALL_WINDOW_MS: i64 = 60_000;

/// In ascending order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ToolCallWindow(VecDeque<CountedCall>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct CountedCall {
    at: i64,
    /// Empty where the stored message tells whether it was sent before.
    key: String,
}

impl ToolCallWindow {
    /// Reads a row of the table.
    pub fn read(text: &str) -> ToolCallWindow {
        let call = |part: &str| {
            let (at, key) = part.split_once(':').unwrap_or((part, ""));
            Some(CountedCall { at: at.parse().ok()?, key: key.to_owned() })
        };
        ToolCallWindow(text.split(',').filter_map(call).collect())
    }

    /// As the table stores it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for CountedCall { at, key } in &self.0 {
            let comma = if text.is_empty() { "" } else { "," };
            let colon = if key.is_empty() { "" } else { ":" };
            // Writing to a string cannot fail.
            let _ = write!(text, "{comma}{at}{colon}{key}");
        }
        text
    }

    /// The time of the latest call.
    pub fn last(&self) -> i64 {
        self.0.back().map_or(0, |call| call.at)
    }

    /// Counts a call unless there are too many already. With a key, a call of that key is counted once.
    ///
    /// Times never go back: of two processes one may be a little behind, and calls may overtake each other on their way here.
    /// The later one then counts from the time of the earlier, so that no stretch of a minute holds more than it may.
    pub fn count(&mut self, at: i64, key: Option<MessageKey>) -> CountOutcome {
        let key = key.map(|key| key.text()).unwrap_or_default();
        // Only a clock that was wrong counted so far ahead; its calls do not keep the agent from sending now.
        self.0.retain(|call| call.at <= at + TOOL_CALL_WINDOW_MS);
        let now = self.last().max(at);
        while self.0.pop_front_if(|first| first.at <= now - TOOL_CALL_WINDOW_MS).is_some() {}
        if !key.is_empty() && self.0.iter().any(|call| call.key == key) {
            return CountOutcome::CountedBefore;
        }
        match self.0.front() {
            Some(first) if self.0.len() >= TOOL_CALL_LIMIT => {
                CountOutcome::TooMany { retry_after_ms: first.at + TOOL_CALL_WINDOW_MS - at }
            }
            _ => {
                self.0.push_back(CountedCall { at: now, key });
                CountOutcome::Counted
            }
        }
    }

    /// Takes back the call of a key; says whether there was one.
    pub fn remove(&mut self, key: MessageKey) -> bool {
        let (before, key) = (self.0.len(), key.text());
        self.0.retain(|call| call.key != key);
        self.0.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::Aid;
    use proptest::prelude::*;
    use testing::cases;

    const START: i64 = 1_794_701_761_000;

    fn key(name: &str) -> MessageKey {
        MessageKey::new(&Aid::parse("alice.aid.pub").unwrap(), name)
    }

    fn too_many(retry_after_ms: i64) -> CountOutcome {
        CountOutcome::TooMany { retry_after_ms }
    }

    #[test]
    fn the_next_one_passes_exactly_when_the_first_leaves() {
        let mut window = ToolCallWindow::default();
        for number in 0..60 {
            assert_eq!(window.count(START + number, None), CountOutcome::Counted, "{number}");
        }
        assert_eq!(window.count(START + 59, None), too_many(59_941));
        assert_eq!(window.count(START + 59_999, None), too_many(1));
        assert_eq!(window.count(START + 60_000, None), CountOutcome::Counted);
        assert_eq!(window.count(START + 60_000, None), too_many(1), "and one only");
        assert_eq!(window.count(START + 60_001, None), CountOutcome::Counted);
    }

    #[test]
    fn a_key_is_counted_once_and_can_be_taken_back() {
        let mut window = ToolCallWindow::default();
        assert_eq!(window.count(START, Some(key("a"))), CountOutcome::Counted);
        for _ in 1..60 {
            assert_eq!(window.count(START + 1, None), CountOutcome::Counted);
        }
        assert_eq!(window.count(START + 2, Some(key("a"))), CountOutcome::CountedBefore);
        assert_eq!(window.count(START + 2, Some(key("b"))), too_many(59_998));
        assert!(window.remove(key("a")) && !window.remove(key("a")));
        assert_eq!(window.count(START + 2, Some(key("b"))), CountOutcome::Counted);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut window = ToolCallWindow::default();
        assert_eq!(ToolCallWindow::read(&window.text()), window);
        window.count(START, None);
        window.count(START + 5, Some(key("a")));
        assert_eq!(window.text(), format!("{START},{}:{}", START + 5, key("a").text()));
        assert_eq!(ToolCallWindow::read(&window.text()), window);
        assert_eq!(window.last(), START + 5);
    }

    #[test]
    fn a_clock_that_was_wrong_keeps_nobody_from_sending() {
        let mut window = ToolCallWindow::default();
        for _ in 0..60 {
            window.count(START + 3_600_000, None);
        }
        assert_eq!(window.count(START, None), CountOutcome::Counted);
    }

    proptest! {
        #![proptest_config(cases(256))]

        /// Whatever the order of the times, within what clocks may differ.
        #[test]
        fn no_minute_holds_more_than_sixty(steps in prop::collection::vec(-400_i64..1500, 1..400)) {
            let (mut window, mut at, mut counted) = (ToolCallWindow::default(), START, Vec::new());
            let mut latest = at;
            for step in steps {
                at = (at + step).max(latest - 30_000);
                latest = latest.max(at);
                let outcome = window.count(at, None);
                let is_soon = matches!(outcome, CountOutcome::TooMany { retry_after_ms: 1.. });
                prop_assert!(is_soon || outcome == CountOutcome::Counted);
                if !is_soon {
                    counted.push(window.last());
                }
            }
            prop_assert!(counted.is_sorted());
            for many in counted.windows(TOOL_CALL_LIMIT + 1) {
                prop_assert!(many[TOOL_CALL_LIMIT] - many[0] >= TOOL_CALL_WINDOW_MS);
            }
        }
    }
}
