//! The units of a question: the words that are looked up, and what each of them is looked up as.

use std::collections::HashSet;

use super::function_words::is_function_word;
use super::runs::{CharClass, TextRun, runs};
use super::segmenter;
use super::synonyms::synonyms;
use super::terms::{PAIR, STEM, WORD, chars, pairs, stem_of, term};

/// More units than this are not looked up: a question is a few words, and each costs the reading of its postings.
pub const MOST_UNITS: usize = 32;
/// More forms than this are not looked up for one question. Synonyms of the last units are left out first.
const MOST_FORMS: usize = 256;
/// More parts than this of one unit are not looked up, and of all units.
const MOST_PARTS: usize = 32;
const MOST_PARTS_IN_ALL: usize = 256;

/// How strongly a text has a unit, in hundredths.
pub(super) const AS_WRITTEN: u8 = 100;
const BY_STEM: u8 = 90;
const BY_SYNONYM: u8 = 60;
const BY_SYNONYM_OF_OTHER_SCRIPT: u8 = 40;
/// By a synonym of a word inside a Chinese word: less than by most of its pairs.
const BY_SYNONYM_OF_PART: u8 = 20;

/// A word of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    pub text: String,
    /// The strongest first, each term once.
    pub forms: Vec<Form>,
    /// Every pair of neighbouring characters, each once. None of a word of a script with spaces.
    pub pairs: Vec<String>,
    /// Every character, each once. None of a word of a script with spaces.
    pub chars: Vec<String>,
    /// Whether it may be misspelt: an alphabetic word of a script with spaces.
    pub spelt: bool,
}

/// A term that stands for a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    pub term: String,
    /// In hundredths.
    pub strength: u8,
    pub by: FoundBy,
}

/// Why a term stands for a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    Written,
    Stem,
    Synonym,
    /// One edit away, or either begins with the other.
    Spelling,
    /// By the pairs of neighbouring characters.
    Pairs,
    /// By the single characters.
    Chars,
}

/// A word of a question before it is decided which are looked up.
struct AskedWord {
    text: String,
    script: Script,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    Spaced,
    Chinese,
    Unspaced,
}

/// Each once, in order of first appearance. Function words are left out while something else remains.
pub fn units(question: &str) -> Vec<Unit> {
    let mut asked = asked_words(question);
    let acronyms = acronyms(question);
    let is_left_out = |word: &AskedWord| word.is_function_word() && !acronyms.contains(&word.text);
    if !asked.iter().all(is_left_out) {
        asked.retain(|word| !is_left_out(word));
    }
    let mut seen = HashSet::new();
    asked.retain(|word| seen.insert(word.text.clone()));
    asked.truncate(MOST_UNITS);

    let mut units: Vec<Unit> = asked.iter().map(AskedWord::unit).collect();
    let mut parts = MOST_PARTS_IN_ALL;
    for list in units.iter_mut().flat_map(|unit| [&mut unit.pairs, &mut unit.chars]) {
        list.truncate(parts);
        parts -= list.len();
    }
    let mut forms: usize = units.iter().map(|unit| unit.forms.len()).sum();
    for (unit, word) in units.iter_mut().zip(&asked) {
        forms += unit.add_synonyms(word, MOST_FORMS.saturating_sub(forms));
    }
    units
}

/// Words in capitals, where not everything is: *IT support* asks for more than *it*.
fn acronyms(question: &str) -> HashSet<String> {
    if !question.chars().any(char::is_lowercase) {
        return HashSet::new();
    }
    let words = question.split(|char: char| !char.is_alphanumeric());
    let in_capitals =
        words.filter(|word| word.chars().nth(1).is_some() && word.chars().all(char::is_uppercase));
    in_capitals.map(str::to_lowercase).collect()
}

fn asked_words(question: &str) -> Vec<AskedWord> {
    let mut words = Vec::new();
    let mut add = |text: &str, script| words.push(AskedWord { text: text.to_owned(), script });
    for run in runs(question) {
        match run {
            TextRun::Spaced(parts) if is_one_word(&parts) => add(&parts.concat(), Script::Spaced),
            TextRun::Spaced(parts) => parts.iter().for_each(|part| add(part, Script::Spaced)),
            TextRun::Chinese(run) => {
                segmenter::words(&run).into_iter().for_each(|word| add(word, Script::Chinese));
            }
            TextRun::Unspaced(run) => same_scripts(&run).iter().for_each(|part| add(part, Script::Unspaced)),
        }
    }
    words
}

