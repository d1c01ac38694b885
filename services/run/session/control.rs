//! `session.control`: cancel what a session does.

use crate::RunService;
use crate::error::Error;
use crate::session::record::{reader_of, record};
use kernel::Caller;
use proto_schemas::requests::session::{Control, ControlledRunSession};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn session_control(
        self: Arc<Self>,
        caller: Caller,
        Control { session_id, action }: Control,
    ) -> Result<ControlledRunSession, Error> {
        if action != "cancel" {
            return Err(Error::Invalid("action must be cancel".to_owned()));
        }
        let session = self.visible_session(&caller, &session_id, "").await?;

        let cancelled = match (session.active_command, session.active_run) {
            (Some(command), _) => {
                self.cancel_command_now(command, None).await?;
                "command"
            }
            (None, Some(run)) => {
                self.cancel_run_now(run, None).await?;
                "run"
            }
            (None, None) => "nothing",
        };
        let reader = reader_of(None)?;
        let session = self.visible_session(&caller, &session_id, &reader).await?;
        Ok(ControlledRunSession { session: record(session), cancelled: cancelled.to_owned() })
    }
}
