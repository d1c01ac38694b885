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

        let snapshot = match &wanted {
            Some(version) => self.find_snapshot(version).await?,
            None => self.newest_snapshot().await?,
        };
        self.store.snapshot_read(&snapshot, self.clock.now_ms()).await?;
        let (rows, has_more) = self.store.snapshot_page(snapshot.cut, &after, limit, reader).await?;
        // Read again: while the page was read, the snapshot may have been replaced and its versions removed.
        self.find_snapshot(&snapshot.version).await?;

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
            .ok_or_else(|| wrong("cursor must be a next_cursor of this method"))?;
        if params.version.as_ref().is_some_and(|version| *version != cursor.version) {
            return Err(wrong("cursor must be one of the snapshot that version names"));
        }
        Ok((Some(cursor.version), cursor.last_aid))
    }

    /// The snapshots that can be read, the newest first. There is always one: the first reader makes it.
    pub(super) async fn snapshots(&self) -> Result<Vec<SnapshotRow>, Error> {
        let rows = self.store.snapshots().await?;
        if !rows.is_empty() {
            return Ok(rows);
        }
        self.freeze_daily().await?;
        Ok(self.store.snapshots().await?)
    }

    async fn find_snapshot(&self, version: &str) -> Result<SnapshotRow, Error> {
        let snapshots = self.snapshots().await?;
        let newest = snapshots.first().map(|row| row.version.clone()).unwrap_or_default();
        let found = snapshots.into_iter().find(|row| row.version == version);
        found.ok_or_else(|| Error::Stale { version: version.chars().take(40).collect(), newest })
    }

    /// The newest snapshot: one that is made now, if the directory has changed since the newest and that is not of the last seconds. Who
    /// begins with a snapshot gets a full one, and many who do so at once get the same.
    async fn newest_snapshot(&self) -> Result<SnapshotRow, Error> {
        let newest = self.snapshots().await?.into_iter().next().unwrap_or_default();
        let sequence = self.store.state().await?.sequence;
        let now = self.clock.now_ms();
        let lately = iso(seconds(now) - self.settings.snapshot_seconds * 1000);
        // Texts of this form sort as the times do. An empty snapshot is never new enough.
        if newest.cut == sequence || (newest.version >= lately && newest.cut > 0) {
            return Ok(newest);
        }
        self.store.freeze_for_reader(&iso(seconds(now)), &lately, now).await?;
        Ok(self.snapshots().await?.into_iter().next().unwrap_or(newest))
    }
}

/// A time without its fraction.
fn seconds(unix_ms: i64) -> i64 {
    unix_ms - unix_ms.rem_euclid(1000)
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
