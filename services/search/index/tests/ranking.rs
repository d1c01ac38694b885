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
            let parts = [explanation.exact_aid, explanation.name_equals, explanation.name_prefix];
            let parts =
                parts.into_iter().chain([explanation.words, explanation.signed, explanation.freshness]);
            let units: f64 = explanation.units.iter().fold(0.0, |sum, unit| sum + unit.score);
            let coverage = explanation.coverage;
            assert_eq!((coverage * coverage * units).to_bits(), explanation.words.to_bits());
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

/// They made the words that were found worth less than a signature.
#[test]
fn words_that_nobody_has_do_not_let_a_signature_decide() {
    let (index, _folder) = index();
    let translator = IndexedDocument {
        name: "Translator".to_owned(),
        aid: "translator.a.example".to_owned(),
        description: "I translate".to_owned(),
        tags: vec!["translate".to_owned()],
        ..IndexedDocument::default()
    };
    let signed = IndexedDocument {
        name: "Baker".to_owned(),
        aid: "baker.a.example".to_owned(),
        body: "I bake, and translate recipes".to_owned(),
        signed: true,
        updated_at: NOW,
        ..IndexedDocument::default()
    };
    let mut changes: Vec<IndexChange> =
        [translator, signed].into_iter().map(|document| IndexChange::Upsert(Box::new(document))).collect();
    changes.extend((0..8).map(|n| upsert(&format!("d{n}.a.example"), "Other", "something else")));
    index.apply(changes, 1).unwrap();
    let found = aids(&index, &plain("translate the zoning bylaws of Utrecht"));
    assert_eq!(found, ["translator.a.example", "baker.a.example"]);
}

#[test]
fn an_answer_has_one_word_or_the_aid_and_more_words_rank_higher() {
    let (index, _folder) = index();
    let texts = ["red", "red green", "red green blue", "red green blue gray"];
    let changes = texts.iter().enumerate().map(|(n, body)| upsert(&format!("d{n}.a.example"), "n", body));
    index.apply(changes.collect(), 1).unwrap();
    let found = |q: &str| aids(&index, &plain(q));
    assert_eq!(found("red").len(), 4);
    assert_eq!(found("gray").len(), 1);
    assert_eq!(found("red green blue gray")[..2], ["d3.a.example", "d2.a.example"]);
    assert_eq!(found("zzz").len(), 0);
    assert_eq!(found("?!").len(), 0, "words are asked for, and there are none");
    assert_eq!(found("").len(), 4, "everything is asked for");
    assert_eq!(found("D2.A.example")[0], "d2.a.example");
}

#[test]
fn answers_below_a_tenth_of_the_best_are_left_out_unless_fewer_than_three_remain() {
    let (index, _folder) = index();
    let weak = (0..5).map(|n| upsert(&format!("weak{n}.a.example"), "n", "violet"));
    let strong =
        |n: usize| upsert(&format!("strong{n}.a.example"), "violet paint violet paint", "violet paint");
    index.apply(weak.chain([strong(0)]).collect(), 1).unwrap();
    let count = |limit: usize| all_pages(&index, &plain("violet paint"), limit).len();
    // The five weak ones are equal: where one of them is needed, all are shown.
    assert_eq!((count(1), count(50)), (6, 6));
    index.apply(vec![strong(1), strong(2)], 2).unwrap();
    assert_eq!((count(1), count(2), count(50)), (3, 3, 3));
    assert_eq!(all_pages(&index, &IndexQuery { tags: Vec::new(), ..plain("") }, 3).len(), 8);
}

#[test]
fn a_word_is_found_by_its_stem_a_synonym_a_similar_spelling_and_its_parts() {
    let (index, _folder) = index();
    let changes = vec![
        upsert("slides.a.example", "Deck maker", "makes presentations"),
        upsert("law.a.example", "合同助手", "审查劳动合同"),
        upsert("mail.a.example", "Mailer", "writes e-mail"),
        upsert("paint.a.example", "Painter", "watercolour"),
    ];
    index.apply(changes, 1).unwrap();
    let how = |q: &str| {
        let hits = index.query(&IndexQuery { explain: true, ..plain(q) }, None, 1).unwrap().hits;
        let found = &hits[0].explanation.as_ref().unwrap().units[0].found;
        let strongest = found.iter().max_by(|a, b| a.strength.total_cmp(&b.strength)).unwrap();
        (hits[0].rank.aid.clone(), strongest.by, strongest.strength)
    };
    let expected = |aid: &str, by, strength| (format!("{aid}.a.example"), by, strength);
    assert_eq!(how("presentations"), expected("slides", "written", 1.0));
    assert_eq!(how("presentation"), expected("slides", "stem", 0.9));
    assert_eq!(how("ppt"), expected("slides", "synonym", 0.6));
    assert_eq!(how("幻灯片"), expected("slides", "synonym", 0.4));
    assert_eq!(how("email"), expected("mail", "written", 1.0));
    assert_eq!(how("wotercolour"), expected("paint", "spelling", 0.5));
    assert_eq!(how("watrecolour"), expected("paint", "spelling", 0.5));
    assert_eq!(how("water"), expected("paint", "spelling", 0.5));
    assert_eq!(how("勞動"), expected("law", "written", 1.0));
    assert_eq!(how("合"), expected("law", "characters", 0.2));
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
    let order = ["reviewer", "z.a.example", "y.a.example"];
    assert_eq!(aids(&index, &plain("reviewer")), order, "the fourth has less than a tenth of an AID");
    assert_eq!(aids(&index, &plain(" reviewer  OF"))[0], "y.a.example", "its name begins with it");
}

#[test]
fn the_longest_question_is_answered() {
    let (index, _folder) = index();
    let words: Vec<String> = (0..120).map(|number| format!("w{number}")).collect();
    index.apply(vec![upsert("x.a.example", "n", &words.join(" "))], 1).unwrap();
    assert_eq!(aids(&index, &plain(&words.join(" "))), ["x.a.example"]);
    assert_eq!(aids(&index, &plain(&words[..33].join("-"))), ["x.a.example"]);
}
