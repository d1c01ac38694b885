//! `profile.set_credential`: store the credential of a profile.

use crate::RunService;
use crate::error::Error;
use crate::known_profiles::check_slug;
use crate::runs::printable;
use crate::secrets::{AUTH_JSON, CONFIG_TOML};
use crate::settings::Settings;
use crate::store::WrittenProfile;
use axum::http::Uri;
use kernel::{Caller, sha256_hex};
use proto_schemas::requests::profile::{GotProfile, SetCredential};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most that a credential or a configuration may have.
const BYTES: usize = 64 << 10;
const URL_BYTES: usize = 2048;
const MODEL_BYTES: usize = 200;
const HASH_DIGITS: usize = 8;

impl RunService {
    pub(crate) async fn profile_set_credential(
        self: Arc<Self>,
        _: Caller,
        params: SetCredential,
    ) -> Result<GotProfile, Error> {
        let credential = check(&self.settings, params)?;

        let (_changing, now) = (self.secrets.change().await, self.clock.now_ms());
        let secret_keys: Vec<&str> = credential.keys.keys().copied().collect();
        let secret_keys = secret_keys.join(" ");
        // What is known of the credential is written behind it: a row that is about another one is not shown.
        let mut tx = self.store.db().begin().await?;
        self.store.lock_profile(&mut tx, &credential.profile, now).await?;
        let secret_version = self.secrets.put(&credential.profile, credential.keys).await?;
        let written = WrittenProfile {
            profile: &credential.profile,
            secret_version: &secret_version,
            secret_keys: &secret_keys,
            hash_suffix: &credential.hash_suffix,
            base_url: credential.base_url.as_deref(),
            model: credential.model.as_deref(),
            now,
        };
        self.store.write_profile(&mut tx, &written).await?;
        self.store.db().commit(tx).await?;
        Ok(GotProfile { profile: self.profile(&credential.profile).await? })
    }
}

/// What of a request is stored where: the keys in the store of secrets, and the rest here.
struct CheckedCredential {
    profile: String,
    keys: BTreeMap<&'static str, String>,
    hash_suffix: String,
    base_url: Option<String>,
    model: Option<String>,
}

/// No sentence has a part of a value: a parser would quote it.
fn check(settings: &Settings, params: SetCredential) -> Result<CheckedCredential, Error> {
    let SetCredential { profile, api_key, auth_json, config_toml, base_url, model } = params;
    let invalid = |sentence: &str| Err(Error::Invalid(sentence.to_owned()));
    check_slug(&profile)?;
    if !settings.needs_credential(&profile) {
        return Err(Error::Invalid(format!("profile {profile} needs no credential")));
    }
    let value = match (&api_key, &auth_json) {
        (Some(value), None) | (None, Some(value)) if !value.is_empty() => value,
        (Some(_), Some(_)) => return invalid("only one of apiKey and authJson may be given"),
        _ => return invalid("apiKey or authJson is required"),
    };
    let too_long = |text: &Option<String>, most| text.as_ref().is_some_and(|text| text.len() > most);
    for (name, text, most) in [
        ("apiKey", &api_key, BYTES),
        ("authJson", &auth_json, BYTES),
        ("configToml", &config_toml, BYTES),
        ("baseUrl", &base_url, URL_BYTES),
        ("model", &model, MODEL_BYTES),
    ] {
        if too_long(text, most) {
            return Err(Error::Invalid(format!("{name} must have at most {most} bytes")));
        }
    }
    if auth_json.as_ref().is_some_and(|text| serde_json::from_str::<Map<String, Value>>(text).is_err()) {
        return invalid("authJson must be a JSON object, as text");
    }
    if base_url.as_ref().is_some_and(|url| !is_base_url(url)) {
        return invalid("baseUrl must be an http or https URL without a user, a password and a query");
    }

    let hash = sha256_hex(value);
    let hash_suffix = hash[hash.len() - HASH_DIGITS..].to_owned();
    let auth = auth_json.or_else(|| api_key.map(|key| json!({ "OPENAI_API_KEY": key }).to_string()));
    let keys = [(AUTH_JSON, auth), (CONFIG_TOML, config_toml.filter(|text| !text.is_empty()))];
    let keys = keys.into_iter().filter_map(|(key, text)| Some((key, text?))).collect();
    // Both are shown to tenants.
    for (name, text) in [("baseUrl", &base_url), ("model", &model)] {
        text.as_deref().map_or(Ok(()), |text| printable(name, text))?;
    }
    Ok(CheckedCredential { profile, keys, hash_suffix, base_url, model })
}

