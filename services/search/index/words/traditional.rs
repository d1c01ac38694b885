//! Traditional Chinese characters as their simplified ones.

use std::collections::HashMap;
use std::sync::LazyLock;

static SIMPLIFIED: LazyLock<HashMap<char, char>> = LazyLock::new(|| {
    let lines = include_str!("traditional.txt").lines().filter(|line| !line.starts_with('#'));
    lines.flat_map(|line| line.chars().zip(line.chars().skip(1)).step_by(2)).collect()
});

pub(super) fn simplified(char: char) -> char {
    // Nothing below the first Han character is in the table.
    if char < '\u{3400}' { char } else { SIMPLIFIED.get(&char).copied().unwrap_or(char) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traditional_characters_become_simplified_ones() {
        let text: String = "審查代碼，合約翻譯 abc 里".chars().map(simplified).collect();
        assert_eq!(text, "审查代码，合约翻译 abc 里");
        assert!(SIMPLIFIED.len() > 2_700);
        assert!(SIMPLIFIED.values().all(|simple| simplified(*simple) == *simple));
    }
}
