//! The index beside the ranking without an index, and what happens to its folder.

mod folder;
mod judged;
mod ranking;
mod suggestions;

use std::collections::HashSet;

use proptest::prelude::*;
use proptest::sample::select;
use tempfile::TempDir;

use super::brute_force::BruteForce;
use super::{IndexChange, IndexQuery, IndexedDocument, Rank, TextIndex};

const NOW: i64 = 1_794_000_000_000;
const DAY: i64 = 86_400_000;

const WORDS: [&str; 16] = [
    "code",
    "Codes",
    "reviewing",
    "review",
    "rust",
    "agent",
    "a",
    "codex",
    "代码审查",
    "审查",
    "助手",
    "テスト",
    "ｒｕｓｔ",
    "slides",
    "幻灯片",
    "查代码",
];
const AIDS: [&str; 10] = [
    "code.a.example",
    "review.a.example",
    "coder.a.example",
    "rust.b.example",
    "a.b.example",
    "agent.b.example",
    "c.a.example",
    "x1.b.example",
    "x2.b.example",
    "x3.b.example",
];
const TAGS: [&str; 6] = ["coding", "code review", "rust", "中文", "co", "agent"];
const SOURCES: [&str; 2] = ["search.a.example", "search.b.example"];

fn index() -> (TextIndex, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (TextIndex::open(folder.path()).unwrap(), folder)
}

fn text(most: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(select(&WORDS), 0..=most).prop_map(|words| words.join(" "))
}

/// Few words, names and times, so that documents are often equal.
fn document() -> impl Strategy<Value = IndexedDocument> {
    let texts = (text(2), text(3), text(2), text(8));
    let tags = prop::collection::hash_set(select(&TAGS), 0..4);
    let facts = (any::<bool>(), select(&[NOW, NOW - DAY, NOW - 20 * DAY, NOW - 40 * DAY, NOW + DAY]));
    let from = (select(&AIDS), select(&["assistant", "human"]), select(&SOURCES));
    (texts, tags, facts, from).prop_map(|(texts, tags, (signed, updated_at), (aid, kind, source))| {
        let (name, description, skills, body) = texts;
        let mut tags: Vec<String> = tags.into_iter().map(str::to_owned).collect();
        tags.sort();
        IndexedDocument {
            aid: aid.to_owned(),
            name,
            kind: kind.to_owned(),
            description,
            tags,
            skills,
            body,
            signed,
            updated_at,
            source_ap: source.to_owned(),
            issuer: aid.split_once('.').unwrap().1.to_owned(),
        }
    })
}

fn change() -> impl Strategy<Value = IndexChange> {
    prop_oneof![
        4 => document().prop_map(|document| IndexChange::Upsert(Box::new(document))),
        1 => select(&AIDS).prop_map(|aid| IndexChange::Delete(aid.to_owned())),
    ]
}

/// A log, in batches.
fn batches() -> impl Strategy<Value = Vec<Vec<IndexChange>>> {
    prop::collection::vec(prop::collection::vec(change(), 0..8), 1..6)
}

fn hidden() -> impl Strategy<Value = HashSet<String>> {
    prop::collection::hash_set(select(&SOURCES).prop_map(str::to_owned), 0..=1)
}

fn question() -> impl Strategy<Value = IndexQuery> {
    let q = prop_oneof![
        6 => text(5),
        1 => select(&AIDS).prop_map(|aid| format!(" {} ", aid.to_uppercase())),
        1 => select(&["", " ", "!!!", "c", "代", "rust。", "reveiw", "agents", "slide", "presentation", "演示", "码审查"]).prop_map(str::to_owned),
    ];
    let tags = prop::collection::vec(select(&TAGS).prop_map(str::to_uppercase), 0..3);
    let kind = prop::option::of(select(&["assistant", "human", "group"]).prop_map(str::to_owned));
    let issuer = prop::option::of(select(&["a.example", "b.example"]).prop_map(str::to_owned));
    let filters = (tags, kind, issuer, prop::option::of(any::<bool>()), hidden());
    (q, filters).prop_map(|(q, (tags, kind, issuer, signed, hidden))| IndexQuery {
        q,
        tags,
        kind,
        issuer,
        signed,
        hidden,
        now_ms: NOW,
        explain: true,
    })
}

fn plain(q: &str) -> IndexQuery {
    IndexQuery { q: q.to_owned(), now_ms: NOW, ..IndexQuery::default() }
}

fn upsert(aid: &str, name: &str, body: &str) -> IndexChange {
    IndexChange::Upsert(Box::new(IndexedDocument {
        aid: aid.to_owned(),
        name: name.to_owned(),
        body: body.to_owned(),
        ..IndexedDocument::default()
    }))
}

/// All pages of the answers to a question.
fn all_pages(index: &TextIndex, query: &IndexQuery, limit: usize) -> Vec<super::Hit> {
    let mut hits: Vec<super::Hit> = Vec::new();
    loop {
        let found = index.query(query, hits.last().map(|hit| &hit.rank), limit).unwrap();
        assert_eq!(found.more, found.more && found.hits.len() == limit, "only a full page is not the last");
        hits.extend(found.hits);
        if !found.more {
            return hits;
        }
    }
}

/// What has to be equal to the last bit.
fn exactly(rank: &Rank) -> (u64, i64, &str) {
    (rank.score.to_bits(), rank.updated_at, rank.aid.as_str())
}

fn aids(index: &TextIndex, query: &IndexQuery) -> Vec<String> {
    index.query(query, None, 50).unwrap().hits.into_iter().map(|hit| hit.rank.aid).collect()
}

/// Everything that a log leaves behind, for a look at all at once.
fn brute_force(batches: &[Vec<IndexChange>]) -> BruteForce {
    let mut brute_force = BruteForce::default();
    brute_force.apply(batches.iter().flatten().cloned());
    brute_force
}