/// It is shown to tenants, so it has no place for a credential.
fn is_base_url(text: &str) -> bool {
    let Ok(url) = text.parse::<Uri>() else { return false };
    let has_host = url.host().is_some_and(|host| !host.is_empty());
    matches!(url.scheme_str(), Some("http" | "https"))
        && has_host
        && url.query().is_none()
        && !text.contains(['@', '#'])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "sk-s3cretAbCdEf0123456789AbCdEf0123456789AbCdEf01";

    fn with_key() -> SetCredential {
        let (profile, api_key) = ("codex".to_owned(), Some("a-\"key\"".to_owned()));
        SetCredential { profile, api_key, ..SetCredential::default() }
    }

    #[test]
    fn a_credential_becomes_keys_and_the_end_of_a_hash() {
        let checked = check(
            &Settings::default(),
            SetCredential { base_url: Some("https://api.example.com/v1".to_owned()), ..with_key() },
        )
        .unwrap();
        assert_eq!(
            checked.keys,
            BTreeMap::from([(AUTH_JSON, r#"{"OPENAI_API_KEY":"a-\"key\""}"#.to_owned())])
        );
        assert!(sha256_hex("a-\"key\"").ends_with(&checked.hash_suffix) && checked.hash_suffix.len() == 8);

        let auth = r#"{"tokens":{}}"#;
        let config = Some("model = \"x\"".to_owned());
        let file = SetCredential {
            api_key: None,
            auth_json: Some(auth.to_owned()),
            config_toml: config,
            ..with_key()
        };
        let checked = check(&Settings::default(), file).unwrap();
        assert_eq!((checked.keys[AUTH_JSON].as_str(), checked.keys.len()), (auth, 2));
    }

    #[test]
    fn what_cannot_be_stored_is_refused_without_a_part_of_it() {
        let long = || Some("s3cret".repeat(20_000));
        let text = |text: &str| Some(text.to_owned());
        for (what, params) in [
            ("nothing", SetCredential { api_key: None, ..with_key() }),
            ("an empty one", SetCredential { api_key: text(""), ..with_key() }),
            ("both", SetCredential { auth_json: text("{}"), ..with_key() }),
            ("a long key", SetCredential { api_key: long(), ..with_key() }),
            ("a long file", SetCredential { config_toml: long(), ..with_key() }),
            ("no object", SetCredential { api_key: None, auth_json: text("[\"s3cret\"]"), ..with_key() }),
            ("no JSON", SetCredential { api_key: None, auth_json: text("s3cret"), ..with_key() }),
            ("a name", SetCredential { profile: "S3cret!".to_owned(), ..with_key() }),
            ("the example", SetCredential { profile: "example".to_owned(), ..with_key() }),
            ("a file", SetCredential { base_url: text("file:///etc"), ..with_key() }),
            ("a word", SetCredential { base_url: text("s3cret"), ..with_key() }),
            ("a user", SetCredential { base_url: text("https://me:s3cret@host/"), ..with_key() }),
            ("a key", SetCredential { base_url: text(&format!("https://host/{SECRET}")), ..with_key() }),
            ("a model", SetCredential { model: text(SECRET), ..with_key() }),
            ("a query", SetCredential { base_url: text("https://host/?key=s3cret"), ..with_key() }),
        ] {
            let Err(Error::Invalid(sentence)) = check(&Settings::default(), params) else { panic!("{what}") };
            assert!(!sentence.contains("s3cret"), "{what}: {sentence}");
        }
    }
}
