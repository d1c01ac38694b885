//! Text that somebody else wrote, for a terminal.

use std::fmt;

/// Text of another agent, a gateway or a document, as it may be printed on a terminal: line ends and tabs stay, and every character
/// that a terminal obeys, that changes the direction of the text, or that nobody sees is written as `\u001b`.
///
/// JSON stays valid and has the same value: outside of its strings it has no such character, and inside of them this is its escape.
///
/// ```
/// # use client::OthersText;
/// assert_eq!(OthersText("\u{1b}[2J").to_string(), r"\u001b[2J");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OthersText<'a>(pub &'a str);

impl fmt::Display for OthersText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_escaped(*c)) {
            f.write_str(&rest[..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(f, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        f.write_str(rest)
    }
}

/// Control characters of 7 and 8 bits, separators of lines and paragraphs, annotations, and what Unicode calls
/// `Default_Ignorable_Code_Point`: the marks of direction, joiners, fillers and tags. Of those, the variation selectors of emoji stay.
fn is_escaped(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        c => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_given_nothing_to_obey_and_a_person_nothing_that_is_invisible() {
        for (text, shown) in [
            ("\u{1b}[2J\u{7}\r\n", "\\u001b[2J\\u0007\\u000d\n"),
            ("\u{9b}31m\u{7f}\0", "\\u009b31m\\u007f\\u0000"),
            ("\u{202e}a\u{2069}\u{200e}\u{61c}", "\\u202ea\\u2069\\u200e\\u061c"),
            ("a\u{200b}b\u{2060}c\u{feff}\u{ad}", "a\\u200bb\\u2060c\\ufeff\\u00ad"),
            ("a\u{2028}b\u{2029}", "a\\u2028b\\u2029"),
            ("\u{e0041}", "\\udb40\\udc41"),
            ("a\tb\nŁódź 漢字 ❤\u{fe0f} עברית", "a\tb\nŁódź 漢字 ❤\u{fe0f} עברית"),
        ] {
            assert_eq!(OthersText(text).to_string(), shown);
        }
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({ "a\u{9b}": ["\u{1b}\u{7f}\u{202e}\u{e0041}\n", 1] });
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let shown = OthersText(&text).to_string();
            assert!(!shown.contains(['\u{9b}', '\u{7f}', '\u{202e}']), "{shown}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        }
    }
}
