//! The ranking without an index: every document is read for every question, straight by the formula.
//!
//! Tests compare the index with it, and so does the benchmark. It is short and slow, and shares nothing with the index but
//! the terms of a text and the units of a question.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::words::{
    BEGUN, BY_SPELLING, EDITED, MOST_MISSPELT, MOST_SPELLINGS, STEM, Unit, WORD, is_term_of, normalised,
    spellings, terms, units,
};
use super::{IndexChange, IndexQuery, IndexedDocument, Rank};

/// The documents, by AID.
#[derive(Clone, Debug, Default)]
pub struct BruteForce {
    documents: BTreeMap<String, WordedDocument>,
    /// Every term there ever was has a number, so that a hundred thousand documents fit into memory.
    numbers: HashMap<String, u32>,
}

#[derive(Clone, Debug)]
struct WordedDocument {
    document: IndexedDocument,
    /// The terms of each text, in order.
    texts: [Vec<u32>; 6],
}

/// A unit of a question, with the numbers of its terms.
struct AskedUnit {
    forms: Vec<(u32, f64)>,
    pairs: Vec<Option<u32>>,
    chars: Vec<Option<u32>>,
    idf: f64,
}

impl BruteForce {
    pub fn apply(&mut self, changes: impl IntoIterator<Item = IndexChange>) {
        for change in changes {
            match change {
                IndexChange::Upsert(document) => self.insert(*document),
                IndexChange::Delete(aid) => drop(self.documents.remove(&aid)),
            }
        }
    }

    fn insert(&mut self, document: IndexedDocument) {
        let texts = document.texts().map(|text| {
            let mut numbers: Vec<u32> = terms(&text)
                .into_iter()
                .map(|term| {
                    let next = self.numbers.len() as u32;
                    *self.numbers.entry(term).or_insert(next)
                })
                .collect();
            numbers.sort_unstable();
            numbers
        });
        self.documents.insert(document.aid.clone(), WordedDocument { document, texts });
    }

    pub fn documents(&self) -> impl Iterator<Item = &IndexedDocument> {
        self.documents.values().map(|worded| &worded.document)
    }

    /// All answers to a question, the best first.
    pub fn query(&self, query: &IndexQuery) -> Vec<Rank> {
        let mut misspelt = 0;
        let asked: Vec<AskedUnit> =
            units(&query.q).iter().map(|unit| self.asked(unit, &mut misspelt)).collect();
        let found = self.documents.values().filter(|worded| passes(&worded.document, query));
        let mut ranks: Vec<Rank> = found.filter_map(|worded| worded.rank(query, &asked)).collect();
        ranks.sort();
        if !normalised(&query.q).is_empty()
            && let Some(best) = ranks.first().map(|rank| rank.score)
        {
            let third = ranks.get(2).map_or(f64::NEG_INFINITY, |rank| rank.score);
            ranks.retain(|rank| rank.score >= best / 10.0 || rank.score >= third);
        }
        ranks
    }

    fn asked(&self, unit: &Unit, misspelt: &mut usize) -> AskedUnit {
        let number = |term: &String| self.numbers.get(term).copied();
        let forms = unit.forms.iter();
        let mut asked = AskedUnit {
            forms: forms.filter_map(|form| Some((number(&form.term)?, hundredths(form.strength)))).collect(),
            pairs: unit.pairs.iter().map(number).collect(),
            chars: unit.chars.iter().map(number).collect(),
            idf: 0.0,
        };
        let strongest = |asked: &AskedUnit| -> Vec<f64> {
            self.documents.values().map(|worded| worded.strongest(asked)).collect()
        };
        let is_unknown = unit.spelt && strongest(&asked).iter().all(|strength| *strength == 0.0);
        if is_unknown && *misspelt < MOST_MISSPELT {
            *misspelt += 1;
            let spelt = self.spelt(&unit.text).into_iter().take(MOST_SPELLINGS);
            asked.forms = spelt.filter_map(|term| Some((number(&term)?, hundredths(BY_SPELLING)))).collect();
        }
        let strongest = strongest(&asked);
        // A word that nobody has counts for nothing.
        if strongest.iter().any(|strength| *strength > 0.0) {
            let having = strongest.iter().filter(|strength| **strength >= 0.35).count() as f64;
            let documents = self.documents.len() as f64;
            asked.idf = (1.0 + (documents - having + 0.5) / (having + 0.5)).ln();
        }
        asked
    }

    /// The terms of all documents that may be meant.
    fn spelt(&self, word: &str) -> BTreeSet<String> {
        let spellings = spellings(word);
        let is_meant = |term: &&String| {
            let text = is_term_of(WORD, term).or_else(|| is_term_of(STEM, term));
            text.is_some_and(|text| spellings.iter().any(|spelling| is_near(spelling, text)))
        };
        // Terms of documents that are gone have a number, too.
        let is_there = |term: &&String| {
            let number = &self.numbers[*term];
            let texts = self.documents.values().flat_map(|worded| &worded.texts);
            texts.into_iter().any(|text| text.binary_search(number).is_ok())
        };
        self.numbers.keys().filter(is_meant).filter(is_there).cloned().collect()
    }
}

