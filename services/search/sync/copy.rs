//! Copies the directory of a peer: its snapshot first, then its changes for as long as the server runs.

use super::accept::OfferedDocument;
use crate::document::DirectoryDocument;
use crate::store::{LeasedPeer, PeerRow, PeerStep};
use crate::{Error, SearchService, ap_id};
use kernel::{Aid, Backoff, Caller, DiskSpace, RpcError, codes, forward_for_service};
use proto_schemas::Request;
use proto_schemas::requests::search::{Changes, ChangesPage, GetAgent, Snapshot, SnapshotPage};
use std::time::Duration;
use tokio::time::Instant;

/// Between two questions to a peer, and to one that has had nothing new for [`QUIET_AFTER_MS`].
const EVERY: Duration = Duration::from_secs(2);
const EVERY_QUIET: Duration = Duration::from_secs(60);
const QUIET_AFTER_MS: i64 = 3_600_000;
/// After a failure.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const PAGE: i64 = 1000;
/// Documents that are removed in one transaction.
const SWEEP: i64 = 500;

/// How a step ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    /// There is more.
    More,
    /// Nothing is left to copy.
    Level,
    /// Another process has the lease by now.
    Elsewhere,
}

/// Why a page was not stored.
#[derive(Debug, thiserror::Error)]
enum CopyError {
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Peer(RpcError),
    #[error(transparent)]
    Own(Error),
}

impl<E: Into<Error>> From<E> for CopyError {
    fn from(error: E) -> CopyError {
        CopyError::Own(error.into())
    }
}

impl SearchService {
    /// Runs until the server stops.
    pub(super) async fn copy_peer(&self, issuer: &str) {
        let mut backoff = Backoff::new(EVERY, LONGEST_WAIT);
        loop {
            match self.store.lease_peer(issuer, self.clock.now_ms()).await {
                Ok(Some(mut peer)) => self.copy_while_leased(&mut peer, &mut backoff).await,
                Ok(None) => {}
                Err(error) => tracing::warn!("the lease for {issuer} could not be taken: {error}"),
            }
            tokio::time::sleep(self.ids.jitter(EVERY * 2)).await;
        }
    }

    async fn copy_while_leased(&self, peer: &mut LeasedPeer, backoff: &mut Backoff) {
        loop {
            let step = self.copy_step(peer).await;
            let failed = step.is_err();
            match step {
                Ok(Copied::More) => continue,
                Ok(Copied::Level) => backoff.reset(),
                Ok(Copied::Elsewhere) => return,
                Err(error) => {
                    let issuer = &peer.row.issuer;
                    tracing::warn!(
                        peer.issuer = issuer,
                        "the directory of {issuer} cannot be copied: {error}"
                    );
                }
            }
            let pause = async {
                match failed {
                    true => backoff.wait().await,
                    false => tokio::time::sleep(self.pause(peer)).await,
                }
            };
            if !self.wait_leased(peer, pause).await {
                return;
            }
        }
    }

    fn pause(&self, peer: &LeasedPeer) -> Duration {
        let quiet = self.clock.now_ms() - peer.row.changed_at > QUIET_AFTER_MS;
        self.ids.jitter(if quiet { EVERY_QUIET } else { EVERY })
    }

