//! Finds every form of every secret in one pass over a text.

use super::RunnerSecrets;
use super::forms::forms;
use aho_corasick::{AhoCorasick, BuildError, MatchKind};
use serde_json::Value;
use std::borrow::Cow;

/// What stands in the place of a secret, as the manager writes it.
pub(crate) const REDACTED: &str = "[redacted]";

/// Takes the secrets of a runner out of what it reports.
#[derive(Clone, Debug)]
pub(crate) struct Redactor {
    /// Nothing where no secrets are known.
    automaton: Option<AhoCorasick>,
    /// Every form, in order, so that those with a beginning are found among them.
    forms: Vec<String>,
    /// The bytes of the longest form.
    longest: usize,
}

impl Redactor {
    /// `own` is what the runner itself must not say, such as its token.
    pub fn new<'a>(
        secrets: &'a RunnerSecrets,
        own: impl IntoIterator<Item = &'a str>,
    ) -> Result<Redactor, BuildError> {
        let forms: Vec<String> = forms(secrets.values().chain(own)).into_iter().collect();
        let longest = forms.iter().map(String::len).max().unwrap_or_default();
        let automaton = match forms.is_empty() {
            true => None,
            // The longest of those that begin at the same byte, so that nothing of it is left.
            false => Some(AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&forms)?),
        };
        Ok(Redactor { automaton, forms, longest })
    }

    /// Where the end of a text begins that may be the beginning of a secret: the whole length where it is none. What stands before is decided,
    /// because a secret that began there would have to go on here.
    pub(super) fn undecided(&self, text: &str) -> usize {
        let first = text.len().saturating_sub(self.longest.saturating_sub(1));
        let begins = |at: &usize| text.is_char_boundary(*at) && self.is_beginning(&text[*at..]);
        (first..text.len()).find(begins).unwrap_or(text.len())
    }

    /// Whether a form begins so, and goes on.
    fn is_beginning(&self, part: &str) -> bool {
        let at = self.forms.partition_point(|form| form.as_str() <= part);
        self.forms.get(at).is_some_and(|form| form.starts_with(part))
    }

    /// Where the first secret is.
    pub(super) fn find(&self, text: &str) -> Option<std::ops::Range<usize>> {
        self.automaton.as_ref()?.find(text).map(|found| found.range())
    }

    pub(crate) fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.automaton {
            Some(automaton) if automaton.is_match(text) => {
                let mut redacted = String::with_capacity(text.len());
                automaton.replace_all_with(text, &mut redacted, |_, _, into| {
                    into.push_str(REDACTED);
                    true
                });
                Cow::Owned(redacted)
            }
            _ => Cow::Borrowed(text),
        }
    }

    /// Every text of a document, the names of members among them.
    pub(crate) fn json(&self, document: &mut Value) {
        if self.automaton.is_none() {
            return;
        }
        match document {
            Value::String(text) => {
                if let Cow::Owned(redacted) = self.text(text) {
                    *text = redacted;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.json(item)),
            Value::Object(members) => {
                if members.keys().any(|name| self.find(name).is_some()) {
                    let renamed = std::mem::take(members).into_iter();
                    *members = renamed.map(|(name, value)| (self.text(&name).into_owned(), value)).collect();
                }
                members.values_mut().for_each(|item| self.json(item));
            }
            // A secret of digits alone may stand as a number.
            Value::Number(number) => {
                if let Cow::Owned(redacted) = self.text(&number.to_string()) {
                    *document = Value::String(redacted);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    pub(in crate::secrets) fn redactor(values: &[&str]) -> Redactor {
        let mut secrets = RunnerSecrets::default();
        values.iter().for_each(|value| secrets.add(*value));
        Redactor::new(&secrets, []).unwrap()
    }

    #[test]
    fn secrets_are_replaced_in_every_form_and_nothing_else_is() {
        let redactor = redactor(&["hunter-two/2", "87654321"]);
        for (text, said) in [
            ("the key is hunter-two/2.", "the key is [redacted]."),
            ("hunter-two/2hunter-two/2", "[redacted][redacted]"),
            ("?key=hunter-two%2F2&x=1", "?key=[redacted]&x=1"),
            ("aHVudGVyLXR3by8y", "[redacted]"),
            ("hunter-two", "hunter-two"),
            ("", ""),
            ("src/main.rs:12 3f2a9c", "src/main.rs:12 3f2a9c"),
        ] {
            assert_eq!(redactor.text(text), said, "{text}");
        }
        let mut document = json!({ "a": ["hunter-two/2", 87_654_321, null], "hunter-two/2": { "b": "x" } });
        redactor.json(&mut document);
        assert_eq!(document, json!({ "a": ["[redacted]", "[redacted]", null], "[redacted]": { "b": "x" } }));
    }

    #[test]
    fn of_two_secrets_the_longer_one_is_found() {
        let redactor = redactor(&["password", "password-and-more"]);
        assert_eq!(redactor.text("password-and-more, password"), "[redacted], [redacted]");
    }

    #[test]
    fn without_secrets_nothing_changes() {
        let redactor = redactor(&[]);
        assert!(matches!(redactor.text("password"), Cow::Borrowed("password")));
        assert_eq!(redactor.undecided("password"), 8);
    }

    #[test]
    fn an_end_is_undecided_where_a_secret_may_go_on() {
        let redactor = redactor(&["password-and-more", "pass-phrase"]);
        for (text, decided) in [
            ("", ""),
            ("no", "no"),
            ("my pass", "my "),
            ("my pass-", "my "),
            ("my passw", "my "),
            ("my passage", "my passage"),
            ("papas", "pa"),
            ("password-and-more", "password-and-more"),
            ("ä p", "ä "),
        ] {
            assert_eq!(&text[..redactor.undecided(text)], decided, "{text}");
        }
    }
}
