//! Messages while they are written: parts are joined, so that a log has a few events a second of them and not hundreds.

use crate::secrets::{RedactedStream, Redactor};
use std::time::Duration;
use tokio::time::Instant;

/// How often a part of a message is said.
const INTERVAL: Duration = Duration::from_millis(200);
/// What is said at once, however soon.
const LARGEST: usize = 32 << 10;

/// The message that is being written. Parts of one message after the other: with another one, what was held back of the first is said.
#[derive(Debug, Default)]
pub(super) struct PartialMessage {
    item: Option<String>,
    stream: RedactedStream,
    /// Redacted, and not said yet.
    ready: String,
    said_at: Option<Instant>,
}

/// A part that can be said.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SaidPart {
    pub item_id: String,
    pub text: String,
}

impl PartialMessage {
    /// Takes a part; gives what is to be said now.
    pub fn push(&mut self, redactor: &Redactor, now: Instant, item: &str, text: &str) -> Vec<SaidPart> {
        let mut said = Vec::new();
        if self.item.as_deref() != Some(item) {
            said.extend(self.finish(redactor));
            self.item = Some(item.to_owned());
        }
        self.ready.push_str(&self.stream.push(redactor, text));
        let is_time = self.said_at.is_none_or(|said_at| said_at + INTERVAL <= now);
        if is_time || self.ready.len() >= LARGEST {
            said.extend(self.take(now));
        }
        said
    }

    /// When the next part is to be said, if something is ready.
    pub fn due_at(&self) -> Option<Instant> {
        self.said_at.filter(|_| !self.ready.is_empty()).map(|said_at| said_at + INTERVAL)
    }

    /// What is ready, because something else happens that stands behind it, or because it is time.
    pub fn take(&mut self, now: Instant) -> Option<SaidPart> {
        let item_id = self.item.clone().filter(|_| !self.ready.is_empty())?;
        self.said_at = Some(now);
        Some(SaidPart { item_id, text: std::mem::take(&mut self.ready) })
    }

    /// Everything that is left: nothing of this message follows.
    pub fn finish(&mut self, redactor: &Redactor) -> Option<SaidPart> {
        self.ready.push_str(&self.stream.finish(redactor));
        let text = std::mem::take(&mut self.ready);
        let item_id = self.item.take().filter(|_| !text.is_empty())?;
        Some(SaidPart { item_id, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::RunnerSecrets;

    fn redactor(secret: &str) -> Redactor {
        let mut secrets = RunnerSecrets::default();
        secrets.add(secret);
        Redactor::new(&secrets, []).unwrap()
    }

    fn part(item: &str, text: &str) -> SaidPart {
        SaidPart { item_id: item.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn parts_are_joined_for_a_while() {
        let (redactor, now) = (redactor(""), Instant::now());
        let mut message = PartialMessage::default();
        assert_eq!(message.push(&redactor, now, "m", "one "), [part("m", "one ")]);
        assert_eq!(message.push(&redactor, now, "m", "two "), []);
        assert_eq!(message.push(&redactor, now + INTERVAL / 2, "m", "three "), []);
        assert_eq!(message.due_at(), Some(now + INTERVAL));
        assert_eq!(message.push(&redactor, now + INTERVAL, "m", "four"), [part("m", "two three four")]);
        assert_eq!(message.due_at(), None);
        let long = "x".repeat(LARGEST);
        assert_eq!(message.push(&redactor, now + INTERVAL, "m", &long), [part("m", &long)]);
    }

    #[test]
    fn another_message_ends_the_one_before() {
        let (redactor, now) = (redactor("a-secret-word"), Instant::now());
        let mut message = PartialMessage::default();
        assert_eq!(message.push(&redactor, now, "m", "a-secret"), []);
        assert_eq!(message.push(&redactor, now, "n", "-word"), [part("m", "a-secret"), part("n", "-word")]);
        assert_eq!(message.push(&redactor, now, "n", " and more"), []);
        assert_eq!(message.finish(&redactor), Some(part("n", " and more")));
        assert_eq!(message.finish(&redactor), None);
    }

    #[test]
    fn a_secret_in_parts_is_not_said() {
        let (redactor, now) = (redactor("a-secret-word"), Instant::now());
        let mut message = PartialMessage::default();
        let mut said = String::new();
        for (n, text) in ["it is a-se", "cret-", "word, and no other"].into_iter().enumerate() {
            let at = now + INTERVAL * u32::try_from(n).unwrap();
            said.extend(message.push(&redactor, at, "m", text).into_iter().map(|part| part.text));
        }
        said.extend(message.finish(&redactor).map(|part| part.text));
        assert_eq!(said, "it is [redacted], and no other");
    }
}
