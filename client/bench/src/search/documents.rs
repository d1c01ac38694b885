//! The documents: `agent.md` files that are the same in every run.

use std::fmt::Write as _;

use super::super::random::SplitMix64;
use super::BenchDocument;
use super::vocabulary::Vocabulary;

/// The time of the run in the process of the bench: documents are up to two months older.
pub(super) const NOW_MS: i64 = 1_794_700_000_000;

const DAY_MS: usize = 86_400_000;
const KINDS: [&str; 4] = ["assistant", "codeagent", "human", "avatar"];

/// "`description` 1…100 chars".
const DESCRIPTION_BYTES: usize = 100;

/// `count` documents of agents that the bench does not register.
pub(super) fn documents(count: usize, issuer: &str) -> Vec<BenchDocument> {
    let vocabulary = Vocabulary::new();
    let aid = |number: usize| format!("agent-{number:06}.{issuer}");
    (0..count).map(|number| document(&vocabulary, number, aid(number))).collect()
}

/// The document of one agent.
pub(super) fn document(vocabulary: &Vocabulary, number: usize, aid: String) -> BenchDocument {
    let mut random = SplitMix64::new(number as u64);
    let updated_at = NOW_MS - random.below(60 * DAY_MS) as i64;
    let signed = random.below(2) == 0;
    BenchDocument { content: agent_md(vocabulary, &mut random, &aid), aid, signed, updated_at }
}

fn agent_md(vocabulary: &Vocabulary, random: &mut SplitMix64, aid: &str) -> String {
    let is_chinese = random.below(8) == 0;
    let topic = vocabulary.topic(random).to_owned();
    let words = 1 + random.below(2);
    let name = match is_chinese {
        true => Vocabulary::chinese(random, 1),
        false => format!("{} {topic}", capitalised(&vocabulary.words(random, words))),
    };
    let words = 5 + random.below(7);
    let mut description = match is_chinese {
        true => Vocabulary::chinese(random, 3),
        false => format!("{topic} {}", vocabulary.words(random, words)),
    };
    // Only plain words are ever too long.
    if description.is_ascii() {
        description.truncate(DESCRIPTION_BYTES);
    }
    let kind = KINDS[random.below(KINDS.len())];
    let mut text = format!("---\naid: \"{aid}\"\nname: \"{name}\"\ntype: {kind}\nversion: \"1.0.0\"\n");
    let _ = write!(text, "description: \"{description}\"\ntags: [\"{topic}\"");
    for _ in 0..random.below(5) {
        let _ = write!(text, ", \"{}\"", vocabulary.topic(random));
    }
    text.push_str("]\nskills:\n");
    for _ in 0..1 + random.below(3) {
        let (skill, words) = (vocabulary.words(random, 2), 3 + random.below(4));
        let _ =
            write!(text, "  - name: \"{skill}\"\n    description: \"{}\"\n", vocabulary.words(random, words));
    }
    let _ = write!(text, "---\n\n# {name}\n");
    for paragraph in 0..1 + random.below(4) {
        let words = 8 + random.below(32);
        let _ = write!(text, "\n{}.\n", capitalised(&vocabulary.words(random, words)));
        if is_chinese {
            let _ = write!(
                text,
                "\n- {}，{}。\n",
                Vocabulary::chinese(random, 2),
                Vocabulary::chinese(random, 3)
            );
        } else if paragraph == 1 {
            let _ = write!(text, "\n- **{topic}**\n- {}\n", vocabulary.words(random, 4));
        }
    }
    text
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_the_same_in_every_run_and_as_long_as_real_ones() {
        let (first, second) = (documents(300, "a.example"), documents(300, "a.example"));
        assert!(first.iter().zip(&second).all(|(a, b)| a.content == b.content));
        let bytes: Vec<usize> = first.iter().map(|document| document.content.len()).collect();
        let mean = bytes.iter().sum::<usize>() / bytes.len();
        assert!((300..1500).contains(&mean), "{mean}");
        assert!(bytes.iter().all(|bytes| (250..2500).contains(bytes)), "{:?}", bytes.iter().max());
        assert!(first.iter().any(|document| !document.content.is_ascii()));
    }
}
