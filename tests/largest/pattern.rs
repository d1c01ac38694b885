//! The longest text that a pattern matches.

use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

/// A text of at most so many characters, as long as the pattern permits. Of the characters that fit it takes one of ASCII.
pub fn longest_match(pattern: &str, longest: usize) -> String {
    let parsed = regex_syntax::parse(pattern).expect("a pattern of a schema is one");
    let mut text = String::new();
    write(&parsed, longest, &mut text);
    text
}

/// Writes what matches behind the text, which is to have at most so many characters then.
fn write(part: &Hir, longest: usize, text: &mut String) {
    match part.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(&String::from_utf8_lossy(&literal.0)),
        HirKind::Class(class) => text.push(member_of(class)),
        HirKind::Repetition(repetition) => repeat(repetition, longest, text),
        HirKind::Capture(capture) => write(&capture.sub, longest, text),
        HirKind::Concat(parts) => {
            for (at, part) in parts.iter().enumerate() {
                // What follows needs some of the space.
                let behind: usize = parts[at + 1..].iter().map(shortest).sum();
                write(part, longest.saturating_sub(behind), text);
            }
        }
        HirKind::Alternation(parts) => {
            let texts = parts.iter().map(|part| {
                let mut text = String::new();
                write(part, longest, &mut text);
                text
            });
            text.push_str(&texts.max_by_key(String::len).unwrap_or_default());
        }
    }
}

fn repeat(repetition: &Repetition, longest: usize, text: &mut String) {
    let most = repetition.max.unwrap_or(u32::MAX);
    let mut written = 0;
    while written < most && (written < repetition.min || text.len() + shortest(&repetition.sub) <= longest) {
        write(&repetition.sub, longest, text);
        written += 1;
    }
}

/// At least one, so that a repetition of what may be empty ends.
fn shortest(part: &Hir) -> usize {
    part.properties().minimum_len().unwrap_or(0).max(usize::from(!matches!(part.kind(), HirKind::Look(_))))
}

fn member_of(class: &Class) -> char {
    let ends: Vec<char> = match class {
        Class::Unicode(class) => class.ranges().iter().map(|range| range.end()).collect(),
        Class::Bytes(class) => class.ranges().iter().map(|range| char::from(range.end())).collect(),
    };
    ends.iter().rev().find(|end| end.is_ascii()).or(ends.first()).copied().expect("a class has a member")
}

#[test]
fn a_text_is_as_long_as_its_pattern_permits() {
    let cases = [
        ("^[0-9a-f]{64}$", 1000, "f".repeat(64)),
        ("^sha256:[0-9a-f]{4}$", 1000, "sha256:ffff".to_owned()),
        ("^(root|[0-9A-Fa-f]{1,8})$", 1000, "f".repeat(8)),
        ("^[A-Za-z0-9+/]+={0,2}$", 6, "zzzzz=".to_owned()),
        ("^chg_[0-9]{8,19}$", 1000, format!("chg_{}", "9".repeat(19))),
        ("^\\s*-----BEGIN", 12, "  -----BEGIN".to_owned()),
    ];
    for (pattern, longest, text) in cases {
        assert_eq!(longest_match(pattern, longest), text, "{pattern}");
    }
}