/// Where the script changes, a Japanese word usually ends.
fn same_scripts(run: &str) -> Vec<String> {
    let mut parts: Vec<(Option<CharClass>, String)> = Vec::new();
    for char in run.chars() {
        let class = CharClass::of(char);
        match parts.last_mut() {
            Some((last, part)) if *last == class => part.push(char),
            _ => parts.push((class, char.to_string())),
        }
    }
    parts.into_iter().map(|(_, part)| part).collect()
}

/// `e-mail`, `x-ray` and `wi-fi` are one word; `code-review`, `type-2` and `text-to-speech` are several.
fn is_one_word(parts: &[String]) -> bool {
    let [first, second] = parts else { return false };
    let are_alphabetic = first.chars().chain(second.chars()).all(char::is_alphabetic);
    let at_most = |part: &str, most: usize| part.chars().nth(most).is_none();
    are_alphabetic && (at_most(first, 1) || at_most(second, 1) || (at_most(first, 2) && at_most(second, 2)))
}

impl AskedWord {
    fn is_function_word(&self) -> bool {
        match self.script {
            Script::Spaced | Script::Chinese => is_function_word(&self.text),
            // Hiragana is endings and particles.
            Script::Unspaced => {
                self.text.chars().all(|char| CharClass::of(char) == Some(CharClass::Hiragana))
            }
        }
    }

    fn unit(&self) -> Unit {
        let text = self.text.as_str();
        let mut unit = Unit {
            text: text.to_owned(),
            forms: Vec::new(),
            pairs: Vec::new(),
            chars: Vec::new(),
            spelt: self.script == Script::Spaced && text.chars().all(char::is_alphabetic),
        };
        match self.script {
            Script::Spaced => {
                unit.add(WORD, text, AS_WRITTEN, FoundBy::Written);
                unit.add_stem(&stem_of(text), BY_STEM, FoundBy::Stem);
            }
            Script::Chinese => unit.add(WORD, text, AS_WRITTEN, FoundBy::Written),
            Script::Unspaced => {}
        }
        if self.script != Script::Spaced {
            unit.pairs = each_once(pairs(text));
            unit.chars = each_once(chars(text));
        }
        unit
    }
}

impl Unit {
    /// Returns how many forms were added.
    fn add_synonyms(&mut self, word: &AskedWord, most: usize) -> usize {
        let before = self.forms.len();
        for synonym in synonyms(&word.text, &stem_of(&word.text)) {
            let spaced = synonym.is_ascii();
            let same = spaced == (word.script == Script::Spaced);
            let strength = if same { BY_SYNONYM } else { BY_SYNONYM_OF_OTHER_SCRIPT };
            self.add(WORD, synonym, strength, FoundBy::Synonym);
            if spaced {
                self.add_stem(&stem_of(synonym), strength, FoundBy::Synonym);
            } else if synonym.chars().count() == 2 {
                // The dictionary does not have every word of two characters.
                self.add(PAIR, synonym, strength, FoundBy::Synonym);
            }
        }
        if self.forms.len() == before && word.script == Script::Chinese {
            self.add_synonyms_of_parts(&word.text);
        }
        self.forms.sort_by_key(|form| std::cmp::Reverse(form.strength));
        self.forms.truncate(before + most);
        self.forms.len() - before
    }

    /// The dictionary has `今天天气` as one word, and nobody has a synonym for that.
    fn add_synonyms_of_parts(&mut self, word: &str) {
        let parts = segmenter::words_with_parts(word).into_iter().filter(|part| *part != word);
        for synonym in parts.flat_map(|part| synonyms(part, part)) {
            self.add(WORD, synonym, BY_SYNONYM_OF_PART, FoundBy::Synonym);
            if synonym.is_ascii() {
                self.add_stem(&stem_of(synonym), BY_SYNONYM_OF_PART, FoundBy::Synonym);
            }
        }
    }

