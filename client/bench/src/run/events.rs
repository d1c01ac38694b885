//! The events that a runner appends: parts of what the back end says.

use std::fmt::Write as _;

use super::http::request;

/// What a part says; with it a payload has 200 bytes, as many as a message of the bench.
const TEXT: &str = "It is ten past five, the tide is out and the lighthouse keeper has gone to bed; whoever reads \
                    this may answer in the morning, or not at all, as agreed.";

/// Parts of one message.
const PARTS: u64 = 100;

/// Writes the requests of a runner that has the lease of a run. No event comes twice.
#[derive(Clone)]
pub(super) struct AppendWriter {
    pub(super) run: String,
    pub(super) command: String,
    pub(super) token: String,
    pub(super) runner: String,
    pub(super) epoch: i64,
    /// Events that were written so far.
    pub(super) written: u64,
}

impl AppendWriter {
    /// The next request, with so many events.
    pub(super) fn next(&mut self, count: usize) -> Vec<u8> {
        let mut events = String::with_capacity(count * 384);
        for number in 0..count {
            let comma = if number == 0 { "" } else { "," };
            let (event, payload) = (self.written, payload(self.written / PARTS));
            // A text takes everything.
            let _ = write!(
                events,
                r#"{comma}{{"clientEventId":"event-{event:012}","type":"assistant_message","commandId":"{}","payload":{payload}}}"#,
                self.command
            );
            self.written += 1;
        }
        self.request(&events)
    }

    /// A request with these events, which are separated by commas.
    pub(super) fn request(&self, events: &str) -> Vec<u8> {
        let Self { run, token, runner, epoch, .. } = self;
        let body = format!(r#"{{"runnerId":"{runner}","epoch":{epoch},"events":[{events}]}}"#);
        request("POST", &format!("/runs/{run}/events"), token, &body)
    }
}

fn payload(item: u64) -> String {
    format!(r#"{{"itemId":"item-{item:06}","partial":true,"text":"{TEXT}"}}"#)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn a_payload_is_an_object_of_200_bytes() {
        assert_eq!(payload(7).len(), 200);
        assert!(serde_json::from_str::<Value>(&payload(7)).unwrap().is_object());
    }

    #[test]
    fn no_event_is_written_twice() {
        let text = || "x".to_owned();
        let (run, command, token, runner) = (text(), text(), text(), text());
        let mut writer = AppendWriter { run, command, token, runner, epoch: 1, written: 0 };
        let mut seen = HashSet::new();
        for count in [1, 50, 2] {
            let request = String::from_utf8(writer.next(count)).unwrap();
            let (_, body) = request.split_once("\r\n\r\n").unwrap();
            let body: Value = serde_json::from_str(body).unwrap();
            let events = body["events"].as_array().unwrap();
            assert_eq!(events.len(), count);
            seen.extend(events.iter().map(|event| event["clientEventId"].to_string()));
        }
        assert_eq!(seen.len(), 53);
    }
}
