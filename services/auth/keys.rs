//! The keys of the auth service: they are made here, kept here, and only their public halves leave.
//!
//! Two certificates carry the name `auth.{issuer}`: one on P-384 that answers `auth.aid_login1`, and one on P-256 that
//! signs tokens, because every connection verifies a token and P-256 costs a tenth.

use super::login::Seal;
use crate::kernel::{Caller, World};
use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{Certificate, Curve, Identity, Key, PublicKey};
use serde::Deserialize;
use serde_json::json;
use std::fs;
use std::path::Path;

/// A service certificate is replaced at start when less than this is left of it.
const LEAD_SECONDS: i64 = 240 * 86_400;

pub(super) struct Keys {
    login: Identity,
    token: Identity,
    /// Signed tokens until it was replaced; they stay good until they expire.
    previous: Option<Certificate>,
    pub seal: Seal,
}

impl Keys {
    pub async fn open_or_create(world: &World) -> anyhow::Result<Keys> {
        let folder = world.data.join("pki/auth");
        let login = identity(world, &folder, "login", Curve::P384).await?;
        let token = identity(world, &folder, "token", Curve::P256).await?;
        let previous = fs::read_to_string(folder.join("token.previous.crt")).ok();
        let seal = Seal::new(&token.key().derive_secret(b"aund login nonce"));
        let previous = previous.map(|pem| Certificate::from_pem(&pem)).transpose()?;
        Ok(Keys { login, token, previous, seal })
    }

    pub fn login(&self) -> &Identity {
        &self.login
    }

    pub fn token(&self) -> &Identity {
        &self.token
    }

    /// The key that tokens with this `kid` are verified with.
    pub fn find(&self, kid: &str) -> Option<&PublicKey> {
        let mut certificates = [Some(self.token.certificate()), self.previous.as_ref()].into_iter().flatten();
        certificates.find(|certificate| certificate.serial() == kid).map(Certificate::public_key)
    }
}

async fn identity(world: &World, folder: &Path, name: &str, curve: Curve) -> anyhow::Result<Identity> {
    let (key_file, crt_file) = (folder.join(format!("{name}.key")), folder.join(format!("{name}.crt")));
    if let (Ok(key), Ok(crt)) = (fs::read_to_string(&key_file), fs::read_to_string(&crt_file)) {
        let identity =
            Identity::from_pem(&crt, &key).with_context(|| format!("{} is damaged", crt_file.display()))?;
        if identity.certificate().not_after() - world.clock.now_seconds() > LEAD_SECONDS {
            return Ok(identity);
        }
        tracing::info!("the {name} certificate of auth.{} is getting old and is replaced", world.issuer);
        fs::rename(&crt_file, folder.join(format!("{name}.previous.crt")))?;
    }
    // Either file alone is a start that was cut short: what it made was never used.
    for leftover in [&key_file, &crt_file] {
        if leftover.exists() {
            fs::remove_file(leftover)?;
        }
    }

    #[derive(Deserialize)]
    struct Made {
        cert: String,
    }
    let key = Key::generate(curve);
    let request = json!({
        "name": format!("auth.{}", world.issuer),
        "public_key": STANDARD.encode(key.public().spki_der()),
        "curve": curve,
    });
    let made: Made = world.mesh.ask(Caller::room("auth"), "ca.issue_service_cert", &request).await?;
    let context = || format!("{} cannot be written", folder.display());
    crate::kernel::files::write_new(&key_file, &key.to_pem()).with_context(context)?;
    crate::kernel::files::write_new(&crt_file, &made.cert).with_context(context)?;
    Ok(Identity::from_pem(&made.cert, &key.to_pem())?)
}
