//! `search.snapshot`: the whole directory as it was at one moment, page by page.

use super::cursor::{ChangeCursor, SnapshotCursor};
use super::store::pages::Reader;
use super::store::{ListedRow, SnapshotRow};
use super::{Error, SearchService, agent_md_url};
use kernel::{Caller, PageLimit, iso};
use proto_schemas::requests::search::{Snapshot, SnapshotItem, SnapshotPage};
use std::sync::Arc;

const PAGE: PageLimit = PageLimit::new(500, 1000);
const PREFIX: &str = "snap_";

impl SearchService {
    pub(super) async fn snapshot(
        self: Arc<Self>,
        caller: Caller,
        params: Snapshot,
    ) -> Result<SnapshotPage, Error> {
        self.enabled()?;
        let limit = PAGE.of(params.limit)?;
        let (wanted, after) = self.place(&params)?;
        let reader = self.reader(&caller).await?;

        let snapshot = self.find_snapshot(wanted.as_deref()).await?;
        let (rows, has_more) = self.store.snapshot_page(snapshot.cut, &after, limit, reader).await?;
        // Read again: while the page was read, the snapshot may have been replaced and its versions removed.
        self.find_snapshot(Some(&snapshot.version)).await?;

        let next_cursor = match rows.last() {
            Some(last) if has_more => {
                let cursor = SnapshotCursor { version: snapshot.version.clone(), last_aid: last.aid.clone() };
                Some(self.cursors.write(PREFIX, &cursor)?)
            }
            _ => None,
        };
        Ok(SnapshotPage {
            snapshot_version: snapshot.version,
            items: rows.into_iter().map(|row| item(row, reader)).collect(),
            next_cursor,
            has_more,
            change_cursor: ChangeCursor(snapshot.cut).to_string(),
        })
    }

    /// Which snapshot is read, and after which AID.
    fn place(&self, params: &Snapshot) -> Result<(Option<String>, String), Error> {
        let Some(cursor) = &params.cursor else { return Ok((params.version.clone(), String::new())) };
        let wrong = |sentence: &str| Error::Param(sentence.to_owned());
        let cursor: SnapshotCursor = self
            .cursors
            .read(PREFIX, cursor)
            .ok_or_else(|| wrong("cursor must be one that this method answered"))?;
        if params.version.as_ref().is_some_and(|version| *version != cursor.version) {
            return Err(wrong("cursor must be one of the snapshot that version names"));
        }
        Ok((Some(cursor.version), cursor.last_aid))
    }

    async fn find_snapshot(&self, version: Option<&str>) -> Result<SnapshotRow, Error> {
        // The first reader makes the first one.
        let newest = self.snapshot_versions().await?.into_iter().next().unwrap_or_default();
        let wanted = version.unwrap_or(&newest).to_owned();
        let found = self.store.snapshots().await?.into_iter().find(|row| row.version == wanted);
        found.ok_or_else(|| Error::Stale { version: wanted.chars().take(40).collect(), newest })
    }
}

fn item(row: ListedRow, reader: Reader) -> SnapshotItem {
    SnapshotItem {
        agent_md_url: agent_md_url(&row.aid),
        aid: row.aid,
        agent_md_sha256: row.sha256,
        source_ap: row.source_ap,
        updated_at: iso(row.updated_at),
        agent_md: row.content,
        signed: (reader == Reader::Directory).then_some(row.signed == 1),
    }
}
