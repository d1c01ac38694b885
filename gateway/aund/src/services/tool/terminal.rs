//! Asking the person at the terminal. Standard input has the call, and standard output the answer.

use crate::show::{printable, printable_line};
use client::tools::{ConsentPrompt, ConsentQuestion, ConsentReply};
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::mpsc;
use std::thread;

/// So much of the arguments is shown.
const SHOWN_CHARS: usize = 2000;

/// Where nobody is at a terminal, nobody confirms.
pub(super) struct TerminalPrompt;

impl ConsentPrompt for TerminalPrompt {
    fn ask(&mut self, question: &ConsentQuestion<'_>) -> ConsentReply {
        let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty");
        let Ok(mut terminal) = terminal else { return ConsentReply::Silent };
        if terminal.write_all(in_words(question).as_bytes()).is_err() {
            return ConsentReply::Silent;
        }
        let (tell, told) = mpsc::channel();
        // The thread may wait for a line longer than anybody waits for the thread; it ends with the process.
        thread::spawn(move || tell.send(read_line(terminal)));
        let line = match question.within {
            Some(within) => told.recv_timeout(within).ok(),
            None => told.recv().ok(),
        };
        line.flatten().map_or(ConsentReply::Silent, |line| reply(&line))
    }
}

fn read_line(terminal: File) -> Option<String> {
    let mut line = String::new();
    let read = BufReader::new(terminal).read_line(&mut line);
    read.is_ok_and(|bytes| bytes > 0).then_some(line)
}

/// Whatever is not a clear yes is a no.
fn reply(line: &str) -> ConsentReply {
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => ConsentReply::Confirmed,
        _ => ConsentReply::Refused,
    }
}

fn in_words(question: &ConsentQuestion<'_>) -> String {
    let ConsentQuestion { agent, tool, scope, arguments, within } = question;
    let label = scope.label_fallback.as_ref().unwrap_or(&scope.label_i18n_key);
    let all = serde_json::to_string_pretty(arguments).unwrap_or_default();
    let mut shown: String = all.chars().take(SHOWN_CHARS).collect();
    if shown.len() < all.len() {
        shown.push('…');
    }
    let time = within.map_or_else(String::new, |within| format!(" within {} seconds", within.as_secs()));
    format!(
        "{} asks for {} ({}, {}, {}):\n    {}\nallow it{time}? [y/N] ",
        printable_line(agent),
        tool.name,
        printable_line(label),
        scope.id,
        scope.sensitivity,
        printable(&shown)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use manifest::{Scope, Sensitivity, Tool};
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn only_a_clear_yes_is_one() {
        for yes in ["y\n", "yes", " Y \r\n"] {
            assert_eq!(reply(yes), ConsentReply::Confirmed, "{yes:?}");
        }
        for no in ["", "\n", "n\n", "yep", "no", "yes please"] {
            assert_eq!(reply(no), ConsentReply::Refused, "{no:?}");
        }
    }

    #[test]
    fn a_question_says_who_asks_for_what_and_moves_no_cursor() {
        let tool = Tool {
            name: "locate".to_owned(),
            description_i18n_key: "k".to_owned(),
            input_schema: json!({}),
            permission_scope: "location:read".to_owned(),
            required: false,
            timeout_ms: 1,
        };
        let scope = Scope {
            id: "location:read".to_owned(),
            label_i18n_key: "scope.location".to_owned(),
            description_i18n_key: None,
            sensitivity: Sensitivity::High,
            label_fallback: None,
            description_fallback: None,
        };
        let (arguments, within) = (json!({ "why": "\u{202e}x" }), Some(Duration::from_secs(30)));
        let question = ConsentQuestion {
            agent: "agent.a.example",
            tool: &tool,
            scope: &scope,
            arguments: &arguments,
            within,
        };
        let text = in_words(&question);
        assert!(
            text.starts_with("agent.a.example asks for locate (scope.location, location:read, high):\n"),
            "{text}"
        );
        assert!(text.ends_with("allow it within 30 seconds? [y/N] "), "{text}");
        assert!(text.contains("\\u{202e}x"), "{text}");
    }
}
