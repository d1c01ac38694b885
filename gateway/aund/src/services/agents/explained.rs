//! The parts of a score, for a person.

use crate::show::printable_line;
use anyhow::Context as _;
use serde::Deserialize;

/// As `search.query` lists them.
#[derive(Deserialize)]
struct ScoreParts {
    exact_aid: f64,
    name_equals: f64,
    name_prefix: f64,
    tokens: Vec<WordScore>,
    signed: f64,
    freshness: f64,
}

/// How often a word is in each text of the document, and what that adds.
#[derive(Deserialize)]
struct WordScore {
    token: String,
    documents: u64,
    name: u32,
    tags: u32,
    skills: u32,
    description: u32,
    body: u32,
    score: f64,
}

/// What the score is the sum of; parts that add nothing are left out.
pub(super) fn explained(explanation: &str) -> anyhow::Result<Vec<String>> {
    let parts: ScoreParts =
        serde_json::from_str(explanation).context("the server's explanation is not understood")?;
    let before =
        [("AID", parts.exact_aid), ("name", parts.name_equals), ("its beginning", parts.name_prefix)];
    let after = [("signed", parts.signed), ("fresh", parts.freshness)];
    let shown = |(what, score): (&str, f64)| (score != 0.0).then(|| format!("{what} {}", short(score)));
    let words = parts.tokens.iter().filter(|word| word.score != 0.0).map(word);
    let all: Vec<String> = before
        .into_iter()
        .filter_map(shown)
        .chain(words)
        .chain(after.into_iter().filter_map(shown))
        .collect();
    Ok(if all.is_empty() { vec!["0".to_owned()] } else { all })
}

/// `reviewer 40.44 (in name, text 2x; 3 agents have it)`.
fn word(word: &WordScore) -> String {
    let counts = [
        ("name", word.name),
        ("tags", word.tags),
        ("skills", word.skills),
        ("description", word.description),
        ("text", word.body),
    ];
    let places = counts.into_iter().filter(|(_, count)| *count > 0);
    let places: Vec<String> = places
        .map(|(place, count)| if count == 1 { place.to_owned() } else { format!("{place} {count}x") })
        .collect();
    let who =
        if word.documents == 1 { "1 agent has it" } else { &format!("{} agents have it", word.documents) };
    format!("{} {} (in {}; {who})", printable_line(&word.token), short(word.score), places.join(", "))
}

/// Two digits, without those that say nothing.
fn short(score: f64) -> String {
    let text = format!("{score:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_schemas::find;

    #[test]
    fn the_example_of_the_schema_is_understood() {
        let examples = find("search.query").unwrap().doc()["examples"].as_array().unwrap();
        let explanation = examples.iter().find_map(|example| {
            let item = example["result"]["items"].get(0)?;
            Some(item.get("explanation")?.to_string())
        });
        assert_eq!(
            explained(&explanation.unwrap()).unwrap(),
            [
                "name 120",
                "its beginning 60",
                "reviewer 40.44 (in name, text; 3 agents have it)",
                "signed 2",
                "fresh 0.4"
            ]
        );
    }

    #[test]
    fn numbers_are_as_short_as_they_can_be() {
        assert_eq!([1000.0, 0.5, 40.4409, 0.001].map(short), ["1000", "0.5", "40.44", "0"]);
        assert!(explained("{}").is_err());
    }
}
