//! Words that mean the same to who looks for an agent, English and Chinese together. Only questions use them, so that a change needs no
//! new index.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::terms::stem_of;

static SYNONYMS: LazyLock<Synonyms> = LazyLock::new(|| Synonyms::read(include_str!("synonyms.txt")));

#[derive(Default)]
struct Synonyms {
    groups: Vec<Vec<&'static str>>,
    of_word: HashMap<&'static str, Vec<usize>>,
    of_stem: HashMap<String, Vec<usize>>,
}

/// The other words of the groups that have this word; where there are none, of those that have a word with its stem: *presentation* and
/// *present* have one. Each once, in the order of the file.
pub(super) fn synonyms(word: &str, stem: &str) -> Vec<&'static str> {
    let groups = SYNONYMS.of_word.get(word).or_else(|| SYNONYMS.of_stem.get(stem));
    let mut found: Vec<&'static str> = Vec::new();
    for other in groups.into_iter().flatten().flat_map(|group| &SYNONYMS.groups[*group]) {
        if *other != word && !found.contains(other) {
            found.push(other);
        }
    }
    found
}

impl Synonyms {
    fn read(text: &'static str) -> Synonyms {
        let mut synonyms = Synonyms::default();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (group, words): (usize, Vec<&str>) = (synonyms.groups.len(), line.split(", ").collect());
            for word in &words {
                synonyms.of_word.entry(word).or_default().push(group);
                let of_stem = synonyms.of_stem.entry(stem_of(word)).or_default();
                if of_stem.last() != Some(&group) {
                    of_stem.push(group);
                }
            }
            synonyms.groups.push(words);
        }
        synonyms
    }
}

#[cfg(test)]
mod tests {
    use super::super::function_words::is_function_word;
    use super::super::{normalised, units};
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_word_has_the_others_of_its_groups() {
        let found = synonyms("presentation", "present");
        for other in ["slides", "ppt", "幻灯片"] {
            assert!(found.contains(&other), "{other}: {found:?}");
        }
        assert!(!found.contains(&"presentation"));
        assert!(synonyms("zzz", "zzz").is_empty());
        assert!(synonyms("presentations", "present").contains(&"slides"), "by its stem");
    }

    #[test]
    fn the_file_is_well_formed() {
        assert!(SYNONYMS.groups.len() >= 300, "{}", SYNONYMS.groups.len());
        for line in
            include_str!("synonyms.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let words: Vec<&str> = line.split(", ").collect();
            assert!((2..=16).contains(&words.len()), "{line}");
            let different: HashSet<&&str> = words.iter().collect();
            assert_eq!(different.len(), words.len(), "{line}");
            for word in words {
                assert_eq!(normalised(word), word, "{line}");
                let units: Vec<String> = units(word).into_iter().map(|unit| unit.text).collect();
                let is_pair = !word.is_ascii() && word.chars().count() == 2;
                assert!(is_pair || units == [word], "{word} is not a single word: {line}");
                assert!(!is_function_word(word), "{word} says nothing: {line}");
            }
        }
    }
}