impl WordedDocument {
    fn strongest(&self, unit: &AskedUnit) -> f64 {
        self.texts.iter().map(|text| unit.strength(text).0).fold(0.0, f64::max)
    }

    /// None if the document is no answer.
    fn rank(&self, query: &IndexQuery, units: &[AskedUnit]) -> Option<Rank> {
        let IndexedDocument { aid, name, signed, updated_at, .. } = &self.document;
        let asked = normalised(&query.q);
        let exact = !asked.is_empty() && query.q.trim().to_lowercase() == *aid;
        let strongest: Vec<f64> = units.iter().map(|unit| self.strongest(unit)).collect();
        if !asked.is_empty() && !exact && strongest.iter().all(|strength| *strength == 0.0) {
            return None;
        }

        let mut score = 0.0;
        if exact {
            score += 1000.0;
        }
        if !asked.is_empty() && normalised(name) == asked {
            score += 120.0;
        }
        if !asked.is_empty() && normalised(name).starts_with(&asked) {
            score += 60.0;
        }
        if !units.is_empty() {
            let (mut all, mut covered, mut words) = (0.0, 0.0, 0.0);
            for (unit, strongest) in units.iter().zip(strongest) {
                all += unit.idf;
                covered += unit.idf * strongest;
                words += unit.idf * unit.weighted(&self.texts);
            }
            if all > 0.0 {
                let coverage: f64 = covered / all;
                score += coverage * coverage * words;
            }
        }
        if *signed {
            score += 2.0;
        }
        let age = (query.now_ms - updated_at).max(0) as f64;
        score += (1.0 - age / (30.0 * 24.0 * 60.0 * 60.0 * 1000.0)).max(0.0);
        Some(Rank { score, updated_at: *updated_at, aid: aid.clone() })
    }
}

impl AskedUnit {
    /// How strongly a text has the unit, and how often.
    fn strength(&self, text: &[u32]) -> (f64, usize) {
        let occurrences = |term: u32| {
            text.partition_point(|other| *other <= term) - text.partition_point(|other| *other < term)
        };
        let mut best = (0.0, 0);
        for (term, strength) in &self.forms {
            if *strength > best.0 && occurrences(*term) > 0 {
                best = (*strength, occurrences(*term));
            }
        }
        for (parts, whole) in [(&self.pairs, 70.0), (&self.chars, 20.0)] {
            let counts: Vec<usize> =
                parts.iter().map(|part| part.map_or(0, occurrences)).filter(|count| *count > 0).collect();
            let strength = (whole * counts.len() as f64 / parts.len().max(1) as f64).round() / 100.0;
            if strength > best.0 {
                best = (strength, counts.into_iter().min().unwrap_or_default());
            }
        }
        best
    }

    /// Exact: whole hundredths, and one division.
    fn weighted(&self, texts: &[Vec<u32>; 6]) -> f64 {
        let weighted = texts.iter().zip([8.0, 6.0, 4.0, 4.0, 3.0, 1.0]).map(|(text, weight)| {
            let (strength, occurrences) = self.strength(text);
            weight * (strength * 100.0).round() * occurrences.min(3) as f64
        });
        weighted.sum::<f64>() / 100.0
    }
}

fn hundredths(strength: u8) -> f64 {
    f64::from(strength) / 100.0
}

/// Whether a word of a document may be meant.
fn is_near(asked: &str, word: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (asked.chars().collect(), word.chars().collect());
    let begun = a.len().min(b.len()) >= BEGUN && (asked.starts_with(word) || word.starts_with(asked));
    begun || (a.len() >= EDITED && is_one_edit_away(&a, &b))
}

fn is_one_edit_away(a: &[char], b: &[char]) -> bool {
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[same..], &b[same..]);
    let swapped = a.len() >= 2 && b.len() >= 2 && a[0] == b[1] && a[1] == b[0] && a[2..] == b[2..];
    let (a1, b1) = (a.get(1..).unwrap_or_default(), b.get(1..).unwrap_or_default());
    swapped || a1 == b1 || a1 == b || a == b1
}

fn passes(document: &IndexedDocument, query: &IndexQuery) -> bool {
    query.tags.iter().all(|tag| document.tags.contains(&tag.to_lowercase()))
        && query.kind.as_ref().is_none_or(|kind| document.kind == *kind)
        && query.issuer.as_ref().is_none_or(|issuer| document.issuer == *issuer)
        && query.signed.is_none_or(|signed| document.signed == signed)
        && !query.hidden.contains(&document.source_ap)
}
