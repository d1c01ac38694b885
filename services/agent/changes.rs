//! `agent.changes`: what changed after a position. Who begins at 0 sees every document there is.

use super::store::ChangeRow;
use super::{AgentService, Error};
use kernel::{Caller, PageLimit};
use proto_schemas::requests::agent::{ChangedAgent, ChangedAgents, Changes};
use std::sync::Arc;

const PAGE: PageLimit = PageLimit::new(200, 1000);
/// What the documents of a page may have together, as JSON: they go from one process to another in one frame.
const PAGE_BYTES: usize = 1 << 20;

impl AgentService {
    pub(super) async fn changes(self: Arc<Self>, _: Caller, params: Changes) -> Result<ChangedAgents, Error> {
        let Changes { after, limit } = params;
        let (0.., Ok(limit)) = (after, PAGE.of(limit)) else {
            return Err(Error::Bad("after must not be negative, and limit must be at least 1"));
        };

        // The head first, and no change beyond it: who has read up to it has missed nothing that has a position up to it.
        // A document that changes in between has moved behind the head, and is read later.
        let head = self.store.head().await?;
        let mut rows = self.store.changes(after, head, limit + 1).await?;
        let fitting = fitting(&rows).min(usize::try_from(limit).unwrap_or(usize::MAX));
        let has_more = rows.len() > fitting;
        rows.truncate(fitting);
        Ok(ChangedAgents { head, has_more, changes: rows.into_iter().map(changed).collect() })
    }
}

/// How many of the first changes are one page; at least one.
fn fitting(rows: &[ChangeRow]) -> usize {
    let mut bytes = 0;
    let fits = |row: &&ChangeRow| {
        bytes += [&row.content, &row.manifest_facts]
            .into_iter()
            .flatten()
            .map(|text| json_length(text))
            .sum::<usize>();
        bytes <= PAGE_BYTES
    };
    rows.iter().take_while(fits).count().max(1)
}

/// An upper bound of what a text takes as JSON.
fn json_length(text: &str) -> usize {
    let length = |byte: u8| match byte {
        0..=0x1f => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    };
    text.bytes().map(length).sum()
}

fn changed(row: ChangeRow) -> ChangedAgent {
    ChangedAgent {
        position: row.position,
        aid: row.aid,
        op: row.op,
        updated_at: row.updated_at,
        content: row.content,
        signed: row.signed.map(|signed| signed != 0),
        manifest_version: row.manifest_version,
        manifest_hash: row.manifest_hash,
        manifest_facts: row.manifest_facts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_cut_where_its_documents_fill_a_frame_and_never_to_nothing() {
        let row = |content: &str| ChangeRow { content: Some(content.to_owned()), ..ChangeRow::default() };
        let quarter = "x".repeat(PAGE_BYTES / 4);
        assert_eq!(fitting(&vec![row(&quarter); 9]), 4);
        assert_eq!(fitting(&vec![row(&"\u{1}".repeat(PAGE_BYTES / 12)); 9]), 2, "as JSON they are larger");
        assert_eq!(fitting(&[row(&"\n".repeat(PAGE_BYTES)), row("")]), 1);
        assert_eq!(fitting(&vec![ChangeRow::default(); 9]), 9);
        for text in ["plain", "\"\\\n\u{1}\u{7f}ü你"] {
            assert!(serde_json::to_string(text).unwrap().len() <= json_length(text) + 2, "{text}");
        }
    }
}
