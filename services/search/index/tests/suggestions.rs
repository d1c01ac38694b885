//! Suggestions are those that a look at every document gives.

use super::super::words::normalised;
use super::*;
use std::collections::BTreeMap;
use testing::cases;

fn naive_agents(brute_force: &BruteForce, prefix: &str, hidden: &HashSet<String>) -> Vec<String> {
    let shown = || brute_force.documents().filter(|document| !hidden.contains(&document.source_ap));
    let by_aid = shown().filter(|document| document.aid.starts_with(prefix));
    let mut by_name: Vec<(String, &str)> = shown()
        .filter(|document| !document.aid.starts_with(prefix))
        .map(|document| (normalised(&document.name), document.aid.as_str()))
        .filter(|(name, _)| name.starts_with(prefix))
        .collect();
    by_name.sort();
    let by_aid = by_aid.map(|document| document.aid.as_str());
    by_aid.chain(by_name.into_iter().map(|(_, aid)| aid)).map(str::to_owned).collect()
}

fn naive_tags(brute_force: &BruteForce, prefix: &str, hidden: &HashSet<String>) -> Vec<(String, u64)> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let shown = brute_force.documents().filter(|document| !hidden.contains(&document.source_ap));
    for tag in shown.flat_map(|document| &document.tags).filter(|tag| tag.starts_with(prefix)) {
        *counts.entry(tag).or_default() += 1;
    }
    let mut tags: Vec<(String, u64)> = counts.into_iter().map(|(tag, n)| (tag.to_owned(), n)).collect();
    tags.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    tags
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn suggestions_are_those_of_all_documents(
        batches in batches(),
        prefixes in prop::collection::vec(
            select(&["", "c", "CO", "code", "coder.a.example", "x", "a", "代码", "z", " rust"]), 1..5),
        hidden in hidden(),
        limit in 0..8_usize,
    ) {
        let (index, _folder) = index();
        for batch in &batches {
            index.apply(batch.clone(), 1).unwrap();
        }
        let brute_force = brute_force(&batches);
        for prefix in prefixes {
            let folded = normalised(prefix);
            let mut agents = naive_agents(&brute_force, &folded, &hidden);
            agents.truncate(limit);
            prop_assert_eq!(index.suggest_agents(prefix, &hidden, limit).unwrap(), agents);
            let mut tags = naive_tags(&brute_force, &folded, &hidden);
            tags.truncate(limit);
            prop_assert_eq!(index.suggest_tags(prefix, &hidden, limit).unwrap(), tags);
        }
    }
}
