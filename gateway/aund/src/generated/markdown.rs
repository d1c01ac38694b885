//! Tables as Markdown has them.

/// A table with these titles.
pub(super) fn table<const N: usize>(
    titles: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut text = format!("| {} |\n|{}\n", titles.join(" | "), "---|".repeat(N));
    for row in rows {
        text += "|";
        for cell in row.iter().map(|cell| cell.trim().replace('|', "\\|")) {
            text += &if cell.is_empty() { " |".to_owned() } else { format!(" {cell} |") };
        }
        text += "\n";
    }
    text
}

/// Each in backticks, with commas between.
pub(super) fn quoted<T: AsRef<str>>(words: impl IntoIterator<Item = T>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{}`", word.as_ref())).collect();
    words.join(", ")
}

#[test]
fn a_cell_is_one_cell() {
    let rows = [["a|b".to_owned(), String::new(), String::new()]];
    assert_eq!(table(["x", "y", "z"], rows), "| x | y | z |\n|---|---|---|\n| a\\|b | | |\n");
}
