//! What is said in a turn: one message, word by word.

use crate::back_end::process_jsonl::FromProgram;

/// The message of a turn, as far as it was said.
#[derive(Debug)]
pub(super) struct SaidMessage {
    item_id: String,
    text: String,
}

impl SaidMessage {
    pub fn new(command_id: &str) -> SaidMessage {
        SaidMessage { item_id: format!("{command_id}-said"), text: String::new() }
    }

    /// The parts in which a sentence is said: each word with the space before it. Sentences stand below each other.
    pub fn say(&mut self, sentence: &str) -> Vec<FromProgram> {
        let begin = if self.text.is_empty() { "" } else { "\n" };
        let mut parts: Vec<String> = Vec::new();
        for word in sentence.split_inclusive(' ') {
            parts.push(word.to_owned());
        }
        match parts.first_mut() {
            Some(first) => first.insert_str(0, begin),
            None => parts.push(begin.to_owned()),
        }
        parts.into_iter().map(|part| self.part(part)).collect()
    }

    /// One more word behind those before it.
    pub fn word(&mut self, word: &str, begins: bool) -> FromProgram {
        let before = match (self.text.is_empty(), begins) {
            (true, _) => "",
            (false, true) => "\n",
            (false, false) => " ",
        };
        self.part(format!("{before}{word}"))
    }

    fn part(&mut self, delta: String) -> FromProgram {
        self.text.push_str(&delta);
        FromProgram::Text { item_id: self.item_id.clone(), delta }
    }

    /// The whole message.
    pub fn whole(&self) -> FromProgram {
        FromProgram::Message { item_id: self.item_id.clone(), text: self.text.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_said_is_one_message() {
        let mut said = SaidMessage::new("cmd_1");
        let mut parts = said.say("You  said: a");
        parts.push(said.word("word1", true));
        parts.push(said.word("word2", false));
        parts.extend(said.say("end"));
        parts.extend(said.say(""));
        let deltas: String = parts
            .iter()
            .map(|part| match part {
                FromProgram::Text { delta, .. } => delta.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(deltas, "You  said: a\nword1 word2\nend\n");
        assert_eq!(said.whole(), FromProgram::Message { item_id: "cmd_1-said".to_owned(), text: deltas });
        assert!(parts.len() >= 6);
    }
}