    /// Waits, unless the peer says that it has something new, and keeps the lease meanwhile. False: it is lost.
    async fn wait_leased(&self, peer: &LeasedPeer, pause: impl Future<Output = ()>) -> bool {
        let woken = self.wake.sync.of(&peer.row.issuer);
        let renew_every = Duration::from_millis(self.store.leases.term_ms().unsigned_abs() / 3);
        let mut renew = tokio::time::interval_at(Instant::now() + renew_every, renew_every);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => return true,
                () = woken.notified() => return true,
                _ = renew.tick() => match self.store.save_peer(peer, self.clock.now_ms()).await {
                    Ok(true) => {}
                    Ok(false) => return false,
                    Err(error) => tracing::warn!("the lease for {} could not be kept: {error}", peer.row.issuer),
                },
            }
        }
    }

    /// One page, or one step of what follows a snapshot. What went wrong is stored with the peer, for its operator.
    pub(crate) async fn copy_step(&self, peer: &mut LeasedPeer) -> Result<Copied, Error> {
        let copied = match peer.row.step() {
            PeerStep::Sweep => self.sweep(peer).await,
            _ if self.disk.space() == DiskSpace::Full => Err(RpcError::no_space().into()),
            PeerStep::Snapshot => self.copy_snapshot_page(peer).await,
            PeerStep::Changes => self.copy_changes_page(peer).await,
        };
        let error = match copied {
            Ok(copied) => return Ok(copied),
            Err(CopyError::Peer(error)) if is_expired(&error) && can_start_again(&peer.row) => {
                tracing::info!(
                    peer.issuer = peer.row.issuer,
                    "the directory of {} is replicated from the beginning: {error}",
                    peer.row.issuer
                );
                peer.row.start_again();
                let held = self.store.save_peer(peer, self.clock.now_ms()).await?;
                return Ok(if held { Copied::More } else { Copied::Elsewhere });
            }
            Err(CopyError::Own(error)) => return Err(error),
            Err(CopyError::Peer(error)) => error,
            Err(CopyError::Refused(sentence)) => RpcError::new(codes::FEDERATION_REFUSED, sentence),
        };
        peer.row.last_error = Some(error.to_string().chars().take(200).collect());
        if !self.store.save_peer(peer, self.clock.now_ms()).await? {
            return Ok(Copied::Elsewhere);
        }
        Err(error.into())
    }

    async fn copy_snapshot_page(&self, peer: &mut LeasedPeer) -> Result<Copied, CopyError> {
        let wanted = Snapshot {
            version: peer.row.snapshot_version.clone(),
            cursor: peer.row.snapshot_cursor.clone(),
            limit: Some(PAGE),
        };
        let page = self.ask_peer(&peer.row.issuer, &wanted).await.map_err(CopyError::Peer)?;
        let items = page.items.len() as i64;
        check_snapshot(&peer.row, &page)?;
        if items > PAGE || peer.row.snapshot_items + items > self.settings.peer_agents {
            let most = self.settings.peer_agents;
            return Err(CopyError::Refused(format!(
                "its snapshot has more than {most} agents, or pages that are too long"
            )));
        }
        let (mut documents, mut gone) = (Vec::new(), Vec::new());
        for item in page.items {
            self.take(&peer.row.issuer, OfferedDocument::from(item), &mut documents, &mut gone).await;
        }

        peer.row.snapshot_items += items;
        peer.row.snapshot_version = Some(page.snapshot_version);
        peer.row.snapshot_cursor = page.next_cursor.filter(|_| page.has_more);
        peer.row.cursor = Some(page.change_cursor);
        if !page.has_more {
            peer.row.set_step(PeerStep::Sweep);
        }
        self.store_page(peer, &documents, &gone)
            .await
            .map(|held| if held { Copied::More } else { Copied::Elsewhere })
    }

    /// Removes what the snapshot did not have.
    async fn sweep(&self, peer: &mut LeasedPeer) -> Result<Copied, CopyError> {
        let now = self.clock.now_ms();
        let mut log = self.store.write_log(now).await?;
        let removed = log.remove_not_seen(&ap_id(&peer.row.issuer), peer.row.pass, SWEEP).await?;
        if removed == 0 {
            peer.row.set_step(PeerStep::Changes);
        }
        if !log.save_peer(&self.store.leases, peer, now).await? {
            return Ok(Copied::Elsewhere);
        }
        if self.store.commit(log).await? {
            self.log_changed(false);
        }
        Ok(Copied::More)
    }

    async fn copy_changes_page(&self, peer: &mut LeasedPeer) -> Result<Copied, CopyError> {
        let wanted = Changes { cursor: peer.row.cursor.clone(), limit: Some(PAGE) };
        let page = self.ask_peer(&peer.row.issuer, &wanted).await.map_err(CopyError::Peer)?;
        check_changes(&peer.row, &page)?;
        let changed = !page.changes.is_empty();
        let (mut documents, mut gone) = (Vec::new(), Vec::new());
        for change in page.changes {
            if change.op == "delete" {
                gone.push(change.aid);
            } else {
                let offered = OfferedDocument::of_change(change, &peer.row.issuer);
                self.take(&peer.row.issuer, offered, &mut documents, &mut gone).await;
            }
        }

        let now = self.clock.now_ms();
        peer.row.cursor = Some(page.next_cursor);
        if changed {
            peer.row.changed_at = now;
        }
        if !page.has_more {
            peer.row.level_at = Some(now);
        }
        let held = self.store_page(peer, &documents, &gone).await?;
        Ok(match (held, page.has_more) {
            (false, _) => Copied::Elsewhere,
            (true, true) => Copied::More,
            (true, false) => Copied::Level,
        })
    }

    /// Checks an entry; one that is not accepted is left out, counted and told, and the others are copied all the same.
    async fn take(
        &self,
        issuer: &str,
        mut offered: OfferedDocument,
        documents: &mut Vec<DirectoryDocument>,
        gone: &mut Vec<String>,
    ) {
        let checked = match offered.agent(issuer) {
            Ok(aid) => {
                if offered.content.is_none() {
                    offered.content = self.ask_document(issuer, &aid).await;
                }
                offered.document(&aid, self.clock.now_ms()).map(|document| (aid, document))
            }
            Err(reason) => Err(reason),
        };
        match checked {
            Ok((_, Some(document))) => documents.push(document),
            Ok((aid, None)) => gone.push(aid.to_string()),
            Err(reason) => {
                self.metrics.refused_items.inc();
                tracing::warn!(
                    peer.issuer = issuer,
                    "an entry of the directory of {issuer} is not accepted: {reason}"
                );
            }
        }
    }

    /// Of a directory that does not send documents with its entries.
    async fn ask_document(&self, issuer: &str, aid: &Aid) -> Option<String> {
        let wanted = GetAgent { aid: aid.clone() };
        self.ask_peer(issuer, &wanted).await.ok().map(|found| found.agent_md)
    }

    /// Stores a page and how far the copy is, in one transaction. False: another process has the lease by now, and nothing was
    /// stored.
    async fn store_page(
        &self,
        peer: &mut LeasedPeer,
        documents: &[DirectoryDocument],
        gone: &[String],
    ) -> Result<bool, CopyError> {
        let (now, source) = (self.clock.now_ms(), ap_id(&peer.row.issuer));
        peer.row.last_ok_at = now;
        peer.row.last_error = None;
        let mut log = self.store.write_log(now).await?;
        if !log.save_peer(&self.store.leases, peer, now).await? {
            return Ok(false);
        }
        for document in documents {
            log.upsert(document, &source, false, peer.row.pass).await?;
        }
        for aid in gone {
            log.remove(aid, &source, false).await?;
        }
        // While a snapshot is read, what it does not have is not removed yet; its entries are counted.
        if peer.row.step() == PeerStep::Changes && log.count_of(&source).await? > self.settings.peer_agents {
            return Err(CopyError::Refused(format!("it has more than {} agents", self.settings.peer_agents)));
        }
        if self.store.commit(log).await? {
            self.log_changed(false);
        }
        Ok(true)
    }

    async fn ask_peer<R: Request>(&self, issuer: &str, request: &R) -> Result<R::Result, RpcError> {
        let forward = forward_for_service(issuer, R::METHOD, request)?;
        let answer = self.mesh.forward("search", &Caller::service("search"), forward).await?;
        serde_json::from_str(answer.get()).map_err(|error| {
            RpcError::new(
                codes::FEDERATION_REFUSED,
                format!("{} of {issuer} cannot be read: {error}", R::METHOD),
            )
        })
    }
}

