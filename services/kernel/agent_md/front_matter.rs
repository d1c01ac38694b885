//! The front matter: what an agent says about itself in fields.

use super::yaml;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy};
use std::ops::Range;

const DESCRIPTION_CHARS: usize = 100;
const VERSION_CHARS: usize = 32;
const AVATAR_CHARS: usize = 256;
const MOST_TAGS: usize = 16;
const TAG_CHARS: usize = 32;

/// Who is to find a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    /// Everybody, by a search.
    #[default]
    Public,
    /// Who knows its AID.
    Unlisted,
    /// Nobody, through the directory.
    Private,
}

#[derive(Debug, Deserialize)]
pub struct FrontMatter {
    pub aid: String,
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// As it is written, with or without quotes: `1.10` is not 1.1.
    #[serde(default)]
    pub version: Option<String>,
    #[serde(default)]
    pub visibility: Visibility,
    /// Names of skills, or mappings with names and descriptions: only their texts are of interest here.
    #[serde(default)]
    pub skills: Value,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub avatar: Option<String>,
    #[serde(default, deserialize_with = "texts")]
    pub tags: Vec<String>,
    #[serde(default)]
    pub exttype: Option<String>,
    #[serde(default)]
    pub owner: Option<String>,
    #[serde(default)]
    pub entity_cert_fingerprint: Option<String>,
}

/// Reads the front matter, and says where the Markdown behind it is.
pub(super) fn read(payload: &str) -> Result<(FrontMatter, Range<usize>), String> {
    let last_fence = last_fence(payload)?;
    // With its first fence, so that the lines in errors are those of the document.
    let yaml = &payload[..last_fence.start];
    yaml::check(yaml)?;

    let mut options = serde_saphyr::Options::default();
    options.duplicate_keys = DuplicateKeyPolicy::Error;
    options.merge_keys = MergeKeyPolicy::Error;
    // Otherwise `on` and `no` are not texts.
    options.strict_booleans = true;
    options.with_snippet = false;
    let front: FrontMatter = serde_saphyr::from_str_with_options(yaml, options).map_err(|error| {
        error.to_string().lines().next().unwrap_or("not YAML").chars().take(200).collect::<String>()
    })?;
    front.check()?;
    Ok((front, last_fence.end..payload.len()))
}

/// The line that ends the front matter: the first `---` behind the one that the document begins with.
fn last_fence(payload: &str) -> Result<Range<usize>, String> {
    let is_fence = |line: &str| {
        let line = line.strip_suffix('\n').unwrap_or(line);
        line.strip_suffix('\r').unwrap_or(line) == "---"
    };
    let mut lines = payload.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| is_fence(line)) else {
        return Err("the document must begin with a line ---".to_owned());
    };
    let mut start = first.len();
    for line in lines {
        if is_fence(line) {
            return Ok(start..start + line.len());
        }
        start += line.len();
    }
    Err("a line --- must end it".to_owned())
}

/// A list of texts. Elsewhere a number is read as its text, but a tag that is no text is a mistake.
fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let texts = match Value::deserialize(deserializer)? {
        Value::Null => return Ok(Vec::new()),
        Value::Array(items) => items.into_iter().map(|item| match item {
            Value::String(text) => Ok(text),
            other => Err(serde::de::Error::custom(format!("tags must be texts, and one is {other}"))),
        }),
        _ => return Err(serde::de::Error::custom("tags must be a list of texts")),
    };
    texts.collect()
}

impl FrontMatter {
    /// Whether a directory can list it: the protocol requires both of a document, older clients leave them out.
    pub fn is_complete(&self) -> bool {
        self.version.is_some() && self.description.as_ref().is_some_and(|text| !text.is_empty())
    }

    fn check(&self) -> Result<(), String> {
        let empty = |text: &str| text.trim().is_empty();
        let longer = |text: &str, most: usize| text.chars().count() > most;
        if empty(&self.name) {
            return Err("name must not be empty".into());
        }
        if empty(&self.kind) {
            return Err("type must not be empty".into());
        }
        if let Some(version) = self.version.as_ref().filter(|version| !is_version(version)) {
            let shown: String = version.chars().take(40).collect();
            return Err(format!(
                "version must have 1 to {VERSION_CHARS} characters of A-Z, a-z, 0-9, '.', '+', '_' and '-', and begin with one \
                 of A-Z, a-z, 0-9, such as 1.0.0: it is {shown:?}"
            ));
        }
        if self.description.as_ref().is_some_and(|text| empty(text) || longer(text, DESCRIPTION_CHARS)) {
            return Err(format!("description must have 1 to {DESCRIPTION_CHARS} characters"));
        }
        if self.avatar.as_ref().is_some_and(|text| longer(text, AVATAR_CHARS)) {
            return Err(format!("avatar must have at most {AVATAR_CHARS} characters"));
        }
        if self.tags.len() > MOST_TAGS {
            return Err(format!("tags must have at most {MOST_TAGS} entries, not {}", self.tags.len()));
        }
        if let Some(tag) = self.tags.iter().find(|tag| empty(tag) || longer(tag, TAG_CHARS)) {
            let shown: String = tag.chars().take(40).collect();
            return Err(format!(
                "each of the tags must have 1 to {TAG_CHARS} characters, and not be {shown:?}"
            ));
        }
        if matches!(self.kind.as_str(), "group" | "org")
            && (self.owner.is_none() || self.entity_cert_fingerprint.is_none())
        {
            return Err(format!("a {} must name its owner and its entity_cert_fingerprint", self.kind));
        }
        Ok(())
    }
}

/// As people write them: `1.0`, `v1.0.0`, `1.0.0-rc1`, `2026-11-01`.
fn is_version(text: &str) -> bool {
    (1..=VERSION_CHARS).contains(&text.len())
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".+_-".contains(&byte))
}

/// As in `1.0.0`.
pub(super) fn is_three_numbers(text: &str) -> bool {
    let numbers: Vec<&str> = text.split('.').collect();
    numbers.len() == 3 && numbers.iter().all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}
