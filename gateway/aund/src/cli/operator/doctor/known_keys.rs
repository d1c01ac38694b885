//! Whether the keys in `pki` and the certificates in the store of `ca` belong together. They are kept in two places, and a backup
//! that has one of them from another day brings together what does not fit.

use super::CheckOutcome::{self, Bad, Good, Note};
use super::certificate;
use anyhow::Context as _;
use certs::{Certificate, Identity};
use gateway::config::Config;
use gateway::{admin, run};
use kernel::{Caller, World};
use proto_schemas::Request as _;
use proto_schemas::requests::ca::{GetCert, KnownCertificate};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// What the services have from `ca`, in the folder of their name.
const IDENTITIES: [&str; 4] = ["auth/login", "auth/token", "gateway/tls", "gateway/federation"];
const RESTORE: &str = "restore pki and the store of ca from the same backup";

/// Asks `ca`: at the server that runs, or with its store opened here.
enum CaSource<'a> {
    Running(&'a Path),
    Opened { world: Box<World>, _lock: File },
}

pub(super) async fn check(config: &Config, running: bool) -> CheckOutcome {
    let keys = config.keys.as_ref().unwrap_or(&config.data);
    let pki = keys.join("pki");
    let identities = match identities(&pki) {
        Ok(identities) if identities.is_empty() => return Good("no service keys yet".into()),
        Ok(identities) => identities,
        Err(error) => {
            let todo = "restore both from one backup, or remove both: the next start makes new ones";
            return Bad(format!("{error:#}"), todo.into());
        }
    };
    if !running && !pki.join("ca/issuer.crt").exists() {
        let todo = "start the server and run doctor again: ca runs in another process";
        return Note("the certificates cannot be compared with the store".into(), todo.into());
    }
    match compare(config, keys, running, &identities).await {
        Ok(outcome) => outcome,
        Err(error) => Bad(format!("the store of ca cannot be read: {error:#}"), RESTORE.into()),
    }
}

/// The certificates of the services whose keys are here, each with the name of its files.
fn identities(pki: &Path) -> anyhow::Result<Vec<(&'static str, Certificate)>> {
    let mut found = Vec::new();
    for name in IDENTITIES {
        let text = |kind: &str| fs::read_to_string(pki.join(format!("{name}.{kind}")));
        let (Ok(cert), Ok(key)) = (text("crt"), text("key")) else { continue };
        let context = || format!("{}.crt and {name}.key", pki.join(name).display());
        let identity = Identity::from_pem(&cert, &key).with_context(context)?;
        found.push((name, identity.certificate().clone()));
    }
    Ok(found)
}

async fn compare(
    config: &Config,
    keys: &Path,
    running: bool,
    identities: &[(&'static str, Certificate)],
) -> anyhow::Result<CheckOutcome> {
    if let Some(file) = missing_file(config).filter(|_| !running) {
        return Ok(Bad(format!("{} is missing, but pki has existing keys", file.display()), RESTORE.into()));
    }
    let source = if running { CaSource::Running(&config.data) } else { opened(config, keys).await? };
    for (name, certificate) in identities {
        let wanted = GetCert { serial: Some(certificate.serial().to_owned()), ..GetCert::default() };
        let known = source.ask(&wanted).await?;
        if known.fingerprint.as_deref() != Some(certificate.fingerprint()) {
            let seen = format!("pki/{name}.crt is not known to the store of ca");
            return Ok(Bad(seen, RESTORE.into()));
        }
        if known.lifecycle_state.as_deref() == Some("revoked") {
            let todo = format!("remove pki/{name}.crt and pki/{name}.key: the next start makes new ones");
            return Ok(Bad(format!("pki/{name}.crt is revoked"), todo));
        }
    }
    if let Some(issuer) = certificate(&keys.join("pki/ca/issuer.crt")) {
        // The newest of the store: an authority that was made anew has not signed it.
        let name = Some(format!("auth.{}", issuer.common_name()));
        let wanted = GetCert { aid: name, key_purpose: Some("service".to_owned()), ..GetCert::default() };
        let newest = source.ask(&wanted).await?.cert;
        let newest = newest.map(|pem| Certificate::from_pem(&pem)).transpose()?;
        if newest.is_some_and(|newest| !newest.is_signed_by(issuer.public_key())) {
            let seen = "the certificates in the store of ca are not signed with the key in pki/ca";
            return Ok(Bad(seen.into(), RESTORE.into()));
        }
    }
    Ok(Good("the store of ca knows the keys in pki".into()))
}

/// The file of the store of `ca`, where it should be and is not.
fn missing_file(config: &Config) -> Option<PathBuf> {
    let file = config.store_url().ok()?.folder(&config.data)?.join("ca.db");
    (!file.exists()).then_some(file)
}

async fn opened(config: &Config, keys: &Path) -> anyhow::Result<CaSource<'static>> {
    let issuer = certificate(&keys.join("pki/ca/issuer.crt")).context("pki/ca/issuer.crt cannot be read")?;
    let lock = run::lock_data(&config.data)?;
    let mut world = World::local(issuer.common_name(), &config.data, config.store_url()?);
    world.keys = keys.to_owned();
    run::open_services(&world, &config.available, |service| service == "ca").await?;
    Ok(CaSource::Opened { world: Box::new(world), _lock: lock })
}

impl CaSource<'_> {
    async fn ask(&self, wanted: &GetCert) -> anyhow::Result<KnownCertificate> {
        match self {
            CaSource::Running(data) => {
                let params = serde_json::to_value(wanted)?;
                let answer = admin::ask(data, GetCert::METHOD, &params).await?;
                Ok(serde_json::from_value(answer.context("the server has stopped")?)?)
            }
            CaSource::Opened { world, .. } => Ok(world.mesh.ask(Caller::Operator, wanted).await?),
        }
    }
}
