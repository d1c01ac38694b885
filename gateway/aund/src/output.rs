//! The one way to standard output and standard error. Much of what a command prints was written by others, so whatever is printed
//! passes [`OthersText`] here: no command has to think of it.

use client::OthersText;
use kernel::Ids;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::LazyLock;

/// What begins a colour inside of a text. Nobody else can write it, because it is random and never printed.
static STYLE_MARK: LazyLock<String> =
    LazyLock::new(|| format!("\x1b{}[", hex::encode(Ids::default().bytes::<8>())));

/// A line on standard output, there at once.
pub(crate) fn line(text: &str) -> io::Result<()> {
    print(&format!("{text}\n"))
}

/// Several lines, or a part of one.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(safe(text).as_bytes())?;
    out.flush()
}

/// A text of others as it is into a file or a program, and safe on a terminal.
pub(crate) fn print_content(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.is_terminal() {
        true => text.lines().try_for_each(|line| writeln!(out, "{}", safe(line)))?,
        false => out.write_all(text.as_bytes())?,
    }
    out.flush()
}

/// A line on standard error, for the person who waits. Further lines are indented: they may be those of others.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", safe(&indented(text)));
}

/// A text in a colour, or bold or dim, by its number. The number is there for the terminal only after [`safe`].
pub(crate) fn painted(code: &str, text: &str) -> String {
    let mark = STYLE_MARK.as_str();
    format!("{mark}{code}m{text}{mark}0m")
}

/// The text as a terminal may have it: with the colours of [`painted`], and without anything else that a terminal obeys.
pub(crate) fn safe(text: &str) -> String {
    let mut parts = text.split(STYLE_MARK.as_str());
    let mut safe = OthersText(parts.next().unwrap_or_default()).to_string();
    for part in parts {
        let (code, rest) = part.split_once('m').unwrap_or_default();
        // A String takes whatever is written.
        let _ = write!(safe, "\x1b[{code}m{}", OthersText(rest));
    }
    safe
}

/// The lines after the first further right, so that they do not look like lines of ours.
pub(crate) fn indented(text: &str) -> String {
    text.replace('\n', "\n    ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testing::cases;

    /// Each with a name in the question: what a terminal obeys, and what hides or turns text around.
    fn is_forbidden(c: char) -> bool {
        let is_kept = c == '\n' || c == '\t';
        let deceives = "\u{61c}\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202b}\u{202c}\
            \u{202d}\u{202e}\u{2060}\u{2066}\u{2067}\u{2068}\u{2069}\u{feff}";
        (c.is_control() && !is_kept) || deceives.contains(c)
    }

    /// Any text, with many of the characters that matter.
    fn any_text() -> impl Strategy<Value = String> {
        let dangerous = prop_oneof![
            prop::char::range('\0', '\u{9f}'),
            prop::char::range('\u{2000}', '\u{206f}'),
            Just('\u{61c}'),
            Just('\u{feff}'),
            any::<char>(),
        ];
        prop::collection::vec(dangerous, 0..40).prop_map(String::from_iter)
    }

    proptest! {
        #![proptest_config(cases(512))]

        #[test]
        fn no_character_that_a_terminal_obeys_or_nobody_sees_is_printed(text in any_text()) {
            let plain = safe(&text);
            for printed in [&plain, &safe(&indented(&text))] {
                prop_assert!(!printed.contains(is_forbidden), "{printed:?}");
            }
            let bold = safe(&painted("1", &text));
            let inside = bold.strip_prefix("\x1b[1m").and_then(|rest| rest.strip_suffix("\x1b[0m"));
            prop_assert_eq!(inside, Some(plain.as_str()));
        }

        #[test]
        fn json_is_printed_as_the_same_value(text in any_text()) {
            let value = serde_json::json!({ text.clone(): [text] });
            let printed = safe(&serde_json::to_string_pretty(&value).unwrap());
            prop_assert!(!printed.contains(is_forbidden), "{printed:?}");
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), value);
        }
    }

    #[test]
    fn only_our_own_colours_are_colours() {
        let text = format!("{} \x1b[1mtheirs\x1b[0m", painted("36", "ours \x1b[31m"));
        assert_eq!(safe(&text), "\x1b[36mours \\u001b[31m\x1b[0m \\u001b[1mtheirs\\u001b[0m");
        let guessed = "\x1b0123456789abcdef[1mtheirs";
        assert_eq!(safe(guessed), "\\u001b0123456789abcdef[1mtheirs");
    }
}
