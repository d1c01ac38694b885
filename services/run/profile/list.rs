//! `profile.list`: all profiles.

use super::record::record;
use crate::RunService;
use crate::access::RunAccess;
use crate::error::Error;
use crate::settings::Settings;
use kernel::Caller;
use proto_schemas::requests::profile::{List, ProfileList};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn profile_list(self: Arc<Self>, caller: Caller, _: List) -> Result<ProfileList, Error> {
        RunAccess::of(&caller, &self.settings)?;
        let versions = self.secrets.versions().await?;
        let configured = versions.keys().cloned().collect();
        let mut rows = self.store.profiles().await?;
        let mut validations = self.store.newest_validations().await?;
        let profiles = profiles(&self.settings, &configured).into_iter().map(|(profile, has_credential)| {
            let version = versions.get(profile).and_then(Option::as_deref);
            let row = rows.remove(profile).filter(|row| row.is_of(version));
            record(&self.settings, profile, has_credential, row, validations.remove(profile))
        });
        Ok(ProfileList { profiles: profiles.collect() })
    }

    /// The profiles whose credential is stored.
    pub(super) async fn configured_profiles(&self) -> Result<BTreeSet<String>, Error> {
        Ok(self.secrets.list().await?.into_iter().collect())
    }
}

/// Those that are built in or configured, and others while they have a credential; and whether each can be used.
pub(super) fn profiles<'a>(
    settings: &'a Settings,
    configured: &'a BTreeSet<String>,
) -> BTreeMap<&'a str, bool> {
    let known = settings.known_profiles().into_iter().map(|profile| {
        let has_credential = !settings.needs_credential(profile) || configured.contains(profile);
        (profile, has_credential)
    });
    let stored = configured.iter().map(|profile| (profile.as_str(), true));
    stored.chain(known).collect()
}
