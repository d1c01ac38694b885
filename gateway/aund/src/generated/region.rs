//! Parts of files that are written by hand: what stands between two lines that say so.

/// Replaces what stands between the line that ends with `made by tests/generate: NAME` and the next that ends with `: end`.
pub(super) fn replace(text: &str, name: &str, lines: &[String]) -> String {
    let begin = format!("made by tests/generate: {name}");
    let at = text.find(&begin).unwrap_or_else(|| panic!("no line ends with {begin:?}"));
    let (before, rest) = text.split_at(at + begin.len() + 1);
    let end = rest.find("made by tests/generate: end").unwrap_or_else(|| panic!("{begin:?} has no end"));
    // The end has a line of its own, with what makes it a comment.
    let end = rest[..end].rfind('\n').map_or(0, |newline| newline + 1);
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    format!("{before}{lines}{}", &rest[end..])
}

#[test]
fn only_what_stands_between_the_lines_is_replaced() {
    let text = "a\n  # made by tests/generate: x\n  old\n  # made by tests/generate: end\nb\n";
    let new = replace(text, "x", &["  1".to_owned(), "  2".to_owned()]);
    assert_eq!(new, "a\n  # made by tests/generate: x\n  1\n  2\n  # made by tests/generate: end\nb\n");
    assert_eq!(replace(&new, "x", &["  old".to_owned()]), text);
    assert_eq!(replace(&replace(text, "x", &[]), "x", &["  old".to_owned()]), text);
}
