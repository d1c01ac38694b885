//! `search.notify`: the directory of a peer has something new.

use super::cursor::ChangeCursor;
use super::{Error, SearchService};
use kernel::Caller;
use proto_schemas::requests::search::{Notify, PeerChanged, SearchNotified};
use std::sync::Arc;

impl SearchService {
    pub(super) async fn notify(
        self: Arc<Self>,
        caller: Caller,
        params: Notify,
    ) -> Result<SearchNotified, Error> {
        self.enabled()?;
        ChangeCursor::parse(&params.change_cursor_head)?;
        // The process that copies from this peer may be another one. A domain that is not copied is answered the same.
        if let Some(relayed) = caller.relayed()
            && self.settings.peers.contains(&relayed.from_issuer)
        {
            self.bus.signal(&PeerChanged { issuer: relayed.from_issuer.clone() });
        }
        Ok(SearchNotified {})
    }
}
