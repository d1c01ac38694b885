//! Asking the person at the terminal. Standard input has the call, and standard output the answer.

use super::pages::{ScreenSize, pages};
use crate::agent_args;
use crate::output;
use crate::show::{printable, printable_line};
use client::tools::{ConsentPrompt, ConsentQuestion, ConsentReply};
use manifest::{Language, ShownScope};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::sync::mpsc;
use std::thread;

/// Where nobody is at a terminal, nobody confirms.
pub(super) struct TerminalPrompt;

impl ConsentPrompt for TerminalPrompt {
    fn ask(&mut self, question: &ConsentQuestion<'_>) -> ConsentReply {
        let Ok(terminal) = OpenOptions::new().read(true).write(true).open("/dev/tty") else {
            output::note(
                "nobody was asked, so the call is refused: there is no terminal to show its arguments on. \
                 Read them in full in the message that was given on standard input, and decide with --yes or --no",
            );
            return ConsentReply::Silent;
        };
        let dialog = ConsentDialog::new(question, agent_args::language(), ScreenSize::of_terminal());
        let (tell, told) = mpsc::channel();
        // The thread may wait for a line longer than anybody waits for the thread; it ends with the process.
        thread::spawn(move || tell.send(dialog.run_on(&terminal)));
        let reply = match question.within {
            Some(within) => told.recv_timeout(within).ok(),
            None => told.recv().ok(),
        };
        reply.flatten().unwrap_or(ConsentReply::Silent)
    }
}

/// What is shown page by page, and what stands below the pages.
struct ConsentDialog {
    pages: Vec<String>,
    /// How long there is for all of it.
    time: String,
}

impl ConsentDialog {
    fn new(question: &ConsentQuestion<'_>, language: Language, screen: ScreenSize) -> ConsentDialog {
        let time = question.within.map(|within| format!(" within {} seconds", within.as_secs()));
        ConsentDialog { pages: pages(&in_words(question, language), screen), time: time.unwrap_or_default() }
    }

    fn run_on(&self, terminal: &File) -> Option<ConsentReply> {
        self.run(BufReader::new(terminal), terminal)
    }

    /// Asks below the last page only, so that a yes is one to everything. None where nobody replies.
    fn run(&self, mut typed: impl BufRead, mut screen: impl Write) -> Option<ConsentReply> {
        let (last, others) = self.pages.split_last()?;
        let (many, time) = (self.pages.len(), &self.time);
        for (n, page) in others.iter().enumerate() {
            let below =
                format!("page {} of {many}: Enter shows the next, anything else refuses the call", n + 1);
            if !asked(&mut typed, &mut screen, &format!("{page}\n{below}{time} "))?.trim().is_empty() {
                return Some(ConsentReply::Refused);
            }
        }
        asked(&mut typed, &mut screen, &format!("{last}\nallow it{time}? [y/N] ")).map(|line| reply(&line))
    }
}

/// The line that is typed below a text.
fn asked(typed: &mut impl BufRead, screen: &mut impl Write, text: &str) -> Option<String> {
    screen.write_all(output::safe(text).as_bytes()).and_then(|()| screen.flush()).ok()?;
    let mut line = String::new();
    let read = typed.read_line(&mut line);
    read.is_ok_and(|bytes| bytes > 0).then_some(line)
}

/// Whatever is not a clear yes is a no.
fn reply(line: &str) -> ConsentReply {
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => ConsentReply::Confirmed,
        _ => ConsentReply::Refused,
    }
}

/// Who asks for what, what that allows, and all of the arguments.
fn in_words(question: &ConsentQuestion<'_>, language: Language) -> String {
    let ConsentQuestion { agent, tool, scope, arguments, .. } = question;
    let ShownScope { label, description } = scope.shown(language);
    let description = match description.is_empty() {
        true => String::new(),
        false => format!("    {}\n", printable_line(&description)),
    };
    format!(
        "{} asks for {} ({}, {}, {}):\n{description}    {}",
        printable_line(agent),
        tool.name,
        printable_line(&label),
        scope.id,
        scope.sensitivity,
        printable(&format!("{arguments:#}"))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use manifest::{Scope, Sensitivity, Tool};
    use serde_json::{Value, json};
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

    /// What is shown for a call with these arguments when this is typed, and the reply.
    fn asked_with(arguments: &Value, typed: &str) -> (String, Option<ConsentReply>) {
        asked_in(Language::English, arguments, typed)
    }

    fn asked_in(language: Language, arguments: &Value, typed: &str) -> (String, Option<ConsentReply>) {
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
            label_i18n_key: "agent.scope.location_read.label".to_owned(),
            description_i18n_key: Some("agent.scope.location_read.description".to_owned()),
            sensitivity: Sensitivity::High,
            label_fallback: None,
            description_fallback: None,
        };
        let within = Some(Duration::from_secs(30));
        let question =
            ConsentQuestion { agent: "agent.a.example", tool: &tool, scope: &scope, arguments, within };
        let mut shown = Vec::new();
        let dialog = ConsentDialog::new(&question, language, ScreenSize::USUAL);
        let reply = dialog.run(typed.as_bytes(), &mut shown);
        (String::from_utf8(shown).unwrap(), reply)
    }

    #[test]
    fn a_question_says_who_asks_for_what_and_moves_no_cursor() {
        let (text, reply) = asked_with(&json!({ "why": "\u{202e}x\u{9b}\u{200b}" }), "y\n");
        assert_eq!(reply, Some(ConsentReply::Confirmed));
        assert!(
            text.starts_with(
                "agent.a.example asks for locate (Read location, location:read, high):\n    Read where this device is\n"
            ),
            "{text}"
        );
        assert!(!text.contains("agent.scope"), "no key of a translation: {text}");
        let (chinese, _) = asked_in(Language::Chinese, &json!({}), "y\n");
        assert!(
            chinese.starts_with(
                "agent.a.example asks for locate (读取位置, location:read, high):\n    读取此设备的当前位置\n"
            ),
            "{chinese}"
        );
        assert!(text.ends_with("allow it within 30 seconds? [y/N] "), "{text}");
        assert!(text.contains("\\u202ex\\u009b\\u200b"), "{text}");
    }

    #[test]
    fn long_arguments_are_shown_to_their_end_before_anybody_is_asked() {
        let arguments = json!({ "command": "#".repeat(4000) + "THE END" });
        let (first, refused) = asked_with(&arguments, "y\n");
        assert!(first.contains("page 1 of 3: ") && !first.contains("allow it"), "{first}");
        assert_eq!(refused, Some(ConsentReply::Refused), "a yes to a page is none to the call");

        let (all, confirmed) = asked_with(&arguments, "\n\ny\n");
        assert_eq!(confirmed, Some(ConsentReply::Confirmed));
        assert!(all.matches('#').count() == 4000 && all.contains("THE END"), "{all}");
        assert_eq!(asked_with(&arguments, "\n\n").1, None, "nobody replied");
    }
}
