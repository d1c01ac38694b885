//! The best documents of a segment.
//!
//! Documents with equal score and time are in the order of their AIDs. Within a segment the numbers of AIDs have that
//! order, so no AID is read to compare them.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use tantivy::DocId;

use super::super::Rank;
use super::super::score::Bonuses;
use super::super::segment::{SegmentView, first_number_after};

#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) score: f64,
    pub(super) updated_at: i64,
    pub(super) aid_number: u64,
    pub(super) doc: DocId,
    pub(super) bonuses: Bonuses,
}

/// Which answers are good enough: those with a tenth of the best score, and the best three in any case.
pub(super) struct LeastScore {
    /// The best scores, the best first.
    best: [f64; 3],
}

/// At most so many, the worst of them on top.
pub(super) struct TopCandidates {
    best: BinaryHeap<Candidate>,
    keep: usize,
    lowest: f64,
}

impl LeastScore {
    pub(super) fn new() -> LeastScore {
        LeastScore { best: [f64::NEG_INFINITY; 3] }
    }

    pub(super) fn offer(&mut self, score: f64) {
        if let Some(place) = self.best.iter().position(|better| score > *better) {
            self.best[place..].rotate_right(1);
            self.best[place] = score;
        }
    }

    /// Whether a score is not among the best.
    pub(super) fn is_above(&self, score: f64) -> bool {
        score < self.best[2]
    }

    pub(super) fn score(&self) -> f64 {
        self.best[2].min(self.best[0] / 10.0)
    }
}

impl TopCandidates {
    /// Documents with less than the lowest score are not wanted.
    pub(super) fn new(keep: usize, lowest: f64) -> TopCandidates {
        TopCandidates { best: BinaryHeap::with_capacity(keep.min(1024)), keep, lowest }
    }

    /// A lower score is too low.
    pub(super) fn lowest(&self) -> f64 {
        self.lowest
    }

    pub(super) fn offer(&mut self, candidate: Candidate) {
        if self.best.len() < self.keep {
            self.best.push(candidate);
        } else if let Some(mut worst) = self.best.peek_mut()
            && candidate < *worst
        {
            *worst = candidate;
        }
        if self.best.len() == self.keep
            && let Some(worst) = self.best.peek()
        {
            self.lowest = self.lowest.max(worst.score);
        }
    }

    pub(super) fn into_candidates(self) -> Vec<Candidate> {
        self.best.into_vec()
    }
}

/// What comes first is less.
impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.score.total_cmp(&self.score))
            .then_with(|| Reverse(self.updated_at).cmp(&Reverse(other.updated_at)))
            .then_with(|| self.aid_number.cmp(&other.aid_number))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Candidate {}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

/// The rank that the last page ended with, in the numbers of a segment.
pub(super) struct StartAfter {
    score: f64,
    updated_at: i64,
    first_aid_number: u64,
}

impl StartAfter {
    pub(super) fn new(segment: &SegmentView, rank: &Rank) -> anyhow::Result<StartAfter> {
        let first_aid_number = first_number_after(&segment.aid, &rank.aid)?;
        Ok(StartAfter { score: rank.score, updated_at: rank.updated_at, first_aid_number })
    }

    pub(super) fn is_before(&self, candidate: &Candidate) -> bool {
        let order =
            (candidate.score.total_cmp(&self.score)).then_with(|| candidate.updated_at.cmp(&self.updated_at));
        order.is_lt() || (order.is_eq() && candidate.aid_number >= self.first_aid_number)
    }
}
