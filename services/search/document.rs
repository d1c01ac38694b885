//! An agent's document as the directory sees it.

use super::index::IndexedDocument;
use super::index::plain_text::{markdown_text, skills_text};
use super::index::words::normalised;
use kernel::agent_md::{AgentMd, Visibility};
use kernel::{Aid, sha256_hex};

/// A document that may be in the directory.
#[derive(Clone, Debug)]
pub(super) struct DirectoryDocument {
    pub aid: Aid,
    pub content: String,
    pub sha256: String,
    pub signed: bool,
    /// Milliseconds since 1970.
    pub updated_at: i64,
    /// Whether it is found by a search, and not only by its AID.
    pub listed: bool,
    /// Of the agent's capability manifest, where the agent is ours and has one.
    pub manifest: Option<ManifestFacts>,
}

/// What the directory knows of a capability manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ManifestFacts {
    pub version: i64,
    pub hash: String,
    /// The names of its tools and the ids of its scopes.
    pub words: String,
}

impl DirectoryDocument {
    /// None if the directory may not have it: it is private, or cannot be read.
    pub fn of(aid: &Aid, content: String, signed: bool, updated_at: i64) -> Option<DirectoryDocument> {
        let document = AgentMd::parse(&content).ok()?;
        if !document.front.aid.trim().eq_ignore_ascii_case(aid.as_str()) {
            return None;
        }
        let listed = match document.front.visibility {
            Visibility::Private => return None,
            Visibility::Unlisted => false,
            Visibility::Public => document.front.is_complete(),
        };
        let sha256 = sha256_hex(&content);
        Some(DirectoryDocument {
            aid: aid.clone(),
            content,
            sha256,
            signed,
            updated_at,
            listed,
            manifest: None,
        })
    }
}

/// What a stored document has for the index.
pub(super) struct StoredDocument<'a> {
    pub aid: &'a str,
    pub content: &'a str,
    pub source_ap: &'a str,
    pub signed: bool,
    pub updated_at: i64,
    /// The words of the agent's manifest; empty where it has none.
    pub manifest_words: &'a str,
}

impl StoredDocument<'_> {
    pub fn indexed(&self) -> Option<IndexedDocument> {
        let document = AgentMd::parse(self.content).ok()?;
        let mut tags: Vec<String> = document.front.tags.iter().map(|tag| normalised(tag)).collect();
        tags.sort();
        tags.dedup();
        let issuer = self.aid.split_once('.').map_or("", |(_, issuer)| issuer);
        Some(IndexedDocument {
            aid: self.aid.to_owned(),
            name: document.front.name,
            kind: document.front.kind,
            description: document.front.description.unwrap_or_default(),
            tags,
            // What an agent declares is what it can do.
            skills: format!("{} {}", skills_text(&document.front.skills), self.manifest_words),
            body: markdown_text(&self.content[document.body]),
            signed: self.signed,
            updated_at: self.updated_at,
            source_ap: self.source_ap.to_owned(),
            issuer: issuer.to_owned(),
        })
    }
}
