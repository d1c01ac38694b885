//! `aund runs profiles`: what runs can be worked on with, the credentials for it, and whether it works.

use super::caller::{RunCaller, RunCallerArgs};
use super::text::word;
use crate::show::{Show, printable_line, time};
use anyhow::{Context as _, bail, ensure};
use clap::Args;
use proto_schemas::requests::profile::{
    Delete, Get, GotProfile, List, ProviderProfile, SetCredential, Validate, ValidationGet, ValidationStatus,
};
use serde_json::{Map, Value};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::sleep;

/// How often it is asked whether a validation has ended.
const ASK_EVERY: Duration = Duration::from_millis(500);

#[derive(Args)]
pub(super) struct ProfilesCommand {
    /// The name of a profile [default: list all]
    name: Option<String>,
    /// Store the credential in FILE, or - for standard input: an API key, or a Codex auth.json
    #[arg(long, value_name = "FILE|-", requires = "name", conflicts_with = "asking")]
    set_credential: Option<PathBuf>,
    /// With --set-credential: also store this Codex config.toml
    #[arg(long, value_name = "FILE", requires = "set_credential")]
    config_toml: Option<PathBuf>,
    /// With --set-credential: the base URL of the provider
    #[arg(long, value_name = "URL", requires = "set_credential")]
    base_url: Option<String>,
    /// With --set-credential: the model to use
    #[arg(long, value_name = "MODEL", requires = "set_credential")]
    model: Option<String>,
    /// Delete the credential of the profile
    #[arg(long, requires = "name", conflicts_with_all = ["set_credential", "asking"])]
    delete: bool,
    /// Try whether the profile works: its back end answers a short turn. Exits with code 1 if it does not
    #[arg(long, requires = "name", conflicts_with_all = ["set_credential", "delete", "asking"])]
    validate: bool,
    #[command(flatten)]
    caller: RunCallerArgs,
}

impl ProfilesCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let ProfilesCommand { name, set_credential, config_toml, base_url, model, delete, validate, caller } =
            self;
        let caller = caller.caller()?;
        let Some(profile) = name else { return list(&caller).await };
        if validate {
            return try_out(&caller, profile).await;
        }
        let shown = if delete {
            caller.ask(&Delete { profile }).await?
        } else if let Some(file) = set_credential {
            let config_toml = config_toml.as_deref().map(read).transpose()?;
            let set = SetCredential { config_toml, base_url, model, ..credential(profile, &read(&file)?)? };
            caller.ask(&set).await?
        } else {
            caller.ask(&Get { profile }).await?
        };
        print(&caller.show, &shown)
    }
}

async fn list(caller: &RunCaller) -> anyhow::Result<()> {
    let (listed, show) = (caller.ask(&List {}).await?, caller.show);
    if show.json {
        return Ok(show.line(&serde_json::to_string(&listed)?)?);
    }
    Ok(listed.profiles.iter().try_for_each(|profile| show.line(&line(&show, profile)))?)
}

/// Waits for the end of a validation, which the server sets if nobody else does.
async fn try_out(caller: &RunCaller, profile: String) -> anyhow::Result<()> {
    let begun = caller.ask(&Validate { profile: profile.clone() }).await?;
    let get = ValidationGet { profile, validation_id: begun.validation_id };
    let ended = loop {
        let read = caller.ask(&get).await?;
        if read.status != ValidationStatus::Running {
            break read;
        }
        sleep(ASK_EVERY).await;
    };
    let (show, name) = (caller.show, printable_line(&ended.profile));
    if show.json {
        show.line(&serde_json::to_string(&ended)?)?;
    }
    if ended.status != ValidationStatus::Passed {
        let why = ended.failure_kind.as_deref().unwrap_or("it has failed");
        bail!("{name} does not work: {}", printable_line(why));
    }
    if !show.json {
        show.line(&format!("{name} works"))?;
    }
    Ok(())
}

fn print(show: &Show, shown: &GotProfile) -> anyhow::Result<()> {
    match show.json {
        true => show.line(&serde_json::to_string(shown)?)?,
        false => lines(show, &shown.profile).iter().try_for_each(|line| show.line(line))?,
    }
    Ok(())
}

