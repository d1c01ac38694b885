//! The terms of a text. Their first character says what they are, so that a pair of characters and a word of two are told apart.

use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};

use super::runs::{TextRun, runs};
use super::segmenter;

/// A word as it is written.
pub(in super::super) const WORD: char = 'w';
/// The stem of a word that is written differently.
pub(in super::super) const STEM: char = 's';
/// Two neighbouring characters.
pub(super) const PAIR: char = 'p';
pub(super) const CHAR: char = 'c';

static STEMMER: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));

/// The terms of a text, with repetitions.
pub fn terms(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for run in runs(text) {
        match run {
            TextRun::Spaced(parts) => {
                parts.iter().for_each(|part| add_word(part, &mut found));
                if parts.len() > 1 {
                    add_word(&parts.concat(), &mut found);
                }
            }
            TextRun::Chinese(run) => {
                found.extend(segmenter::words_with_parts(&run).into_iter().map(|word| term(WORD, word)));
                found.extend(pairs(&run));
                found.extend(chars(&run));
            }
            TextRun::Unspaced(run) => {
                found.extend(pairs(&run));
                found.extend(chars(&run));
            }
        }
    }
    found
}

fn add_word(word: &str, found: &mut Vec<String>) {
    let stem = stem_of(word);
    if stem != word {
        found.push(term(STEM, &stem));
    }
    found.push(term(WORD, word));
}

pub(in super::super) fn term(kind: char, text: &str) -> String {
    let mut term = String::with_capacity(1 + text.len());
    term.push(kind);
    term.push_str(text);
    term
}

/// The text of a term of this kind.
pub(in super::super) fn is_term_of(kind: char, term: &str) -> Option<&str> {
    term.strip_prefix(kind)
}

pub(super) fn stem_of(word: &str) -> String {
    STEMMER.stem(word).into_owned()
}

pub(super) fn pairs(run: &str) -> impl Iterator<Item = String> {
    let chars: Vec<char> = run.chars().collect();
    let pair = |pair: &[char]| [PAIR, pair[0], pair[1]].iter().collect();
    chars.windows(2).map(pair).collect::<Vec<String>>().into_iter()
}

pub(super) fn chars(run: &str) -> impl Iterator<Item = String> + use<'_> {
    run.chars().map(|char| [CHAR, char].iter().collect())
}

#[cfg(test)]
mod tests {
    use super::super::normalised;
    use super::*;
    use proptest::prelude::*;
    use testing::cases;

    #[test]
    fn texts_have_these_terms() {
        let table: [(&str, &str); 8] = [
            ("", ""),
            ("Rust review", "wrust wreview"),
            ("Reviews code", "sreview wreviews wcode"),
            ("e-mail", "we wmail wemail"),
            ("women's", "swomen wwomen's"),
            ("审查代码", "w审查 w代码 p审查 p查代 p代码 c审 c查 c代 c码"),
            ("猫", "w猫 c猫"),
            ("ガイド", "pガイ pイド cガ cイ cド"),
        ];
        for (text, expected) in table {
            assert_eq!(terms(text).join(" "), expected, "{text:?}");
        }
    }

    #[test]
    fn a_long_chinese_word_has_its_parts() {
        let found = terms("天气预报");
        for word in ["w天气", "w预报", "w天气预报"] {
            assert!(found.contains(&word.to_owned()), "{word}: {found:?}");
        }
    }

    #[test]
    fn traditional_characters_are_the_same_text() {
        assert_eq!(terms("審查代碼"), terms("审查代码"));
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn a_name_has_the_same_terms_in_each_of_its_forms(text in "\\PC{0,40}") {
            let found = terms(&text);
            prop_assert!(found.iter().all(|term| term.chars().count() > 1));
            prop_assert_eq!(terms(&normalised(&text)), found);
        }
    }
}
