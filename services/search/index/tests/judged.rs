//! Questions as people ask them, over agents as people describe them, with the right answers.
//!
//! The questions were written by somebody who had not read the ranking. Synonyms and weights may be changed for those of
//! `questions.json`; those of `held-out.json` say whether that helps anybody else, and nothing is tuned on them.

use super::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct JudgedAgent {
    label: String,
    name: String,
    #[serde(rename = "type")]
    kind: String,
    description: String,
    tags: Vec<String>,
    skills: Vec<String>,
    body: String,
}

#[derive(Deserialize)]
struct JudgedQuestion {
    q: String,
    lang: String,
    right: Vec<String>,
}

/// How many questions were asked, and for how many a right agent was among the first five, and first.
#[derive(Default)]
struct JudgedCounts {
    asked: usize,
    among_five: usize,
    first: usize,
    /// What was not among the first five.
    missed: Vec<String>,
}

fn judged_index() -> (TextIndex, TempDir) {
    let agents: Vec<JudgedAgent> = serde_json::from_str(include_str!("judged/agents.json")).unwrap();
    assert!(agents.len() >= 100);
    let changes = agents.into_iter().enumerate().map(|(n, agent)| {
        let tags = agent.tags.iter().map(|tag| crate::index::words::normalised(tag)).collect();
        IndexChange::Upsert(Box::new(IndexedDocument {
            aid: format!("{}.agents.example", agent.label),
            name: agent.name,
            kind: agent.kind,
            description: agent.description,
            tags,
            skills: agent.skills.join("\n"),
            body: agent.body,
            // Half of them are signed, and each was published some days before: neither says who is meant.
            signed: n % 2 == 0,
            updated_at: NOW - (n as i64 * 7 % 40) * DAY,
            ..IndexedDocument::default()
        }))
    });
    let (index, folder) = index();
    index.apply(changes.collect(), 1).unwrap();
    (index, folder)
}

fn judge(index: &TextIndex, questions: &[&JudgedQuestion]) -> JudgedCounts {
    let mut counts = JudgedCounts::default();
    for question in questions {
        let found = index.query(&plain(&question.q), None, 5).unwrap().hits;
        let labels: Vec<&str> = found.iter().map(|hit| hit.rank.aid.split('.').next().unwrap()).collect();
        let is_right = |label: &&str| question.right.iter().any(|right| right == label);
        counts.asked += 1;
        counts.first += usize::from(labels.first().is_some_and(is_right));
        if labels.iter().any(is_right) {
            counts.among_five += 1;
        } else {
            counts.missed.push(format!("{}: {labels:?} instead of {:?}", question.q, question.right));
        }
    }
    counts
}

fn assert_found(questions: &str) {
    let questions: Vec<JudgedQuestion> = serde_json::from_str(questions).unwrap();
    let (index, _folder) = judged_index();
    let of = |lang: Option<&str>| -> Vec<&JudgedQuestion> {
        questions.iter().filter(|question| lang.is_none_or(|lang| question.lang == lang)).collect()
    };
    for lang in [None, Some("en"), Some("zh")] {
        let JudgedCounts { asked, among_five, first, missed } = judge(&index, &of(lang));
        println!("{lang:?}: {asked} questions, {among_five} among the first five, {first} first");
        println!("  {}", missed.join("\n  "));
        assert!(asked >= 60);
        assert!(
            among_five * 10 >= asked * 9,
            "{lang:?}: {among_five} of {asked} among the first five: {missed:#?}"
        );
        assert!(first * 4 >= asked * 3, "{lang:?}: {first} of {asked} first");
    }
}

#[test]
fn questions_find_the_right_agent() {
    assert_found(include_str!("judged/questions.json"));
}

#[test]
fn questions_that_nothing_was_tuned_on_find_the_right_agent() {
    assert_found(include_str!("judged/held-out.json"));
}
