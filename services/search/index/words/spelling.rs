//! Words that may be meant where a question is misspelt or has the beginning of a word.

use super::terms::stem_of;

/// A shorter word is not taken for another one that differs by an edit.
pub(in super::super) const EDITED: usize = 5;
/// A shorter word is not taken for the beginning of another one.
pub(in super::super) const BEGUN: usize = 4;
/// How strongly a text has a unit by such a word, in hundredths.
pub(in super::super) const BY_SPELLING: u8 = 50;
/// More of them are not looked up for one unit: the first in their order are.
pub(in super::super) const MOST_SPELLINGS: usize = 64;

/// So many words of a question are looked for in other spellings, the first of those that no document has. It costs more than all the rest.
pub(in super::super) const MOST_MISSPELT: usize = 4;
/// Nobody means another word by a longer one.
const LONGEST: usize = 32;

/// What is compared with the words and the stems of documents.
pub(in super::super) fn spellings(word: &str) -> Vec<String> {
    let stem = stem_of(word);
    if word.chars().nth(LONGEST).is_some() {
        return Vec::new();
    }
    if stem == word { vec![stem] } else { vec![word.to_owned(), stem] }
}
