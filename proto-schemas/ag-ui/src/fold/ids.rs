//! The ids under which things are shown. A client keeps messages, calls and results of a thread in one list, where an id that comes again
//! is the same thing again; so none is used twice in a command, whatever a back end calls its items.

use ring::digest::{SHA256, digest};
use std::collections::HashMap;

/// How messages of a command are called.
pub(super) type MessageNames = fn(command_id: &str, shown: &str) -> String;

/// The id of a message: a UUID, because there are clients that take no other id. It follows from the command and from what its back end calls
/// the message, so that history and frames agree.
pub fn message_id(command_id: &str, item_id: &str) -> String {
    let hash = digest(&SHA256, format!("{command_id}\n{item_id}").as_bytes());
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(hash.as_ref()).for_each(|(byte, hashed)| *byte = *hashed);
    // Version 8, whose other bits are what its maker likes.
    bytes[6] = 0x80 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let [a, b, c, d, e] = [&bytes[..4], &bytes[4..6], &bytes[6..8], &bytes[8..10], &bytes[10..]].map(hex);
    format!("{a}-{b}-{c}-{d}-{e}")
}

#[derive(Clone, Debug)]
pub(super) struct ShownIds {
    command_id: String,
    names: MessageNames,
    /// How often each id was wanted.
    wanted: HashMap<String, u32>,
}

impl ShownIds {
    pub fn new(command_id: &str, names: MessageNames) -> ShownIds {
        ShownIds { command_id: command_id.to_owned(), names, wanted: HashMap::new() }
    }

    /// The id of a message, of a thought, or of the result of a call.
    pub fn of_message(&mut self, id: &str) -> String {
        let shown = self.of(id);
        (self.names)(&self.command_id, &shown)
    }

    /// The id itself the first time, later with `-2`, `-3`, … behind it.
    pub fn of(&mut self, id: &str) -> String {
        let mut times = self.wanted.get(id).copied().unwrap_or(0);
        loop {
            times = times.saturating_add(1);
            let shown = if times == 1 { id.to_owned() } else { format!("{id}-{times}") };
            if times == 1 || !self.wanted.contains_key(&shown) {
                self.wanted.entry(shown.clone()).or_insert(1);
                self.wanted.insert(id.to_owned(), times);
                return shown;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_uuids_that_follow_from_what_they_are() {
        let id = message_id("cmd_1", "said");
        assert_eq!(crate::uuid(&id).as_ref(), Some(&id));
        assert_eq!(message_id("cmd_1", "said"), id);
        assert!(message_id("cmd_2", "said") != id && message_id("cmd_1", "said-2") != id);
        let mut ids = ShownIds::new("cmd_1", message_id);
        assert_eq!((ids.of_message("said"), ids.of("call")), (id, "call".to_owned()));
        assert_eq!(ids.of_message("said"), message_id("cmd_1", "said-2"));
    }
}
