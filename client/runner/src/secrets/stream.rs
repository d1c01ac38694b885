//! Text that comes in parts, of which a secret may be cut in two.

use super::Redactor;

/// One text of which parts arrive. As much of its end is held back as may be the beginning of a secret.
#[derive(Debug, Default)]
pub(crate) struct RedactedStream {
    held: String,
}

impl RedactedStream {
    /// Takes a part; gives what can be said now.
    pub fn push(&mut self, redactor: &Redactor, part: &str) -> String {
        self.held.push_str(part);
        let mut said = String::new();
        // A match that reaches the end may become a longer one: it is decided when enough stands behind it.
        let undecided = self.held.len().saturating_sub(redactor.longest().saturating_sub(1));
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
        let safe = floor_char_boundary(&self.held, undecided.max(at));
        said.push_str(&self.held[at..safe]);
        self.held.drain(..safe);
        said
    }

    /// The rest, when nothing follows.
    pub fn finish(&mut self, redactor: &Redactor) -> String {
        redactor.text(&std::mem::take(&mut self.held)).into_owned()
    }
}

/// The end of the last whole character before this byte.
fn floor_char_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::RunnerSecrets;

    fn redactor(values: &[&str]) -> Redactor {
        let mut secrets = RunnerSecrets::default();
        values.iter().for_each(|value| secrets.add(*value));
        Redactor::new(&secrets, []).unwrap()
    }

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
    fn no_more_is_held_back_than_a_secret_may_have() {
        let redactor = redactor(&["12345678"]);
        let longest = redactor.longest();
        let mut stream = RedactedStream::default();
        let mut said = 0;
        for _ in 0..100 {
            said += stream.push(&redactor, "some text ").len();
            assert!(stream.held.len() < longest, "{}", stream.held.len());
        }
        assert_eq!(said + stream.finish(&redactor).len(), 1000);
        assert_eq!(streamed(&Redactor::new(&RunnerSecrets::default(), []).unwrap(), &["now"]), ["now", ""]);
    }
}
