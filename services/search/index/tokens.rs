//! Texts as the index sees them: the words of a text, and its normalised form.
//!
//! Chinese, Japanese and Korean are written without spaces between words, or with few of them, so that a run of their
//! characters counts as all of its pairs. Whoever searches for a part of such a run finds it by the pairs they share.

use std::collections::HashSet;

use unicode_normalization::UnicodeNormalization as _;

/// More words than this are not looked up: a question is a few words, and each costs the reading of its postings.
pub const MAX_QUERY_TOKENS: usize = 32;

/// The words of a text, in order and with repetitions: NFKC, lower-case, split on everything that is not
/// alphanumeric. A run of Han, Hiragana, Katakana or Hangul becomes its pairs of characters; a single one stays itself.
pub fn tokens(text: &str) -> Vec<String> {
    let text = folded(text);
    let mut found = Vec::new();
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        let Some(class) = CharClass::of(first) else {
            rest = &rest[first.len_utf8()..];
            continue;
        };
        let end = rest.find(|next| CharClass::of(next) != Some(class)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        match class {
            CharClass::Word => found.push(run.to_owned()),
            CharClass::Unspaced => found.extend(pairs(run)),
        }
        rest = after;
    }
    found
}

/// The words of a question: each once, in order of first appearance.
pub fn query_tokens(question: &str) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut tokens = tokens(question);
    tokens.retain(|token| seen.insert(token.clone()));
    tokens.truncate(MAX_QUERY_TOKENS);
    tokens
}

/// The form in which names are compared: NFKC, lower-case, one space for every run of white space, none at the ends.
pub fn normalised(text: &str) -> String {
    folded(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn folded(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_lowercase() } else { text.nfkc().collect::<String>().to_lowercase() }
}

/// How a character makes words with those beside it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CharClass {
    Word,
    /// Of a script that puts no spaces between words.
    Unspaced,
}

impl CharClass {
    /// None for what stands between words.
    fn of(char: char) -> Option<CharClass> {
        if char.is_ascii() {
            return char.is_ascii_alphanumeric().then_some(CharClass::Word);
        }
        if !char.is_alphanumeric() {
            return None;
        }
        Some(match u32::from(char) {
            // Hangul: syllables, and the parts they are made of.
            0x1100..=0x11FF | 0x3130..=0x318F | 0xA960..=0xA97F | 0xAC00..=0xD7FF => CharClass::Unspaced,
            // Hiragana and Katakana; NFKC has replaced those of half width.
            0x3041..=0x30FF | 0x31F0..=0x31FF | 0x1AFF0..=0x1B16F => CharClass::Unspaced,
            // Han: radicals, the marks of iteration and number, and all blocks of ideographs.
            0x2E80..=0x2FDF
            | 0x3005..=0x3007
            | 0x3021..=0x3029
            | 0x3038..=0x303B
            | 0x3400..=0x4DBF
            | 0x4E00..=0x9FFF
            | 0xF900..=0xFAFF
            | 0x20000..=0x3FFFF => CharClass::Unspaced,
            _ => CharClass::Word,
        })
    }
}

/// The pairs of a run, or its only character.
fn pairs(run: &str) -> Vec<String> {
    let ends: Vec<usize> = run.char_indices().map(|(at, char)| at + char.len_utf8()).collect();
    if ends.len() == 1 {
        return vec![run.to_owned()];
    }
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(&ends[1..]).map(|(start, end)| run[start..*end].to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testing::cases;

    #[test]
    fn texts_have_these_tokens() {
        let table: [(&str, &[&str]); 22] = [
            ("", &[]),
            (" \t\n-—…!", &[]),
            ("Code review, code!", &["code", "review", "code"]),
            ("rust-lang_2024.md", &["rust", "lang", "2024", "md"]),
            ("GPT4 v1.2", &["gpt4", "v1", "2"]),
            // Accents stay, however they were typed.
            ("Café", &["café"]),
            ("Cafe\u{301}", &["café"]),
            ("ÉCOLE Straße", &["école", "straße"]),
            // Full width and ligatures are their plain forms.
            ("Ｒｕｓｔ　１２", &["rust", "12"]),
            ("oﬃce", &["office"]),
            ("ΟΔΟΣ", &["οδος"]),
            ("Привет, мир", &["привет", "мир"]),
            // Chinese, Japanese, Korean.
            ("代码审查", &["代码", "码审", "审查"]),
            ("码", &["码"]),
            ("翻译，总结。", &["翻译", "总结"]),
            ("日本語テスト", &["日本", "本語", "語テ", "テス", "スト"]),
            ("ｶﾞｲﾄﾞ", &["ガイ", "イド"]),
            ("번역 도우미", &["번역", "도우", "우미"]),
            // Where scripts meet, words end.
            ("用Rust写agent", &["用", "rust", "写", "agent"]),
            ("GPT助手4", &["gpt", "助手", "4"]),
            // Pictures are no words.
            ("🤖 robot🚀ship", &["robot", "ship"]),
            ("々仝", &["々仝"]),
        ];
        for (text, expected) in table {
            assert_eq!(tokens(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_question_has_each_word_once_and_not_too_many() {
        assert_eq!(query_tokens("code Review CODE"), ["code", "review"]);
        let long: Vec<String> = (0..100).map(|number| format!("w{number}")).collect();
        assert_eq!(query_tokens(&long.join(" ")), long[..MAX_QUERY_TOKENS]);
    }

    #[test]
    fn names_are_compared_without_case_width_and_spaces() {
        for (name, expected) in [
            ("  Code \t Reviewer ", "code reviewer"),
            ("Ｃｏｄｅ　Reviewer", "code reviewer"),
            ("代码 助手", "代码 助手"),
            (" \n ", ""),
            ("a-b", "a-b"),
        ] {
            assert_eq!(normalised(name), expected, "{name:?}");
        }
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn tokens_are_made_of_folded_text_and_stay_as_they_are(text in "\\PC{0,40}") {
            for token in tokens(&text) {
                prop_assert!(!token.is_empty());
                prop_assert!(token.chars().all(|char| CharClass::of(char).is_some()), "{token:?}");
            }
            let name = normalised(&text);
            prop_assert_eq!(tokens(&name), tokens(&text));
        }
    }
}