/// What the peer had is not there any more.
fn is_expired(error: &RpcError) -> bool {
    [codes::search::SNAPSHOT_STALE.code, codes::search::CHANGE_CURSOR_EXPIRED.code].contains(&error.code())
}

/// Whether there is something to give up: a peer that answers so to a first question would be asked without end.
fn can_start_again(peer: &PeerRow) -> bool {
    peer.step() != PeerStep::Snapshot || peer.snapshot_version.is_some()
}

/// A snapshot goes on as it began, and ends some time.
fn check_snapshot(peer: &PeerRow, page: &SnapshotPage) -> Result<(), CopyError> {
    let refused = |sentence: &str| Err(CopyError::Refused(sentence.to_owned()));
    if peer.snapshot_version.as_ref().is_some_and(|version| *version != page.snapshot_version) {
        return refused("a page of its snapshot belongs to another version");
    }
    if page.has_more && page.items.is_empty() {
        return refused("a page of its snapshot is empty and not the last");
    }
    if page.has_more && (page.next_cursor.is_none() || page.next_cursor == peer.snapshot_cursor) {
        return refused("a page of its snapshot has no new next_cursor");
    }
    Ok(())
}

fn check_changes(peer: &PeerRow, page: &ChangesPage) -> Result<(), CopyError> {
    if page.has_more && peer.cursor.as_ref() == Some(&page.next_cursor) {
        return Err(CopyError::Refused("a page of its changes has no new next_cursor".to_owned()));
    }
    if page.changes.len() as i64 > PAGE {
        return Err(CopyError::Refused("a page of its changes is too long".to_owned()));
    }
    Ok(())
}
