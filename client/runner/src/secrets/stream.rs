//! Text that comes in parts, of which a secret may be cut in two.

use super::Redactor;

/// One text of which parts arrive. As much of its end is held back as may be the beginning of a secret: at most what the longest of them has,
/// and nothing of ordinary text.
#[derive(Debug, Default)]
pub(crate) struct RedactedStream {
    held: String,
}

impl RedactedStream {
    /// Takes a part; gives what can be said now.
    pub fn push(&mut self, redactor: &Redactor, part: &str) -> String {
        self.held.push_str(part);
        let mut said = String::new();
        let undecided = redactor.undecided(&self.held);
        let mut at = 0;
        while let Some(found) = redactor.find(&self.held[at..]) {
            let (begin, end) = (at + found.start, at + found.end);
            if begin >= undecided {
                break;
            }
            said.push_str(&self.held[at..begin]);
            said.push_str(super::redactor::REDACTED);
            at = end;
        }
        let safe = undecided.max(at);
        said.push_str(&self.held[at..safe]);
        self.held.drain(..safe);
        said
    }

    /// The rest, when nothing follows.
    pub fn finish(&mut self, redactor: &Redactor) -> String {
        redactor.text(&std::mem::take(&mut self.held)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::redactor::tests::redactor;

    fn streamed(redactor: &Redactor, parts: &[&str]) -> Vec<String> {
        let mut stream = RedactedStream::default();
        let mut said: Vec<String> = parts.iter().map(|part| stream.push(redactor, part)).collect();
        said.push(stream.finish(redactor));
        said
    }

    #[test]
    fn a_secret_that_is_cut_anywhere_is_not_said() {
        let redactor = redactor(&["correct-horse", "correct-horse-battery"]);
        for secret in ["correct-horse", "correct-horse-battery", "Y29ycmVjdC1ob3JzZQ=="] {
            let text = format!("ä before {secret} after ö");
            for first in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                for second in (first..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                    let parts = [&text[..first], &text[first..second], &text[second..]];
                    let said = streamed(&redactor, &parts).concat();
                    assert_eq!(said, "ä before [redacted] after ö", "{parts:?}");
                }
            }
        }
    }

    #[test]
    fn a_secret_that_comes_byte_by_byte_is_not_said() {
        let redactor = redactor(&["correct-horse"]);
        let text = "correct-horse correct-hors correct-horsecorrect-horse";
        let parts: Vec<&str> = text.split_inclusive(|_| true).collect();
        assert_eq!(streamed(&redactor, &parts).concat(), "[redacted] correct-hors [redacted][redacted]");
    }

    #[test]
    fn no_more_is_held_back_than_may_be_a_secret() {
        let redactor = redactor(&["12345678"]);
        let mut stream = RedactedStream::default();
        for _ in 0..100 {
            assert_eq!(stream.push(&redactor, "some text "), "some text ");
        }
        assert_eq!(stream.push(&redactor, "of 1234567"), "of ");
        assert_eq!(stream.push(&redactor, "7"), "12345677");
        let long = "1234567".repeat(1000);
        assert_eq!(stream.push(&redactor, &long).len(), long.len() - 7);
        assert_eq!(stream.finish(&redactor), "1234567");
    }
}
