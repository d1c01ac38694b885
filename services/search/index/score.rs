//! The score of a document: a sum of f64 in one fixed order, so that it is the same everywhere to the last bit.

const EXACT_AID: f64 = 1000.0;
const NAME_EQUALS: f64 = 120.0;
const NAME_PREFIX: f64 = 60.0;
const SIGNED: f64 = 2.0;
const FRESH_MS: f64 = 30.0 * 86_400_000.0;

/// What a unit counts in each text of a document, in the order of [`super::TEXTS`].
pub(super) const TEXT_WEIGHTS: [u16; 6] = [8, 6, 4, 4, 3, 1];

/// More occurrences than this in one text count no more.
pub(super) const SATURATION: u32 = 3;

/// A document has a unit if it has it this strongly, for the number of documents that have it. In hundredths.
pub(super) const HAS: u8 = 35;

/// What a document has of one unit of a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UnitMatch {
    /// The sum over its texts of weight, strength and occurrences, in hundredths.
    pub(super) sum: u16,
    /// How strongly the text has it that has it most, in hundredths.
    pub(super) strongest: u8,
    /// The last text that was counted, from 1.
    pub(super) text: u8,
}

/// How rare each unit of a question is, and all of them together.
#[derive(Clone, Debug, Default)]
pub(super) struct UnitIdfs {
    pub(super) each: Vec<f64>,
    total: f64,
}

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

impl UnitIdfs {
    pub(super) fn new(each: Vec<f64>) -> UnitIdfs {
        let total = each.iter().fold(0.0, |sum, idf| sum + idf);
        UnitIdfs { each, total }
    }

    /// How much of a question a document covers, from 0 to 1.
    pub(super) fn coverage(&self, found: &[UnitMatch]) -> f64 {
        if self.total == 0.0 {
            return 0.0;
        }
        let covered = self.each.iter().zip(found);
        covered.fold(0.0, |sum, (idf, unit)| sum + idf * (f64::from(unit.strongest) / 100.0)) / self.total
    }

    /// What the units of a question add.
    pub(super) fn units_part(&self, found: &[UnitMatch]) -> f64 {
        let coverage = self.coverage(found);
        let units = self.each.iter().zip(found);
        coverage * coverage * units.fold(0.0, |sum, (idf, unit)| sum + unit.score(*idf))
    }
}

impl UnitMatch {
    pub(super) fn score(self, idf: f64) -> f64 {
        idf * (f64::from(self.sum) / 100.0)
    }
}

/// The first part of the sum.
pub(super) fn words_score(bonuses: Bonuses, idfs: &UnitIdfs, found: &[UnitMatch]) -> f64 {
    bonuses.parts().into_iter().fold(0.0, |sum, part| sum + part) + idfs.units_part(found)
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
        let idfs = UnitIdfs::new(vec![0.5, 1.5]);
        let found = [UnitMatch::default(), UnitMatch { sum: 900, strongest: 100, text: 1 }];
        assert_eq!(idfs.coverage(&found), 0.75);
        assert_eq!(words_score(bonuses, &idfs, &found), 1180.0 + 0.75 * 0.75 * 13.5);
        assert_eq!(UnitIdfs::default().units_part(&[]), 0.0);
        assert_eq!(score(1.0, true, 0.5), 3.5);
        assert_eq!(highest(1.0), 4.0);
    }
}
