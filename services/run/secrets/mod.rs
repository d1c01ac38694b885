//! Credentials of provider profiles. The manager of runs writes them and does not read them, but for the runners that it starts.

mod env;
mod file;

use crate::error::Error;
use crate::known_profiles::{is_slug, secret_name};
use crate::settings::SecretStoreKind;
use env::EnvSecrets;
use file::FileSecrets;
use kernel::{Ids, RpcError};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{Mutex, MutexGuard};

/// The keys that a credential may have, and no other.
pub(crate) const AUTH_JSON: &str = "auth.json";
pub(crate) const CONFIG_TOML: &str = "config.toml";
const KEYS: [&str; 2] = [AUTH_JSON, CONFIG_TOML];

/// Where credentials are stored, one for each profile. The calls wait for a disk.
pub(crate) trait SecretStore: Send + Sync {
    /// Replaces the credential of a profile, at once and as a whole: keys that are not given are removed. Gives the name of this version.
    fn put(&self, profile: &str, keys: &BTreeMap<&str, &str>) -> Result<String, SecretError>;
    /// One that is not there is removed already.
    fn remove(&self, profile: &str) -> Result<(), SecretError>;
    fn has(&self, profile: &str) -> Result<bool, SecretError>;
    /// The keys of a credential with their values, all of one version.
    fn read(&self, profile: &str) -> Result<StoredCredential, SecretError>;
    /// Which version is there. `None` if it is not one that was put there.
    fn version(&self, profile: &str) -> Result<Option<String>, SecretError>;
    /// The profiles that have one, and which.
    fn versions(&self) -> Result<BTreeMap<String, Option<String>>, SecretError>;
}

/// The values of a credential, by key.
#[derive(Clone, Default)]
pub(crate) struct StoredCredential(pub BTreeMap<String, String>);

#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    #[error("credentials come from the environment of this server: set {0}, or run.secrets = \"file\"")]
    ReadOnly(String),
    #[error("{0:?} cannot be the name of a profile or of a key")]
    Name(String),
    #[error("the store of credentials failed: {0}")]
    Io(#[from] io::Error),
}

impl From<SecretError> for Error {
    fn from(error: SecretError) -> Error {
        match error {
            SecretError::ReadOnly(_) => Error::Illegal(error.to_string()),
            SecretError::Name(_) => Error::Invalid(error.to_string()),
            SecretError::Io(_) => Error::Other(RpcError::internal(error)),
        }
    }
}

/// The store of credentials, off the threads that answer.
#[derive(Clone)]
pub(crate) struct Secrets {
    store: Arc<dyn SecretStore>,
    /// Who changes a credential and what is known of it holds it, so that in this process nobody waits for a row with a connection.
    changing: Arc<Mutex<()>>,
}

impl Secrets {
    pub fn open(kind: SecretStoreKind, data: &Path, ids: &Ids) -> Secrets {
        let store: Arc<dyn SecretStore> = match kind {
            SecretStoreKind::File => Arc::new(FileSecrets::new(&data.join("secrets"), ids)),
            SecretStoreKind::Env => Arc::new(EnvSecrets::of_this_process()),
        };
        Secrets { store, changing: Arc::default() }
    }

    /// One at a time changes credentials, until this is dropped.
    pub async fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().await
    }

    pub async fn put(&self, profile: &str, keys: BTreeMap<&'static str, String>) -> Result<String, Error> {
        let profile = profile.to_owned();
        self.work(move |store| {
            let keys = keys.iter().map(|(key, value)| (*key, value.as_str())).collect();
            store.put(&profile, &keys)
        })
        .await
    }

    pub async fn remove(&self, profile: &str) -> Result<(), Error> {
        let profile = profile.to_owned();
        self.work(move |store| store.remove(&profile)).await
    }

    pub async fn has(&self, profile: &str) -> Result<bool, Error> {
        let profile = profile.to_owned();
        self.work(move |store| store.has(&profile)).await
    }

    /// For the runner of a run of this profile.
    pub async fn read(&self, profile: &str) -> Result<StoredCredential, Error> {
        let profile = profile.to_owned();
        self.work(move |store| store.read(&profile)).await
    }

    pub async fn version(&self, profile: &str) -> Result<Option<String>, Error> {
        let profile = profile.to_owned();
        self.work(move |store| store.version(&profile)).await
    }

    /// The profiles that have a credential, and which version of it.
    pub async fn versions(&self) -> Result<BTreeMap<String, Option<String>>, Error> {
        self.work(|store| store.versions()).await
    }

    pub async fn list(&self) -> Result<Vec<String>, Error> {
        Ok(self.versions().await?.into_keys().collect())
    }

    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn SecretStore) -> Result<T, SecretError> + Send + 'static,
    ) -> Result<T, Error> {
        let store = self.store.clone();
        let working = tokio::task::spawn_blocking(move || work(&*store));
        Ok(working.await.map_err(|error| Error::Other(RpcError::internal(error)))??)
    }
}

/// Names become names of files, so they are checked here again, whatever was checked before.
fn checked_name(profile: &str) -> Result<String, SecretError> {
    match is_slug(profile) {
        true => Ok(secret_name(profile)),
        false => Err(SecretError::Name(profile.to_owned())),
    }
}