    /// Words that are written otherwise and have this stem, and the stem where it is a word.
    fn add_stem(&mut self, stem: &str, strength: u8, by: FoundBy) {
        self.add(STEM, stem, strength, by);
        self.add(WORD, stem, strength, by);
    }

    pub(in super::super) fn add(&mut self, kind: char, text: &str, strength: u8, by: FoundBy) {
        let term = term(kind, text);
        if self.forms.iter().all(|form| form.term != term) {
            self.forms.push(Form { term, strength, by });
        }
    }
}

fn each_once(terms: impl Iterator<Item = String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for term in terms {
        if found.len() < MOST_PARTS && !found.contains(&term) {
            found.push(term);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(question: &str) -> Vec<String> {
        units(question).into_iter().map(|unit| unit.text).collect()
    }

    #[test]
    fn questions_have_these_units() {
        let table: [(&str, &[&str]); 18] = [
            ("", &[]),
            ("code Review CODE", &["code", "review"]),
            ("Who can help me with my tax return?", &["tax", "return"]),
            ("who are you", &["who", "are", "you"]),
            ("who does IT support?", &["it", "support"]),
            ("HELP ME WITH IT", &["help", "me", "with", "it"]),
            ("A list of US laws", &["list", "us", "laws"]),
            ("write my will", &["write", "will"]),
            ("e-mail", &["email"]),
            ("wi-fi setup", &["wifi", "setup"]),
            ("type-2 diabetes", &["type", "2", "diabetes"]),
            ("code-review", &["code", "review"]),
            ("text-to-speech", &["text", "speech"]),
            ("今天天气怎么样", &["今天天气"]),
            ("我想找一个能审查代码的助手", &["审查", "代码", "助手"]),
            ("審查代碼", &["审查", "代码"]),
            ("コードレビューを手伝って", &["コードレビュー", "手伝"]),
            ("번역 도우미", &["번역", "도우미"]),
        ];
        for (question, expected) in table {
            assert_eq!(texts(question), expected, "{question:?}");
        }
        let long: Vec<String> = (0..100).map(|number| format!("w{number}")).collect();
        assert_eq!(texts(&long.join(" ")), long[..MOST_UNITS]);
    }

    #[test]
    fn a_unit_is_looked_up_as_these_terms() {
        let unit = &units("presentations")[0];
        let strength =
            |term: &str| unit.forms.iter().find(|form| form.term == term).map(|form| form.strength);
        assert_eq!(strength("wpresentations"), Some(100));
        assert_eq!(strength("spresent"), Some(90));
        assert_eq!(strength("wslides"), Some(60));
        assert_eq!(strength("w幻灯片"), Some(40));
        assert!(unit.forms.is_sorted_by_key(|form| std::cmp::Reverse(form.strength)));
        assert!(unit.spelt && unit.pairs.is_empty());

        let unit = &units("今天天气怎么样")[0];
        let weather = unit.forms.iter().find(|form| form.term == "wweather");
        assert_eq!(weather.map(|form| form.strength), Some(20), "by the word inside");

        let unit = &units("合同")[0];
        assert_eq!(
            (unit.pairs.as_slice(), unit.chars.len(), unit.spelt),
            (&["p合同".to_owned()][..], 2, false)
        );
    }

    #[test]
    fn the_longest_question_has_a_limited_number_of_parts() {
        // One character is four of them.
        let question = "\u{3300}\u{3301}\u{3303}\u{3305}漢字".repeat(256 / 6);
        let units = units(&question);
        let parts: usize = units.iter().map(|unit| unit.pairs.len() + unit.chars.len()).sum();
        assert!(units.len() <= MOST_UNITS && parts <= MOST_PARTS_IN_ALL, "{parts}");
    }

    #[test]
    fn the_longest_question_has_a_limited_number_of_forms() {
        let words =
            ["presentation", "contract", "weather", "translate", "invoice", "travel", "recipe", "doctor"];
        let asked: Vec<String> =
            words.iter().flat_map(|word| [(*word).to_owned(), format!("{word}s")]).collect();
        let forms: usize = units(&asked.join(" ")).iter().map(|unit| unit.forms.len()).sum();
        assert!(forms <= MOST_FORMS, "{forms}");
    }
}
