//! JSON Web Tokens, as much of them as the protocol uses: ES256 and ES384 with a `kid`, signed by the auth service.
//!
//! ring is the one provider of cryptography in this server; this file has the token format.

use super::Network;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use certs::{Curve, Identity, PublicKey};
use serde::{Deserialize, Serialize};

/// No token of ours is near this long.
const MAX_BYTES: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    pub aid: String,
    pub sub: String,
    pub iss: String,
    pub aud: String,
    pub iat: i64,
    pub exp: i64,
    pub jti: String,
    /// When the agent's tokens were revoked for the last time before this one was made, or 0. Tokens of earlier versions have
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rev: Option<i64>,
    /// From where the agent was registered, if it is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub net: Option<Network>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    alg: String,
    typ: String,
    /// The serial of the certificate whose key signed.
    kid: String,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum JwtError {
    #[error("not a token of this server")]
    Malformed,
    #[error("signed with a key that this server no longer uses")]
    UnknownKey,
    #[error("its signature is invalid")]
    Signature,
}

pub fn sign(claims: &Claims, signer: &Identity) -> String {
    let header = Header {
        alg: algorithm(signer.key().curve()).to_owned(),
        typ: "JWT".to_owned(),
        kid: signer.certificate().serial().to_owned(),
    };
    let part =
        |json: serde_json::Result<Vec<u8>>| URL_SAFE_NO_PAD.encode(json.expect("claims are plain data"));
    let signed = format!("{}.{}", part(serde_json::to_vec(&header)), part(serde_json::to_vec(claims)));
    let signature = URL_SAFE_NO_PAD.encode(signer.key().sign_fixed(signed.as_bytes()));
    format!("{signed}.{signature}")
}

/// Checks the signature with the key that `find` returns for its `kid`, and returns the claims. Times and names are the
/// caller's to check.
pub fn verify<'k>(token: &str, find: impl FnOnce(&str) -> Option<&'k PublicKey>) -> Result<Claims, JwtError> {
    if token.len() > MAX_BYTES {
        return Err(JwtError::Malformed);
    }
    let (signed, signature) = token.rsplit_once('.').ok_or(JwtError::Malformed)?;
    let (header, claims) = signed.split_once('.').ok_or(JwtError::Malformed)?;
    let header: Header = part(header)?;
    let key = find(&header.kid).ok_or(JwtError::UnknownKey)?;
    // The algorithm is the key's, never the token's choice.
    if header.alg != algorithm(key.curve()) {
        return Err(JwtError::Malformed);
    }
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| JwtError::Malformed)?;
    if !key.verify_fixed(signed.as_bytes(), &signature) {
        return Err(JwtError::Signature);
    }
    part(claims)
}

fn part<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, JwtError> {
    let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| JwtError::Malformed)?;
    serde_json::from_slice(&json).map_err(|_| JwtError::Malformed)
}

fn algorithm(curve: Curve) -> &'static str {
    match curve {
        Curve::P256 => "ES256",
        Curve::P384 => "ES384",
    }
}
