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
    words: f64,
    signed: f64,
    freshness: f64,
    coverage: f64,
    units: Vec<ExplainedUnit>,
}

/// How a word of the question was found.
#[derive(Deserialize)]
struct ExplainedUnit {
    unit: String,
    documents: u64,
    score: f64,
    found: Vec<ExplainedMatch>,
}

#[derive(Deserialize)]
struct ExplainedMatch {
    text: String,
    word: Option<String>,
    by: String,
    strength: f64,
    occurrences: u32,
}

/// What the score is the sum of, and then a line for each word of the question. Parts that add nothing are left out of the sum.
pub(super) fn explained(explanation: &str) -> anyhow::Result<(String, Vec<String>)> {
    let parts: ScoreParts =
        serde_json::from_str(explanation).context("the server's explanation has an unexpected form")?;
    let words = format!("words (covering {:.0} %)", parts.coverage * 100.0);
    let sum = [
        ("AID", parts.exact_aid),
        ("name", parts.name_equals),
        ("its beginning", parts.name_prefix),
        (&words, parts.words),
        ("signed", parts.signed),
        ("fresh", parts.freshness),
    ];
    let sum: Vec<String> = sum
        .into_iter()
        .filter(|(_, score)| *score != 0.0)
        .map(|(what, score)| format!("{what} {}", short(score)))
        .collect();
    let sum = if sum.is_empty() { "0".to_owned() } else { sum.join(" + ") };
    Ok((sum, parts.units.iter().map(unit).collect()))
}

/// `slides 40.44: ~ presentation 0.6 in name, body 2x; 3 agents have it`.
fn unit(unit: &ExplainedUnit) -> String {
    let word = printable_line(&unit.unit);
    if unit.found.is_empty() {
        return format!("{word}: not found");
    }
    let mut ways: Vec<(String, Vec<String>)> = Vec::new();
    for found in &unit.found {
        let (way, place) = (way(found), place(found));
        match ways.iter_mut().find(|(known, _)| *known == way) {
            Some((_, places)) => places.push(place),
            None => ways.push((way, vec![place])),
        }
    }
    let ways: Vec<String> =
        ways.into_iter().map(|(way, places)| format!("{way} in {}", places.join(", "))).collect();
    let who =
        if unit.documents == 1 { "1 agent has it" } else { &format!("{} agents have it", unit.documents) };
    format!("{word} {}: {}; {who}", short(unit.score), ways.join(", "))
}

/// How it was found, and how strongly.
fn way(found: &ExplainedMatch) -> String {
    let by = match (&found.word, found.by.as_str()) {
        (Some(word), "synonym") => format!("~ {}", printable_line(word)),
        (Some(word), by) => format!("{by} {}", printable_line(word)),
        (None, by) => by.to_owned(),
    };
    format!("{} {}", by, short(found.strength))
}

fn place(found: &ExplainedMatch) -> String {
    let text = printable_line(&found.text);
    if found.occurrences == 1 { text } else { format!("{text} {}x", found.occurrences) }
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
        let (sum, units) = explained(&explanation.unwrap()).unwrap();
        assert_eq!(sum, "name 120 + its beginning 60 + words (covering 100 %) 40.44 + signed 2 + fresh 0.4");
        assert_eq!(units, ["reviewer 40.44: written 1 in name, body; 3 agents have it"]);
    }

    #[test]
    fn a_word_is_shown_with_how_it_was_found() {
        let found = |text: &str, word: Option<&str>, by: &str, strength| ExplainedMatch {
            text: text.to_owned(),
            word: word.map(str::to_owned),
            by: by.to_owned(),
            strength,
            occurrences: if text == "body" { 2 } else { 1 },
        };
        let score = |found| ExplainedUnit { unit: "slides".to_owned(), documents: 1, score: 3.0, found };
        assert_eq!(
            unit(&score(vec![
                found("name", Some("presentation"), "synonym", 0.6),
                found("tags", None, "written", 1.0),
                found("body", Some("presentation"), "synonym", 0.6),
                found("type", Some("slide"), "stem", 0.9),
            ])),
            "slides 3: ~ presentation 0.6 in name, body 2x, written 1 in tags, stem slide 0.9 in type; 1 agent has it"
        );
        assert_eq!(unit(&score(Vec::new())), "slides: not found");
    }

    #[test]
    fn numbers_are_as_short_as_they_can_be() {
        assert_eq!([1000.0, 0.5, 40.4409, 0.001].map(short), ["1000", "0.5", "40.44", "0"]);
        assert!(explained("{}").is_err());
    }
}
