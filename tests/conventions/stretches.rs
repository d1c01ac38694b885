//! Rust cut into code, comments and strings, for those who read its sentences: the parser leaves comments out.

use std::ops::Range;
use std::str::FromStr as _;

use proc_macro2::{TokenStream, TokenTree};

/// What a stretch of Rust is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stretch {
    Code,
    Comment,
    /// A string literal with its quotation marks.
    Text,
}

/// Cuts Rust into code, comments and string literals. A comment is what lies between two tokens, or documentation, which the parser
/// takes for an attribute.
pub fn stretches(text: &str) -> Vec<(Stretch, &str)> {
    let tokens = TokenStream::from_str(text).unwrap_or_else(|error| panic!("{text} is not Rust: {error}"));
    let mut marked: Vec<(Stretch, Range<usize>)> = Vec::new();
    let mut at = 0;
    for (range, is_text) in leaves(tokens).into_iter().chain([(text.len()..text.len(), false)]) {
        // The tokens of a comment of documentation all have the place of the whole.
        if range.start < at {
            continue;
        }
        if !text[at..range.start].trim().is_empty() {
            marked.push((Stretch::Comment, at..range.start));
        }
        if text[range.clone()].starts_with("//") || text[range.clone()].starts_with("/*") {
            marked.push((Stretch::Comment, range.clone()));
        } else if is_text {
            marked.push((Stretch::Text, range.clone()));
        }
        at = range.end;
    }
    with_code_between(text, marked)
}

fn with_code_between(text: &str, marked: Vec<(Stretch, Range<usize>)>) -> Vec<(Stretch, &str)> {
    let (mut found, mut at) = (Vec::new(), 0);
    for (kind, range) in marked.into_iter().chain([(Stretch::Code, text.len()..text.len())]) {
        if at < range.start {
            found.push((Stretch::Code, &text[at..range.start]));
        }
        if !range.is_empty() {
            found.push((kind, &text[range.clone()]));
        }
        at = range.end;
    }
    found
}

/// Where each token stands, brackets included, and whether it is a string.
fn leaves(tokens: TokenStream) -> Vec<(Range<usize>, bool)> {
    let mut found = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                found.push((group.span_open().byte_range(), false));
                found.extend(leaves(group.stream()));
                found.push((group.span_close().byte_range(), false));
            }
            TokenTree::Literal(literal) => {
                let written = literal.to_string();
                let is_text =
                    written.contains('"') && !written.starts_with('\'') && !written.starts_with("b'");
                found.push((literal.span().byte_range(), is_text));
            }
            other => found.push((other.span().byte_range(), false)),
        }
    }
    found
}

#[test]
fn rust_is_cut_into_code_comments_and_strings() {
    let text = "let a = 'x'; // \"no\"\nlet b: &'static str = r#\"a \"b\" // c\"#; /* x /* y */ */ call('\"', \"\\\"\", b'\\''); /// doc\nfn f() {}";
    let cut = stretches(text);
    assert_eq!(cut.iter().map(|(_, stretch)| *stretch).collect::<String>(), text);
    let of_kind = |wanted: Stretch| -> Vec<&str> {
        cut.iter().filter(|(kind, _)| *kind == wanted).map(|(_, stretch)| stretch.trim()).collect()
    };
    assert_eq!(of_kind(Stretch::Text), ["r#\"a \"b\" // c\"#", "\"\\\"\""]);
    assert_eq!(of_kind(Stretch::Comment), ["// \"no\"", "/* x /* y */ */", "/// doc"]);
}
