//! Whether a profile can be used.

use crate::RunService;
use crate::error::Error;

impl RunService {
    /// Whether the credential of a profile is stored. One that needs none counts as if it were.
    pub(crate) async fn has_credential(&self, profile: &str) -> Result<bool, Error> {
        Ok(!self.settings.needs_credential(profile) || self.secrets.has(profile).await?)
    }

    /// A profile never falls back to another one, so without its credential nothing can be done with it.
    pub(crate) async fn check_credential(&self, profile: &str) -> Result<(), Error> {
        match self.has_credential(profile).await? {
            true => Ok(()),
            false => Err(Error::SecretUnavailable(format!("profile {profile} has no credential"))),
        }
    }
}
