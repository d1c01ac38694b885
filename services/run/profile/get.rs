//! `profile.get`: read a profile.

use super::record::record;
use crate::RunService;
use crate::access::RunAccess;
use crate::error::Error;
use crate::known_profiles::check_slug;
use kernel::Caller;
use proto_schemas::requests::profile::{Get, GotProfile, ProviderProfile};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn profile_get(
        self: Arc<Self>,
        caller: Caller,
        Get { profile }: Get,
    ) -> Result<GotProfile, Error> {
        RunAccess::of(&caller, &self.settings)?;
        check_slug(&profile)?;
        Ok(GotProfile { profile: self.profile(&profile).await? })
    }

    /// One that is neither built in nor has a credential does not exist.
    pub(super) async fn profile(&self, profile: &str) -> Result<ProviderProfile, Error> {
        let has_credential = self.has_credential(profile).await?;
        if !has_credential && !self.settings.known_profiles().contains(profile) {
            return Err(Error::NotFound(format!("profile {profile}")));
        }
        let version = self.secrets.version(profile).await?;
        let row = self.store.profile(profile).await?.filter(|row| row.is_of(version.as_deref()));
        let validation = self.store.newest_validation(profile).await?;
        Ok(record(&self.settings, profile, has_credential, row, validation))
    }
}
