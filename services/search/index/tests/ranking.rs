//! Answers are those of the ranking without an index.

use super::*;
use testing::cases;

fn assert_equal(index: &TextIndex, brute_force: &BruteForce, query: &IndexQuery, limit: usize) {
    let hits = all_pages(index, query, limit);
    let expected = brute_force.query(query);
    let found: Vec<_> = hits.iter().map(|hit| exactly(&hit.rank)).collect();
    assert_eq!(found, expected.iter().map(exactly).collect::<Vec<_>>(), "{query:?}");
    for hit in hits {
        let document = brute_force.documents().find(|document| document.aid == hit.rank.aid).unwrap();
        let (name, kind, description) = (&document.name, &document.kind, &document.description);
        assert_eq!((&hit.name, &hit.kind, &hit.description), (name, kind, description));
        assert_eq!(
            (&hit.tags, hit.signed, &hit.source_ap),
            (&document.tags, document.signed, &document.source_ap)
        );
        if let Some(explanation) = hit.explanation {
            let words = explanation.tokens.iter().map(|token| token.score);
            let parts = [explanation.exact_aid, explanation.name_equals, explanation.name_prefix];
            let parts = parts.into_iter().chain(words).chain([explanation.signed, explanation.freshness]);
            assert_eq!(parts.fold(0.0, |sum, part| sum + part).to_bits(), hit.rank.score.to_bits());
        }
    }
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn pages_are_those_of_brute_force(
        batches in batches(),
        questions in prop::collection::vec((question(), 1..6_usize), 1..12),
    ) {
        let ((index, _folder), mut brute_force) = (index(), BruteForce::default());
        for (number, batch) in batches.iter().enumerate() {
            index.apply(batch.clone(), number as i64 + 1).unwrap();
            brute_force.apply(batch.clone());
            prop_assert_eq!(index.documents(), brute_force.documents().count() as u64);
            for (query, limit) in &questions {
                assert_equal(&index, &brute_force, query, *limit);
            }
        }
    }

    #[test]
    fn the_same_log_in_other_batches_gives_the_same_answers(
        batches in batches(),
        size in 1..9_usize,
        questions in prop::collection::vec(question(), 1..8),
    ) {
        let ((first, _first), (second, _second)) = (index(), index());
        for batch in &batches {
            first.apply(batch.clone(), 1).unwrap();
        }
        for batch in batches.concat().chunks(size) {
            second.apply(batch.to_vec(), 1).unwrap();
        }
        for query in &questions {
            let (first, second) = (all_pages(&first, query, 3), all_pages(&second, query, 50));
            let exact = |hits: &[super::super::Hit]| -> Vec<_> {
                hits.iter().map(|hit| (hit.rank.clone(), hit.explanation.clone())).collect()
            };
            prop_assert_eq!(exact(&first), exact(&second));
        }
    }
}

/// Enough documents for posting lists of several blocks and for merges, with deleted ones everywhere.
#[test]
fn many_documents_are_ranked_as_by_brute_force() {
    let ((index, _folder), mut brute_force) = (index(), BruteForce::default());
    let mut state = 7_u64;
    let mut below = |most: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    let vocabulary: Vec<String> = (0..40).map(|number| format!("w{number}")).collect();
    for batch in 0..12 {
        let mut changes = Vec::new();
        for _ in 0..250 {
            let aid = format!("agent{:04}.a.example", below(1500));
            if below(6) == 0 {
                changes.push(IndexChange::Delete(aid));
                continue;
            }
            let mut words = |count: u64| -> Vec<String> {
                // The product of two numbers is often small: some words are in most documents.
                (0..count).map(|_| vocabulary[(below(41) * below(41) / 41) as usize].clone()).collect()
            };
            let (name, description, tags) = (words(2).join(" "), words(6).join(" "), words(3));
            let (skills, body) = (words(4).join(" "), words(40).join(" "));
            let mut tags = tags;
            tags.sort();
            tags.dedup();
            changes.push(IndexChange::Upsert(Box::new(IndexedDocument {
                aid,
                name,
                description,
                tags,
                skills,
                body,
                signed: below(2) == 0,
                updated_at: NOW - (below(40) as i64) * DAY,
                ..IndexedDocument::default()
            })));
        }
        brute_force.apply(changes.clone());
        index.apply(changes, batch).unwrap();
    }
    for q in
        ["w0", "w3 w1", "w1 w2 w39", "w0 w1 w2 w3 w4", "w38", "w", "w1 w1 zzz", "agent0007.a.example", ""]
    {
        for tags in [vec![], vec!["w0".to_owned()], vec!["w1".to_owned(), "W2".to_owned()]] {
            for limit in [7, 50] {
                assert_equal(&index, &brute_force, &IndexQuery { tags: tags.clone(), ..plain(q) }, limit);
            }
        }
    }
}

#[test]
fn an_answer_has_three_of_five_words_or_the_aid() {
    let (index, _folder) = index();
    let texts = ["one", "one two", "one two three", "one two three four"];
    let changes = texts.iter().enumerate().map(|(n, body)| upsert(&format!("d{n}.a.example"), "n", body));
    index.apply(changes.collect(), 1).unwrap();
    let count = |q: &str| aids(&index, &plain(q)).len();
    assert_eq!(count("one"), 4);
    assert_eq!(count("one two"), 3, "both of two");
    assert_eq!(count("one two three"), 3, "two of three");
    assert_eq!(count("one two three four"), 2, "three of four");
    assert_eq!(count("one two three four five"), 2, "three of five");
    assert_eq!(count("nothing"), 0);
    assert_eq!(count("?!"), 0, "words are asked for, and there are none");
    assert_eq!(count(""), 4, "everything is asked for");
    assert_eq!(aids(&index, &plain("D2.A.example")), ["d2.a.example"], "no text has these words");
}

#[test]
fn a_name_that_is_asked_for_comes_first_and_an_aid_before_it() {
    let (index, _folder) = index();
    let body = "reviewer reviewer reviewer";
    let changes = vec![
        upsert("x.a.example", "Other", body),
        upsert("y.a.example", "Reviewer of code", ""),
        upsert("z.a.example", "REVIEWER", ""),
        upsert("reviewer", "n", ""),
    ];
    index.apply(changes, 1).unwrap();
    let order = ["reviewer", "z.a.example", "y.a.example", "x.a.example"];
    assert_eq!(aids(&index, &plain("reviewer")), order);
    assert_eq!(aids(&index, &plain(" reviewer  OF")), ["y.a.example"], "both words are needed");
}

#[test]
fn the_longest_question_is_answered() {
    let (index, _folder) = index();
    let words: Vec<String> = (0..120).map(|number| format!("w{number}")).collect();
    index.apply(vec![upsert("x.a.example", "n", &words.join(" "))], 1).unwrap();
    assert_eq!(aids(&index, &plain(&words.join(" "))), ["x.a.example"]);
    assert_eq!(aids(&index, &plain(&words[..33].join("-"))), ["x.a.example"]);
}
