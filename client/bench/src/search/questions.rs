//! The questions: the same in every run, of one to four words.

use super::super::random::SplitMix64;
use super::vocabulary::Vocabulary;

/// Where questions begin, so that they have no numbers of documents.
const SEED: u64 = 1 << 40;

pub(super) fn questions(count: usize) -> Vec<String> {
    let vocabulary = Vocabulary::new();
    let mut random = SplitMix64::new(SEED);
    (0..count).map(|_| question(&vocabulary, &mut random)).collect()
}

fn question(vocabulary: &Vocabulary, random: &mut SplitMix64) -> String {
    match random.below(8) {
        0 => Vocabulary::chinese(random, 1),
        1 => vocabulary.topic(random).to_owned(),
        kind => {
            let words = 1 + kind % 3;
            format!("{} {}", vocabulary.topic(random), vocabulary.words(random, words))
        }
    }
}
