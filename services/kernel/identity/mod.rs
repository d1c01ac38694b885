//! The identity of a service: its key is made where it is used, and only the public half goes to the authority.

mod known_cert;

pub use known_cert::KnownCert;

use crate::{Caller, World, files};
use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{Curve, Identity, Key};
use proto_schemas::requests::ca;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

/// A service's certificate is replaced at start when less than this is left of it.
const LEAD_SECONDS: i64 = 240 * 86_400;

/// What an identity is for.
pub struct Purpose<'a> {
    /// The service that asks, and the folder under `pki` where it keeps its keys.
    pub service: &'a str,
    /// The name of its files: `{file}.key` and `{file}.crt`.
    pub file: &'a str,
    pub curve: Curve,
    /// What tells it from another certificate of the service on the same curve, if it has two.
    pub key_purpose: Option<ca::ServiceKeyPurpose>,
    /// The host names and addresses it answers for over TLS, if it does.
    pub dns_names: Vec<String>,
    pub ips: Vec<IpAddr>,
}

impl World {
    /// Reads the identity, or makes it. One that is getting old, or whose key is on another curve than it should be, is
    /// replaced and stays as `{file}.previous.crt`, so that what it signed can still be verified.
    pub async fn identity(&self, purpose: &Purpose<'_>) -> anyhow::Result<Identity> {
        let folder = self.keys.join("pki").join(purpose.service);
        let name = |kind: &str| folder.join(format!("{}.{kind}", purpose.file));
        let (key_file, crt_file) = (name("key"), name("crt"));
        let mut replaced = None;
        if let (Ok(key), Ok(crt)) = (fs::read_to_string(&key_file), fs::read_to_string(&crt_file)) {
            let identity = Identity::from_pem(&crt, &key)
                .with_context(|| format!("{} is damaged", crt_file.display()))?;
            let lasts = identity.certificate().not_after() - self.clock.now_seconds() > LEAD_SECONDS;
            if lasts && identity.key().curve() == purpose.curve {
                return Ok(identity);
            }
            let why = if lasts { "is on another curve than today" } else { "is getting old" };
            tracing::info!("{} {why} and is replaced", crt_file.display());
            replaced = Some(identity.certificate().serial().to_owned());
        }
        // The authority is asked first: as long as it does not answer, nothing that was there is lost.
        let identity = self.new_identity(purpose, replaced.as_deref()).await?;
        if replaced.is_some() {
            fs::rename(&crt_file, name("previous.crt"))?;
        }
        // Either file alone is a start that was cut short: what it made was never used.
        remove(&key_file)?;
        remove(&crt_file)?;
        let context = || format!("{} cannot be written", folder.display());
        files::write_new(&key_file, &identity.key().to_pem()).with_context(context)?;
        files::write_new(&crt_file, identity.certificate().pem()).with_context(context)?;
        Ok(identity)
    }

    async fn new_identity(&self, purpose: &Purpose<'_>, replaced: Option<&str>) -> anyhow::Result<Identity> {
        let key = Key::generate(purpose.curve);
        let request = ca::IssueServiceCert {
            name: format!("{}.{}", purpose.service, self.issuer),
            public_key: STANDARD.encode(key.public().spki_der()),
            curve: match purpose.curve {
                Curve::P256 => ca::KeyCurve::P256,
                Curve::P384 => ca::KeyCurve::P384,
            },
            key_purpose: purpose.key_purpose,
            replaces: replaced.map(str::to_owned),
            dns_names: Some(purpose.dns_names.clone()),
            ips: Some(purpose.ips.iter().map(ToString::to_string).collect()),
        };
        let issued = self.mesh.ask(Caller::service(purpose.service), &request).await?;
        Ok(Identity::from_pem(&issued.cert, &key.to_pem())?)
    }
}

fn remove(file: &Path) -> std::io::Result<()> {
    if file.exists() { fs::remove_file(file) } else { Ok(()) }
}
