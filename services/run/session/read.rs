//! `session.read`: move the cursor of a reader.

use crate::RunService;
use crate::error::Error;
use crate::session::record::{reader_of, record};
use crate::store::RunSessionView;
use kernel::{Caller, Payer};
use proto_schemas::requests::session::{GotRunSession, Read};
use std::sync::Arc;

/// A reader is a place where somebody reads, and not each time that somebody does.
const MOST_READERS: i64 = 64;

impl RunService {
    pub(crate) async fn session_read(
        self: Arc<Self>,
        caller: Caller,
        params: Read,
    ) -> Result<GotRunSession, Error> {
        let reader = reader_of(params.reader_id)?;
        let session = self.visible_session(&caller, &params.session_id, &reader).await?;
        let version = params.version.unwrap_or(session.version);
        if !(0..=session.version).contains(&version) {
            let sentence = format!("version must be between 0 and {}, that of the session", session.version);
            return Err(Error::Invalid(sentence));
        }

        // Most of those who read have read it before.
        if version > session.read_version {
            self.move_reader(&session, &reader, version).await?;
        }
        let read_version = session.read_version.max(version);
        Ok(GotRunSession { session: record(RunSessionView { read_version, ..session }) })
    }

    async fn move_reader(&self, session: &RunSessionView, reader: &str, version: i64) -> Result<(), Error> {
        let payer = Payer::tenant(&session.tenant);
        let mut tx = self.store.db().begin().await?;
        let Some(readers) = self.store.lock_readers(&mut tx, &session.id).await? else {
            return Err(Error::NotFound(format!("session {}", session.id)));
        };
        if !self.store.move_reader(&mut tx, &session.id, reader, version).await? {
            if readers >= MOST_READERS {
                return Err(Error::Limit {
                    sentence: format!("a session can have at most {MOST_READERS} readers"),
                    scope: "session.readers",
                    limit: MOST_READERS,
                    held: readers,
                });
            }
            let charge = self.store.account.before(&mut tx, payer.clone()).await?;
            self.store.insert_reader(&mut tx, (&session.id, reader), version, payer.key()).await?;
            self.store.account.charge(&mut tx, charge).await?;
        }
        Ok(self.store.db().commit(tx).await?)
    }
}
