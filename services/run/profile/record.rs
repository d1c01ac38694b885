//! A profile as it is shown: its credential never is.

use crate::known_profiles::{NAMESPACE, is_builtin, secret_name};
use crate::secrets::{AUTH_JSON, CONFIG_TOML};
use crate::settings::Settings;
use crate::store::{ProfileRow, ValidationRow};
use kernel::iso_ms;
use proto_schemas::requests::profile::{ProfileValidation, ProviderProfile};
use proto_schemas::requests::run::SecretRef;

impl ProfileRow {
    /// Whether it is about this version of the credential: after a crash, it may be about the one before.
    pub(super) fn is_of(&self, version: Option<&str>) -> bool {
        version == Some(self.secret_version.as_str())
    }
}

/// What is known of a credential is shown while the credential is there.
pub(super) fn record(
    settings: &Settings,
    profile: &str,
    has_credential: bool,
    row: Option<ProfileRow>,
    validation: Option<ValidationRow>,
) -> ProviderProfile {
    let row = row.filter(|_| has_credential);
    let secret_ref = settings.needs_credential(profile).then(|| SecretRef {
        name: secret_name(profile),
        namespace: Some(NAMESPACE.to_owned()),
        keys: Some(match &row {
            Some(row) => row.secret_keys.split_whitespace().map(str::to_owned).collect(),
            None => vec![AUTH_JSON.to_owned(), CONFIG_TOML.to_owned()],
        }),
    });
    let missing = || "secret-unavailable".to_owned();
    let (version, at) = (row.as_ref().map(|row| row.version), row.as_ref().map(|row| row.updated_at));
    let (hash_suffix, base_url, model) =
        row.map(|row| (Some(row.hash_suffix), row.base_url, row.model)).unwrap_or_default();
    ProviderProfile {
        profile: profile.to_owned(),
        backend_kind: settings.kind_of(profile).as_str().to_owned(),
        builtin: is_builtin(profile),
        configured: has_credential,
        failure_kind: (!has_credential).then(missing),
        secret_ref,
        resource_version: version,
        hash_suffix,
        base_url,
        model,
        updated_at: at.map(iso_ms),
        last_validation: validation.map(|row| ProfileValidation {
            status: row.status(),
            at: iso_ms(row.ended_at.unwrap_or(row.created_at)),
            validation_id: row.id,
            failure_kind: row.failure_kind,
        }),
    }
}
