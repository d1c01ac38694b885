//! The keys of the auth service: they are made and kept here, and only their public halves are sent.
//!
//! Two certificates carry the name `auth.{issuer}`: one answers `auth.aid_login1`, the other signs tokens. Both are on P-256:
//! the first because some SDKs verify no other signature (docs/decisions/0020-the-login-key-is-on-p-256.md), the second
//! because every connection verifies a token and P-256 costs a tenth. They are never one key: the first signs whatever text a
//! client sends, and that could be the text of a token.

use super::login::Seal;
use certs::{Certificate, Curve, Identity, PublicKey};
use kernel::{Purpose, World};
use proto_schemas::requests::ca::ServiceKeyPurpose;
use std::fs;

pub(super) struct AuthKeys {
    login: Identity,
    token: Identity,
    /// Signed tokens until it was replaced; they stay valid until they expire.
    previous: Option<Certificate>,
    pub seal: Seal,
}

impl AuthKeys {
    pub async fn open_or_create(world: &World) -> anyhow::Result<AuthKeys> {
        let purpose = |file, key_purpose| Purpose {
            service: "auth",
            file,
            curve: Curve::P256,
            key_purpose,
            dns_names: Vec::new(),
            ips: Vec::new(),
        };
        let login = world.identity(&purpose("login", Some(ServiceKeyPurpose::Login))).await?;
        let token = world.identity(&purpose("token", None)).await?;
        let previous = fs::read_to_string(world.keys.join("pki/auth/token.previous.crt")).ok();
        let previous = previous.map(|pem| Certificate::from_pem(&pem)).transpose()?;
        let seal = Seal::new(&token.key().derive_secret(b"aund login nonce"));
        Ok(AuthKeys { login, token, previous, seal })
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
