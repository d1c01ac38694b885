//! `agui.profile`: what front ends know of the caller.

use super::front_end;
use crate::RunService;
use crate::error::Error;
use kernel::Caller;
use proto_schemas::requests::agui::{Profile, UserProfile};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn agui_profile(
        self: Arc<Self>,
        caller: Caller,
        _: Profile,
    ) -> Result<UserProfile, Error> {
        let timezone = self.store.time_zone(front_end(&caller)?.aid.as_str()).await?;
        Ok(UserProfile { timezone })
    }
}
