//! `agui.set_profile`: set what front ends know of the caller.

use super::front_end;
use crate::RunService;
use crate::error::Error;
use kernel::Caller;
use proto_schemas::requests::agui::{SetProfile, UserProfile};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn agui_set_profile(
        self: Arc<Self>,
        caller: Caller,
        params: SetProfile,
    ) -> Result<UserProfile, Error> {
        let agent = front_end(&caller)?;
        let timezone = params.timezone;
        if timezone.as_deref().is_some_and(|zone| !ag_ui::is_zone(zone)) {
            return Err(Error::RunInput("timezone must be an IANA time zone".to_owned()));
        }
        self.store.set_time_zone(agent, timezone.as_deref(), self.clock.now_ms()).await?;
        Ok(UserProfile { timezone })
    }
}
