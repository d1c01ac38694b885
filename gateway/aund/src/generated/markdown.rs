//! Tables as Markdown has them.

/// A table with these titles.
pub(super) fn table<const N: usize>(
    titles: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut text = format!("| {} |\n|{}\n", titles.join(" | "), "---|".repeat(N));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| cell.trim().replace('|', "\\|")).collect();
        text += &format!("| {} |\n", cells.join(" | ")).replace("|  |", "| |");
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
    let rows = [["a|b".to_owned(), String::new()]];
    assert_eq!(table(["x", "y"], rows), "| x | y |\n|---|---|\n| a\\|b | |\n");
}