/// Keys are texts; the `auth.json` of Codex is an object.
fn credential(profile: String, text: &str) -> anyhow::Result<SetCredential> {
    let text = text.trim();
    ensure!(!text.is_empty(), "the credential is empty");
    let given = text.to_owned();
    Ok(match serde_json::from_str::<Map<String, Value>>(text) {
        Ok(_) => SetCredential { profile, auth_json: Some(given), ..SetCredential::default() },
        Err(_) => SetCredential { profile, api_key: Some(given), ..SetCredential::default() },
    })
}

fn read(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("standard input cannot be read")?;
        return Ok(text);
    }
    fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))
}

fn line(show: &Show, profile: &ProviderProfile) -> String {
    let name = show.bold(&format!("{:14}", printable_line(&profile.profile)));
    let kind = format!("{:14}", printable_line(&profile.backend_kind));
    format!("{name}  {kind}  {}", ready(show, profile))
}

/// Whether runs can be created with it.
fn ready(show: &Show, profile: &ProviderProfile) -> String {
    match (profile.configured, &profile.secret_ref) {
        (true, None) => show.green("ready, needs no credential"),
        (true, Some(_)) => show.green("ready"),
        (false, _) => show.yellow("no credential"),
    }
}

fn lines(show: &Show, profile: &ProviderProfile) -> Vec<String> {
    let mut lines = Vec::new();
    let mut field =
        |name: &str, value: String| lines.push(format!("{}{value}", show.dim(&format!("{name:10}"))));
    field("profile", show.bold(&printable_line(&profile.profile)));
    let origin = if profile.builtin { "built in" } else { "of this server" };
    field("kind", format!("{}, {origin}", printable_line(&profile.backend_kind)));
    field("state", ready(show, profile));
    if let Some(secret) = &profile.secret_ref {
        let keys = secret.keys.as_deref().unwrap_or_default().join(", ");
        field("secret", printable_line(&format!("{} ({keys})", secret.name)).replace(" ()", ""));
    }
    if let Some(hash) = &profile.hash_suffix {
        field("hash", format!("…{}", printable_line(hash)));
    }
    for (name, value) in [("base URL", &profile.base_url), ("model", &profile.model)] {
        if let Some(value) = value {
            field(name, printable_line(value));
        }
    }
    if let Some(at) = &profile.updated_at {
        field("stored", time(at));
    }
    if let Some(validation) = &profile.last_validation {
        let why = validation.failure_kind.as_deref().map(|kind| format!(" ({kind})"));
        let status = format!("{}{}", word(validation.status), why.unwrap_or_default());
        field("validated", format!("{} {}", printable_line(&status), time(&validation.at)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_a_key_or_an_auth_json() {
        let key = credential("acme".to_owned(), " sk-1\n").unwrap();
        assert_eq!((key.api_key.as_deref(), key.auth_json), (Some("sk-1"), None));
        let auth = credential("acme".to_owned(), "{\"tokens\":{}}\n").unwrap();
        assert_eq!((auth.api_key, auth.auth_json.as_deref()), (None, Some("{\"tokens\":{}}")));
        assert!(credential("acme".to_owned(), " \n").is_err());
    }

    #[test]
    fn a_profile_is_shown_without_its_credential() {
        let example = serde_json::json!({ "profile": "acme", "backendKind": "codex-stdio", "builtin": false,
            "configured": true, "failureKind": null,
            "secretRef": { "name": "agentrun-v01-provider-acme", "namespace": "agentrun-v01", "keys": ["auth.json"] },
            "resourceVersion": 1, "hashSuffix": "0a1b2c3d", "baseUrl": null, "model": "m\x1b[2J",
            "updatedAt": "2026-03-21T13:00:00.000Z", "lastValidation": null });
        let profile: ProviderProfile = serde_json::from_value(example).unwrap();
        let plain = Show::new(false, true);
        assert_eq!(line(&plain, &profile), "acme            codex-stdio     ready");
        let expected = "profile   acme
kind      codex-stdio, of this server
state     ready
secret    agentrun-v01-provider-acme (auth.json)
hash      …0a1b2c3d
model     m\\u001b[2J
stored    2026-03-21T13:00:00Z";
        assert_eq!(lines(&plain, &profile).join("\n"), expected);
    }
}
