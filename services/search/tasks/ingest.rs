//! Reads the changes of the agent service, in order, into the log.

use crate::document::{DirectoryDocument, ManifestFacts};
use crate::{Error, SearchService};
use kernel::{Aid, Caller, RpcError};
use proto_schemas::requests::agent::{ChangedAgent, Changes};
use std::time::Duration;

/// How often it asks when nothing wakes it: a change is told over the bus, which may lose it.
const EVERY: Duration = Duration::from_millis(500);
const PAGE: i64 = 500;

/// How reading a page ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ingested {
    /// There is more.
    More,
    /// Nothing is left.
    All,
}

impl SearchService {
    /// Runs until the server stops.
    pub(crate) async fn ingest(&self) {
        let mut failing = false;
        loop {
            match self.ingest_page().await {
                Ok(Ingested::More) => {
                    failing = false;
                    continue;
                }
                Ok(Ingested::All) => failing = false,
                // The agent service may be restarting: that is told once, and not twice a second.
                Err(error) if !failing => {
                    failing = true;
                    tracing::warn!(
                        "the changes of agents cannot be read, will try again: {}",
                        RpcError::from(error)
                    );
                }
                Err(_) => {}
            }
            let woken = self.wake.ingest.notified();
            let _ = tokio::time::timeout(EVERY, woken).await;
        }
    }

    pub(crate) async fn ingest_page(&self) -> Result<Ingested, Error> {
        let position = self.store.state().await?.position;
        let wanted = Changes { after: position, limit: Some(PAGE) };
        let page = self.mesh.ask(Caller::service("search"), &wanted).await?;
        if page.head < position {
            return self.begin_anew(position).await;
        }
        let Some(last) = page.changes.last() else { return Ok(Ingested::All) };

        let mut log = self.store.write_log(self.clock.now_ms()).await?;
        if !log.advance_position(position, last.position).await? {
            // Another process was faster; what it stored is not stored twice.
            return Ok(Ingested::More);
        }
        for change in &page.changes {
            match self.document_of(change) {
                Some(document) => log.upsert(&document, &self.ap_id, true, 0).await?,
                None => log.remove(&change.aid, &self.ap_id, true).await?,
            }
        }
        if self.store.commit(log).await? {
            self.log_changed(true);
        }
        Ok(if page.has_more { Ingested::More } else { Ingested::All })
    }

    /// None where nothing is to be in the directory.
    fn document_of(&self, change: &ChangedAgent) -> Option<DirectoryDocument> {
        let (aid, content) = (Aid::parse(&change.aid).ok()?, change.content.clone()?);
        if aid.issuer() != self.issuer {
            return None;
        }
        let document =
            DirectoryDocument::of(&aid, content, change.signed.unwrap_or(false), change.updated_at)?;
        Some(DirectoryDocument { manifest: manifest_of(change), ..document })
    }

    /// The agent service counts from another beginning: it was set up anew, or from an older backup.
    async fn begin_anew(&self, position: i64) -> Result<Ingested, Error> {
        tracing::warn!("the agent service has new change numbers: the directory is read again in full");
        let mut log = self.store.write_log(self.clock.now_ms()).await?;
        if log.advance_position(position, 0).await? {
            log.begin_anew(&self.ap_id).await?;
            self.store.commit(log).await?;
            self.freeze_daily().await?;
            self.log_changed(true);
        }
        Ok(Ingested::More)
    }
}

fn manifest_of(change: &ChangedAgent) -> Option<ManifestFacts> {
    Some(ManifestFacts {
        version: change.manifest_version?,
        hash: change.manifest_hash.clone()?,
        words: change.manifest_facts.clone().unwrap_or_default(),
    })
}
