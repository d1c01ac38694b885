//! The score of a document: a sum of f64 in one fixed order, so that it is the same everywhere to the last bit.

const EXACT_AID: f64 = 1000.0;
const NAME_EQUALS: f64 = 120.0;
const NAME_PREFIX: f64 = 60.0;
const SIGNED: f64 = 2.0;
const FRESH_MS: f64 = 30.0 * 86_400_000.0;

/// What a word counts in each text of a document: name, tags, skills, description, body.
pub(super) const TEXT_WEIGHTS: [u8; 5] = [8, 6, 4, 3, 1];

/// More occurrences than this in one text count no more.
pub(super) const SATURATION: u32 = 3;

/// What a document has besides words.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bonuses {
    pub(super) exact_aid: bool,
    pub(super) name_equals: bool,
    pub(super) name_prefix: bool,
}

impl Bonuses {
    pub(super) fn parts(self) -> [f64; 3] {
        let when = |holds: bool, worth: f64| if holds { worth } else { 0.0 };
        [
            when(self.exact_aid, EXACT_AID),
            when(self.name_equals, NAME_EQUALS),
            when(self.name_prefix, NAME_PREFIX),
        ]
    }
}

/// How rare a word is among all documents.
pub(super) fn idf(documents: u64, having: u64) -> f64 {
    let (documents, having) = (documents as f64, having as f64);
    (1.0 + (documents - having + 0.5) / (having + 0.5)).ln()
}

/// The first part of the sum. `weights` has the weighted count of each word of the question, so that an absent word adds 0.
pub(super) fn words_score(bonuses: Bonuses, idfs: &[f64], weights: &[u8]) -> f64 {
    let first = bonuses.parts().into_iter().fold(0.0, |sum, part| sum + part);
    idfs.iter().zip(weights).fold(first, |sum, (idf, weight)| sum + idf * f64::from(*weight))
}

/// The rest of the sum.
pub(super) fn score(words: f64, signed: bool, freshness: f64) -> f64 {
    words + signed_part(signed) + freshness
}

/// No document with these words has a higher score: rounding keeps the order of sums.
pub(super) fn highest(words: f64) -> f64 {
    score(words, true, 1.0)
}

pub(super) fn signed_part(signed: bool) -> f64 {
    if signed { SIGNED } else { 0.0 }
}

/// 1 for what was updated now or later, 0 for what is thirty days old or older.
pub(super) fn freshness(now_ms: i64, updated_at: i64) -> f64 {
    let age = now_ms.saturating_sub(updated_at).max(0);
    (1.0 - age as f64 / FRESH_MS).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_score() {
        assert_eq!(freshness(0, 5), 1.0);
        assert_eq!(freshness(FRESH_MS as i64 / 2, 0), 0.5);
        assert_eq!(freshness(FRESH_MS as i64 * 2, 0), 0.0);
        assert_eq!(freshness(i64::MAX, i64::MIN), 0.0);
        assert_eq!(idf(9, 1), (1.0_f64 + 8.5 / 1.5).ln());
        let bonuses = Bonuses { exact_aid: true, name_equals: true, name_prefix: true };
        assert_eq!(words_score(bonuses, &[0.5, 2.0], &[0, 9]), 1198.0);
        assert_eq!(score(1.0, true, 0.5), 3.5);
        assert_eq!(highest(1.0), 4.0);
    }
}
