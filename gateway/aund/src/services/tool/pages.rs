//! A question that is longer than a screen, in pages. Nothing of it is left out: a person consents to what was shown.

use ratatui::crossterm::terminal;

/// How many rows are left for what stands below a page.
const BELOW: usize = 3;

/// The size of a terminal.
#[derive(Clone, Copy)]
pub(super) struct ScreenSize {
    columns: usize,
    rows: usize,
}

impl ScreenSize {
    /// What a terminal has that does not tell its size.
    pub const USUAL: ScreenSize = ScreenSize { columns: 80, rows: 24 };

    /// The size of the terminal of this process.
    pub fn of_terminal() -> ScreenSize {
        match terminal::size() {
            Ok((columns @ 1.., rows @ 1..)) => {
                ScreenSize { columns: usize::from(columns), rows: usize::from(rows) }
            }
            _ => ScreenSize::USUAL,
        }
    }
}

/// The text in pages that fit the screen, at least one. It has no tabs, and nothing else that moves the cursor but line ends.
pub(super) fn pages(text: &str, screen: ScreenSize) -> Vec<String> {
    let rows: Vec<&str> = text.split('\n').flat_map(|line| rows(line, screen.columns)).collect();
    rows.chunks(screen.rows.saturating_sub(BELOW).max(1)).map(|page| page.join("\n")).collect()
}

/// A line as the rows that it takes. Some characters are two columns wide, and taking more of them for such only makes a row shorter.
fn rows(line: &str, columns: usize) -> Vec<&str> {
    let (mut rows, mut begin, mut width) = (Vec::new(), 0, 0);
    for (at, c) in line.char_indices() {
        let wide = if c.is_ascii() { 1 } else { 2 };
        if width + wide > columns && at > begin {
            rows.push(&line[begin..at]);
            (begin, width) = (at, 0);
        }
        width += wide;
    }
    rows.push(&line[begin..]);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testing::cases;

    #[test]
    fn a_short_text_is_one_page_and_a_long_one_is_cut_at_the_width() {
        let screen = ScreenSize { columns: 4, rows: 5 };
        assert_eq!(pages("ab\ncd", screen), ["ab\ncd"]);
        assert_eq!(pages("abcdef\n漢字漢\n", screen), ["abcd\nef", "漢字\n漢", ""]);
        assert_eq!(pages("", screen), [""]);
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn nothing_is_left_out(text in "[a-z漢é \n]{0,400}", columns in 1_usize..30, rows in 0_usize..12) {
            let screen = ScreenSize { columns, rows };
            let pages = pages(&text, screen);
            let without_ends = |text: &str| text.replace('\n', "");
            prop_assert_eq!(without_ends(&pages.concat()), without_ends(&text));
            for page in &pages {
                prop_assert!(page.split('\n').count() <= rows.saturating_sub(BELOW).max(1));
                prop_assert!(page.split('\n').all(|row| row.chars().count() <= columns));
            }
        }
    }
}
