//! What is accepted from the directory of a peer: its own agents, with the documents that their hashes name.

use crate::ap_id;
use crate::document::DirectoryDocument;
use kernel::{Aid, from_iso, sha256_hex};
use proto_schemas::requests::search::{LoggedChange, SnapshotItem};

/// An entry of another directory, from its snapshot or its log.
pub(super) struct OfferedDocument {
    pub aid: String,
    pub source_ap: String,
    pub sha256: Option<String>,
    pub content: Option<String>,
    pub signed: bool,
    pub updated_at: String,
}

impl From<SnapshotItem> for OfferedDocument {
    fn from(item: SnapshotItem) -> OfferedDocument {
        OfferedDocument {
            aid: item.aid,
            source_ap: item.source_ap,
            sha256: Some(item.agent_md_sha256),
            content: item.agent_md,
            signed: item.signed.unwrap_or(false),
            updated_at: item.updated_at,
        }
    }
}

impl OfferedDocument {
    /// A log entry need not name its directory: it is that of the peer then.
    pub fn of_change(change: LoggedChange, issuer: &str) -> OfferedDocument {
        OfferedDocument {
            aid: change.aid,
            source_ap: change.source_ap.unwrap_or_else(|| ap_id(issuer)),
            sha256: change.agent_md_sha256,
            content: change.agent_md,
            signed: change.signed.unwrap_or(false),
            updated_at: change.updated_at,
        }
    }

    /// The agent it is about, if the peer may speak of it: a directory is believed for the agents of its own domain only.
    pub fn agent(&self, issuer: &str) -> Result<Aid, String> {
        let aid = Aid::parse(&self.aid).map_err(|error| error.to_string())?;
        if aid.issuer() != issuer {
            return Err(format!("{aid} is not an agent of {issuer}"));
        }
        if self.source_ap != ap_id(issuer) {
            return Err(format!("{aid} comes from another directory, {:.80?}", self.source_ap));
        }
        Ok(aid)
    }

    /// The document, if it is what its hash says and can be read. None if the directory may not have it.
    pub fn document(self, aid: &Aid, now: i64) -> Result<Option<DirectoryDocument>, String> {
        let Some(content) = self.content else { return Err(format!("{aid} comes without its document")) };
        if self.sha256.is_some_and(|expected| !expected.eq_ignore_ascii_case(&sha256_hex(&content))) {
            return Err(format!("the hash of the document of {aid} does not match"));
        }
        let updated_at = from_iso(&self.updated_at).unwrap_or(now).clamp(0, now);
        let document = DirectoryDocument::of(aid, content, self.signed, updated_at);
        Ok(document.filter(|document| document.listed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: &str = "---\naid: alice.b.example\nname: Alice\ntype: agent\nversion: 1.0.0\ndescription: Helps\n---\n# Alice\n";

    fn offered() -> OfferedDocument {
        OfferedDocument {
            aid: "alice.b.example".to_owned(),
            source_ap: "search.b.example".to_owned(),
            sha256: Some(sha256_hex(CONTENT)),
            content: Some(CONTENT.to_owned()),
            signed: true,
            updated_at: "2026-03-21T07:55:00Z".to_owned(),
        }
    }

    #[test]
    fn a_directory_is_believed_for_its_own_agents_only() {
        assert_eq!(offered().agent("b.example").unwrap().as_str(), "alice.b.example");
        assert!(offered().agent("c.example").is_err());
        assert!(OfferedDocument { aid: "alice.c.example".into(), ..offered() }.agent("b.example").is_err());
        assert!(
            OfferedDocument { source_ap: "search.c.example".into(), ..offered() }.agent("b.example").is_err()
        );
        assert!(OfferedDocument { aid: "no aid".into(), ..offered() }.agent("b.example").is_err());
    }

    #[test]
    fn a_document_is_what_its_hash_says() {
        let aid = offered().agent("b.example").unwrap();
        let (now, later) = (1_800_000_000_000, "2099-01-01T00:00:00Z".to_owned());
        let document = offered().document(&aid, now).unwrap().unwrap();
        assert_eq!((document.listed, document.signed, document.updated_at), (true, true, 1_774_079_700_000));
        let future = OfferedDocument { updated_at: later, ..offered() }.document(&aid, now).unwrap().unwrap();
        assert_eq!(future.updated_at, now);
        assert!(OfferedDocument { sha256: Some("00".repeat(32)), ..offered() }.document(&aid, now).is_err());
        assert!(OfferedDocument { content: None, ..offered() }.document(&aid, now).is_err());
        let unlisted = CONTENT.replace("version", "visibility: unlisted\nversion");
        let unlisted = OfferedDocument { sha256: None, content: Some(unlisted), ..offered() };
        assert!(unlisted.document(&aid, now).unwrap().is_none());
    }
}
