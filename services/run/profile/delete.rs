//! `profile.delete`: remove the credential of a profile.

use super::record::record;
use crate::RunService;
use crate::error::Error;
use crate::known_profiles::check_slug;
use kernel::Caller;
use proto_schemas::requests::profile::{Delete, GotProfile};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn profile_delete(
        self: Arc<Self>,
        _: Caller,
        Delete { profile }: Delete,
    ) -> Result<GotProfile, Error> {
        check_slug(&profile)?;
        let _changing = self.secrets.change().await;
        let mut tx = self.store.db().begin().await?;
        self.store.lock_profile(&mut tx, &profile, self.clock.now_ms()).await?;
        let before = self.profile(&profile).await?;
        if !self.settings.needs_credential(&profile) || !before.configured {
            return Ok(GotProfile { profile: before });
        }
        if let Some(run) = self.store.open_run_of_profile(&profile).await? {
            let sentence = format!("profile {profile} is used by run {run}, which has not ended");
            return Err(Error::Illegal(sentence));
        }

        // The credential first: what is left behind by a crash is a row without one, which is not shown. A run that is created meanwhile
        // gets no runner.
        self.secrets.remove(&profile).await?;
        self.store.remove_profile(&mut tx, &profile).await?;
        self.store.remove_validations(&mut tx, &profile).await?;
        self.store.db().commit(tx).await?;
        Ok(GotProfile { profile: record(&self.settings, &profile, false, None, None) })
    }
}
