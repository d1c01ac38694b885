//! That an AID agrees to being registered by somebody else: a signature by its key.

use crate::{AgentService, Error};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kernel::Aid;
use proto_schemas::requests::agent::AgentKeyProof;
use proto_schemas::requests::ca;

/// How old a proof may be, and how far ahead of ours the clock of its signer.
pub(super) const GOOD_SECONDS: i64 = 300;
const NONCE_CHARACTERS: std::ops::RangeInclusive<usize> = 16..=128;

/// The text that the key of the AID signs. No member of it can have a line feed.
pub(super) fn signed_text(proof: &AgentKeyProof, owner: &Aid, name: &str) -> String {
    let AgentKeyProof { aid, timestamp, nonce, .. } = proof;
    format!("aun-agent-registration-v1\n{aid}\n{owner}\n{name}\n{timestamp}\n{nonce}")
}

impl AgentService {
    /// Whether a proof holds. That it is used once is checked when it is stored.
    pub(super) async fn check_proof(
        &self,
        proof: &AgentKeyProof,
        owner: &Aid,
        name: &str,
    ) -> Result<(), Error> {
        if proof.aid.issuer() != self.issuer {
            return Err(refused("the AID is of another domain"));
        }
        let now = self.clock.now_seconds();
        if now.saturating_sub(proof.timestamp).saturating_abs() > GOOD_SECONDS {
            return Err(refused("it must be at most five minutes old"));
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !NONCE_CHARACTERS.contains(&proof.nonce.len()) || !proof.nonce.bytes().all(plain) {
            return Err(refused("its nonce must have 16 to 128 characters of A-Z, a-z, 0-9, '_' and '-'"));
        }
        let Ok(signature) = STANDARD.decode(&proof.signature) else {
            return Err(refused("its signature is not base64"));
        };
        let wanted = ca::GetCert {
            cert_fingerprint: proof.cert_fingerprint.clone(),
            ..ca::GetCert::of_aid(proof.aid.as_str())
        };
        let known = self.mesh.known_cert("agent", &wanted).await?;
        let known = known.ok_or_else(|| refused("the AID has no such certificate"))?;
        let replaced = known.deactivated_at.is_some_and(|at| at <= now);
        if matches!(known.lifecycle_state.as_str(), "revoked" | "inactive")
            || replaced
            || !(known.not_before..=known.not_after).contains(&now)
        {
            return Err(refused("the certificate is not in use any more"));
        }
        let certificate = known.certificate()?;
        let text = signed_text(proof, owner, name);
        match certificate.public_key().verify(text.as_bytes(), &signature) {
            true => Ok(()),
            false => Err(refused("its signature does not verify")),
        }
    }
}

fn refused(reason: &str) -> Error {
    Error::Proof(reason.to_owned())
}
