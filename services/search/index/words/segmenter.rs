//! Chinese words, by a dictionary. Without its hidden Markov model: that guesses words from their context, and would cut a question
//! differently from a document.

use std::sync::LazyLock;

use jieba_rs::Jieba;

/// About 30 MB, loaded by the first Chinese text of the process.
static DICTIONARY: LazyLock<Jieba> = LazyLock::new(Jieba::new);

/// The words of a document's run, and the shorter words inside them.
pub(super) fn words_with_parts(run: &str) -> Vec<&str> {
    DICTIONARY.cut_for_search(run, false).into_iter().map(|token| token.word).collect()
}

/// The words of a question's run.
pub(super) fn words(run: &str) -> Vec<&str> {
    DICTIONARY.cut(run, false).into_iter().map(|token| token.word).collect()
}
