//! The runs of a text: what stands between spaces, and what is written without them.

use unicode_normalization::UnicodeNormalization as _;

use super::traditional::simplified;

/// A part of a folded text that is analysed as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TextRun {
    /// A word of a script with spaces, or several that hyphens join.
    Spaced(Vec<String>),
    /// Han characters only.
    Chinese(String),
    /// Japanese or Korean, with the Han characters between.
    Unspaced(String),
}

/// How a character makes words with those beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CharClass {
    Spaced,
    Han,
    Hiragana,
    /// Katakana and Hangul.
    Syllable,
}

/// The form in which names are compared: NFKC, lower-case, one space for every run of white space, none at the ends.
pub fn normalised(text: &str) -> String {
    folded(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// In order, of the folded text.
pub(super) fn runs(text: &str) -> Vec<TextRun> {
    let chars: Vec<char> =
        folded(text).chars().map(|char| if char == '’' { '\'' } else { simplified(char) }).collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        at = match CharClass::of(chars[at]) {
            None => at + 1,
            Some(CharClass::Spaced) => spaced(&chars, at, &mut found),
            Some(_) => unspaced(&chars, at, &mut found),
        };
    }
    found
}

/// Reads words that hyphens join, and returns where they end. An apostrophe between two of its characters is part of a word.
fn spaced(chars: &[char], begin: usize, found: &mut Vec<TextRun>) -> usize {
    let is_word_char =
        |at: usize| chars.get(at).is_some_and(|char| CharClass::of(*char) == Some(CharClass::Spaced));
    let mut parts = vec![String::new()];
    let mut at = begin;
    loop {
        let inside_word = at > begin && is_word_char(at + 1);
        match chars.get(at) {
            Some(char) if is_word_char(at) => parts.last_mut().expect("there is one").push(*char),
            Some('\'') if inside_word => parts.last_mut().expect("there is one").push('\''),
            Some('-' | '\u{2010}') if inside_word => parts.push(String::new()),
            _ => break,
        }
        at += 1;
    }
    found.push(TextRun::Spaced(parts));
    at
}

fn unspaced(chars: &[char], begin: usize, found: &mut Vec<TextRun>) -> usize {
    let is_unspaced = |char: &&char| !matches!(CharClass::of(**char), None | Some(CharClass::Spaced));
    let run: String = chars[begin..].iter().take_while(is_unspaced).collect();
    let end = begin + run.chars().count();
    let is_chinese = run.chars().all(|char| CharClass::of(char) == Some(CharClass::Han));
    found.push(if is_chinese { TextRun::Chinese(run) } else { TextRun::Unspaced(run) });
    end
}

fn folded(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_lowercase() } else { text.nfkc().collect::<String>().to_lowercase() }
}

impl CharClass {
    /// None for what stands between words.
    pub(super) fn of(char: char) -> Option<CharClass> {
        if char.is_ascii() {
            return char.is_ascii_alphanumeric().then_some(CharClass::Spaced);
        }
        if !char.is_alphanumeric() {
            return None;
        }
        Some(match u32::from(char) {
            0x3041..=0x309F => CharClass::Hiragana,
            // Hangul: syllables, and the parts they are made of.
            0x1100..=0x11FF | 0x3130..=0x318F | 0xA960..=0xA97F | 0xAC00..=0xD7FF => CharClass::Syllable,
            // Katakana; NFKC has replaced those of half width.
            0x30A0..=0x30FF | 0x31F0..=0x31FF | 0x1AFF0..=0x1B16F => CharClass::Syllable,
            // Han: radicals, the marks of iteration and number, and all blocks of ideographs.
            0x2E80..=0x2FDF
            | 0x3005..=0x3007
            | 0x3021..=0x3029
            | 0x3038..=0x303B
            | 0x3400..=0x4DBF
            | 0x4E00..=0x9FFF
            | 0xF900..=0xFAFF
            | 0x20000..=0x3FFFF => CharClass::Han,
            _ => CharClass::Spaced,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let shown = |run| match run {
            TextRun::Spaced(parts) => parts.join("-"),
            TextRun::Chinese(run) => format!("zh {run}"),
            TextRun::Unspaced(run) => format!("jk {run}"),
        };
        runs(text).into_iter().map(shown).collect()
    }

    #[test]
    fn texts_have_these_runs() {
        let table: [(&str, &[&str]); 19] = [
            ("", &[]),
            (" \t\n-—…!", &[]),
            ("Code review, code!", &["code", "review", "code"]),
            ("rust-lang_2024.md", &["rust-lang", "2024", "md"]),
            ("E-mail - text‐to-speech-", &["e-mail", "text-to-speech"]),
            ("women's rock'n'roll 'quoted'", &["women's", "rock'n'roll", "quoted"]),
            ("I’m", &["i'm"]),
            // Accents stay, however they were typed.
            ("Café Cafe\u{301}", &["café", "café"]),
            // Full width and ligatures are their plain forms.
            ("Ｒｕｓｔ　１２ oﬃce", &["rust", "12", "office"]),
            ("ΟΔΟΣ Привет", &["οδος", "привет"]),
            ("翻譯，总结。", &["zh 翻译", "zh 总结"]),
            ("日本語テスト", &["jk 日本语テスト"]),
            ("ｶﾞｲﾄﾞ", &["jk ガイド"]),
            ("번역 도우미", &["jk 번역", "jk 도우미"]),
            // Where scripts meet, words end.
            ("用Rust写agent", &["zh 用", "rust", "zh 写", "agent"]),
            ("GPT助手4", &["gpt", "zh 助手", "4"]),
            // Pictures are no words.
            ("🤖 robot🚀ship", &["robot", "ship"]),
            ("々仝", &["zh 々仝"]),
            ("'", &[]),
        ];
        for (text, expected) in table {
            assert_eq!(shown(text), expected, "{text:?}");
        }
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
}
