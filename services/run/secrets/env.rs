//! Credentials in variables of the environment, which only the operator can change: with a restart.

use super::{AUTH_JSON, SecretError, SecretStore, StoredCredential, checked_name};
use crate::known_profiles::is_slug;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

const PREFIX: &str = "AGENTRUN_PROVIDER_";
const SUFFIXES: [&str; 2] = ["_API_KEY", "_AUTH_JSON"];

/// The profiles that have a variable. Values are not read here.
pub(super) struct EnvSecrets(BTreeSet<String>);

impl EnvSecrets {
    /// Reads the names once: the environment of a process does not change.
    pub fn of_this_process() -> EnvSecrets {
        let set = std::env::vars_os().filter(|(_, value)| !value.is_empty());
        EnvSecrets::of(set.filter_map(|(name, _)| name.into_string().ok()))
    }

    fn of(names: impl Iterator<Item = String>) -> EnvSecrets {
        EnvSecrets(names.filter_map(|name| profile_of(&name)).collect())
    }
}

/// `AGENTRUN_PROVIDER_MINIMAX_M3_API_KEY` is that of `minimax-m3`: a profile has no underscore.
fn profile_of(name: &str) -> Option<String> {
    let rest = name.strip_prefix(PREFIX)?;
    let profile = SUFFIXES.iter().find_map(|suffix| rest.strip_suffix(suffix))?;
    let profile = profile.to_ascii_lowercase().replace('_', "-");
    is_slug(&profile).then_some(profile)
}

fn read_only(profile: &str) -> SecretError {
    let profile = profile.to_ascii_uppercase().replace('-', "_");
    SecretError::ReadOnly(format!("{PREFIX}{profile}{}", SUFFIXES[0]))
}

impl SecretStore for EnvSecrets {
    fn put(&self, profile: &str, _: &BTreeMap<&str, &str>) -> Result<String, SecretError> {
        Err(read_only(profile))
    }

    fn remove(&self, profile: &str) -> Result<(), SecretError> {
        Err(read_only(profile))
    }

    fn has(&self, profile: &str) -> Result<bool, SecretError> {
        Ok(self.0.contains(profile))
    }

    #[expect(clippy::disallowed_methods, reason = "credentials are no settings: here they are variables")]
    fn read(&self, profile: &str) -> Result<StoredCredential, SecretError> {
        let name = checked_name(profile).map(|_| profile.to_ascii_uppercase().replace('-', "_"))?;
        let value = |suffix: &str| {
            let value = std::env::var_os(format!("{PREFIX}{name}{suffix}"))?.into_string().ok()?;
            (!value.is_empty()).then_some(value)
        };
        let [api_key, auth_json] = SUFFIXES.map(value);
        let of_key = |key: String| json!({ "OPENAI_API_KEY": key }).to_string();
        let auth = auth_json.or_else(|| api_key.map(of_key));
        Ok(StoredCredential(auth.map(|auth| (AUTH_JSON.to_owned(), auth)).into_iter().collect()))
    }

    fn version(&self, _: &str) -> Result<Option<String>, SecretError> {
        Ok(None)
    }

    fn versions(&self) -> Result<BTreeMap<String, Option<String>>, SecretError> {
        Ok(self.0.iter().map(|profile| (profile.clone(), None)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_name_profiles_and_cannot_be_written() {
        let names = ["AGENTRUN_PROVIDER_MINIMAX_M3_API_KEY", "AGENTRUN_PROVIDER_CODEX_AUTH_JSON"];
        let others = ["AGENTRUN_PROVIDER__API_KEY", "AGENTRUN_PROVIDER_X", "OPENAI_API_KEY", "PATH"];
        let secrets = EnvSecrets::of(names.into_iter().chain(others).map(str::to_owned));
        let profiles: Vec<String> = secrets.versions().unwrap().into_keys().collect();
        assert_eq!(profiles, ["codex", "minimax-m3"]);
        assert!(secrets.has("codex").unwrap() && !secrets.has("x").unwrap());
        let refused = secrets.put("minimax-m3", &BTreeMap::new()).unwrap_err();
        assert!(refused.to_string().contains("AGENTRUN_PROVIDER_MINIMAX_M3_API_KEY"), "{refused}");
        assert!(matches!(secrets.remove("codex"), Err(SecretError::ReadOnly(_))));
    }
}
