//! Events that may be repeated to one connection: their numbers never go back there.

use super::{Connection, SeriesNumber};
use tokio_tungstenite::tungstenite::Utf8Bytes;

impl Connection {
    /// Queues an event, with its number if events of its series may be repeated. Gives whether it was queued.
    ///
    /// An event is repeated with the newest number there was when the service looked. Newer events may be queued before the
    /// repetition is; then it would go back, and is dropped. Or the repetition is first, and tells all that the repeatable
    /// events it has overtaken would: then they are dropped. Other events of the series have content of their own, and are
    /// queued whatever was before them.
    pub fn push_event(&self, frame: Utf8Bytes, number: Option<SeriesNumber>) -> bool {
        let Some(event) = number else {
            self.outbox.push(frame);
            return true;
        };
        // The frame is queued under the lock, so that no other gets between the comparison and the outbox.
        let mut newest = self.newest.lock();
        match newest.iter_mut().find(|known| known.series == event.series) {
            Some(known) if event.number < known.number => {
                if event.repeatable {
                    return false;
                }
            }
            Some(known) => known.number = event.number,
            None => newest.push(event),
        }
        self.outbox.push(frame);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::{ConnectionOutbox, OutboxBudget, OutboxItem};
    use std::sync::Arc;

    #[test]
    fn a_number_is_repeated_and_never_goes_back() {
        let budget = Arc::new(OutboxBudget::new(1000, 1000, Arc::default()));
        let connection = Connection::new(1, [127, 0, 0, 1].into(), ConnectionOutbox::new(budget));
        let event = |series, number| Some(SeriesNumber { series, number, repeatable: true });
        let once = |number| Some(SeriesNumber { series: "a", number, repeatable: false });
        for (frame, number, queued) in [
            ("five", event("a", 5), true),
            ("eight", event("a", 8), true),
            ("six", event("a", 6), false),
            ("eight again", event("a", 8), true),
            ("one of another series", event("b", 1), true),
            ("without a number", None, true),
            ("seven", event("a", 7), false),
            ("nine", event("a", 9), true),
            ("eleven, which is not repeatable", once(11), true),
            ("ten", event("a", 10), false),
            ("ten, which is not repeatable", once(10), true),
            ("eleven again", event("a", 11), true),
        ] {
            assert_eq!(connection.push_event(frame.into(), number), queued, "{frame}");
            let next = connection.outbox.pop();
            assert_eq!(matches!(next, Some(OutboxItem::Frame(text)) if text == frame), queued, "{frame}");
        }
    }
}
