//! The ranking without an index: every document is read for every question, straight by the formula.
//!
//! Tests compare the index with it, and so does the benchmark. It is short and slow, and shares nothing with the index but
//! the words of a text.

use std::collections::{BTreeMap, HashMap};

use super::tokens::{normalised, query_tokens, tokens};
use super::{IndexChange, IndexQuery, IndexedDocument, Rank};

/// The documents, by AID.
#[derive(Clone, Debug, Default)]
pub struct BruteForce {
    documents: BTreeMap<String, WordedDocument>,
    /// Every word there ever was has a number, so that a hundred thousand documents fit into memory.
    numbers: HashMap<String, u32>,
}

#[derive(Clone, Debug)]
struct WordedDocument {
    document: IndexedDocument,
    /// The words of name, tags, skills, description and body.
    texts: [Vec<u32>; 5],
}

/// A word of a question.
struct AskedWord {
    /// None if no document ever had it.
    number: Option<u32>,
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
        let IndexedDocument { name, tags, skills, description, body, .. } = &document;
        let texts = [name, &tags.join(" "), skills, description, body].map(|text| {
            let words = tokens(text).into_iter();
            words
                .map(|word| {
                    let next = self.numbers.len() as u32;
                    *self.numbers.entry(word).or_insert(next)
                })
                .collect()
        });
        self.documents.insert(document.aid.clone(), WordedDocument { document, texts });
    }

    pub fn documents(&self) -> impl Iterator<Item = &IndexedDocument> {
        self.documents.values().map(|worded| &worded.document)
    }

    /// All answers to a question, the best first.
    pub fn query(&self, query: &IndexQuery) -> Vec<Rank> {
        let words: Vec<AskedWord> = query_tokens(&query.q).iter().map(|word| self.asked(word)).collect();
        let found = self.documents.values().filter(|worded| passes(&worded.document, query));
        let mut ranks: Vec<Rank> = found.filter_map(|worded| worded.rank(query, &words)).collect();
        ranks.sort();
        ranks
    }

    fn asked(&self, word: &str) -> AskedWord {
        let number = self.numbers.get(word).copied();
        let having = self.documents.values().filter(|worded| worded.counts(number) != [0; 5]).count();
        let (documents, having) = (self.documents.len() as f64, having as f64);
        AskedWord { number, idf: (1.0 + (documents - having + 0.5) / (having + 0.5)).ln() }
    }
}

impl WordedDocument {
    fn counts(&self, word: Option<u32>) -> [u32; 5] {
        self.texts.each_ref().map(|text| text.iter().filter(|number| Some(**number) == word).count() as u32)
    }

    /// None if the document is no answer.
    fn rank(&self, query: &IndexQuery, words: &[AskedWord]) -> Option<Rank> {
        let IndexedDocument { aid, name, signed, updated_at, .. } = &self.document;
        let asked = normalised(&query.q);
        let exact = !asked.is_empty() && query.q.trim().to_lowercase() == *aid;
        let present = words.iter().filter(|word| self.counts(word.number) != [0; 5]).count();
        let needed = (0.6 * words.len() as f64).ceil().max(1.0);
        if !asked.is_empty() && !exact && (present as f64) < needed {
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
        for word in words {
            let counts = self.counts(word.number).map(|count| f64::from(count.min(3)));
            let [name, tags, skills, description, body] = counts;
            score += word.idf * (8.0 * name + 6.0 * tags + 4.0 * skills + 3.0 * description + body);
        }
        if *signed {
            score += 2.0;
        }
        let age = (query.now_ms - updated_at).max(0) as f64;
        score += (1.0 - age / (30.0 * 24.0 * 60.0 * 60.0 * 1000.0)).max(0.0);
        Some(Rank { score, updated_at: *updated_at, aid: aid.clone() })
    }
}

fn passes(document: &IndexedDocument, query: &IndexQuery) -> bool {
    query.tags.iter().all(|tag| document.tags.contains(&tag.to_lowercase()))
        && query.kind.as_ref().is_none_or(|kind| document.kind == *kind)
        && query.issuer.as_ref().is_none_or(|issuer| document.issuer == *issuer)
        && query.signed.is_none_or(|signed| document.signed == signed)
        && !query.hidden.contains(&document.source_ap)
}
