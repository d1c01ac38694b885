//! Words that say nothing about what is asked for.

use std::collections::HashSet;
use std::sync::LazyLock;

static FUNCTION_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let lines = include_str!("function-words.txt").lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
});

pub(super) fn is_function_word(word: &str) -> bool {
    FUNCTION_WORDS.contains(word)
}
