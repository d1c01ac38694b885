//! That an AID agrees to being registered by somebody else, or to getting its messages by webhook: a signature by its key.

use crate::store::agents::{self, AgentRow, WriteTx};
use crate::{AgentService, Error};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kernel::{Aid, sha256_hex};
use proto_schemas::requests::agent::AgentKeyProof;
use proto_schemas::requests::ca;

/// How old a proof may be, and how far ahead of ours the clock of its signer.
const GOOD_SECONDS: i64 = 300;
const NEEDS_MODE: &str = "webhook_proof needs connection_mode webhook, and the webhook_url that it is for";
const NONCE_CHARACTERS: std::ops::RangeInclusive<usize> = 16..=128;

/// What the key of an AID agrees to. No member of it can have a line feed.
#[derive(Clone, Copy)]
pub(super) enum Agreement<'a> {
    /// Being registered under a name.
    Registration { name: &'a str },
    /// That its messages are sent to a URL. Whoever names the URL reads what others write, so the AID agrees also where it is its own
    /// owner: a token alone is not enough.
    Webhook { url: &'a str },
}

impl Agreement<'_> {
    /// The text that the key of the AID signs.
    pub fn signed_text(self, proof: &AgentKeyProof, owner: &Aid) -> String {
        let AgentKeyProof { aid, timestamp, nonce, .. } = proof;
        let (kind, subject) = match self {
            Agreement::Registration { name } => ("aun-agent-registration-v1", name),
            Agreement::Webhook { url } => ("aun-agent-webhook-v1", url),
        };
        format!("{kind}\n{aid}\n{owner}\n{subject}\n{timestamp}\n{nonce}")
    }
}

/// A proof that was checked, until it is stored with what it agrees to.
pub(super) struct CheckedProof<'a> {
    pub proof: &'a AgentKeyProof,
    pub url: String,
    /// The fingerprint of the key that signed it.
    key: String,
}

/// What a proof of a URL has to be about.
pub(super) struct WebhookClaim<'a, 'b> {
    pub proof: &'a AgentKeyProof,
    pub aid: &'b str,
    pub url: Option<&'b str>,
}

impl AgentService {
    /// Whether a proof holds, and the fingerprint of the key that signed it. That it is used once is checked when it is stored.
    pub(super) async fn check_proof(
        &self,
        proof: &AgentKeyProof,
        owner: &Aid,
        agreement: Agreement<'_>,
    ) -> Result<String, Error> {
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
            return Err(refused("the certificate is no longer in use"));
        }
        let certificate = known.certificate()?;
        let text = agreement.signed_text(proof, owner);
        match certificate.public_key().verify(text.as_bytes(), &signature) {
            true => Ok(certificate.public_key().fingerprint()),
            false => Err(refused("its signature does not verify")),
        }
    }

    /// Whether this is a key of an AID now. One that was replaced or revoked agrees to nothing any more: whoever had it stolen cannot go
    /// on reading.
    pub(crate) async fn is_current_key(&self, aid: &Aid, key: &str) -> Result<bool, Error> {
        for curve in ["P-256", "P-384"] {
            let wanted = ca::GetCert { curve: Some(curve.to_owned()), ..ca::GetCert::of_aid(aid.as_str()) };
            let active = self.mesh.known_cert("agent", &wanted).await?;
            let active = active.map(|known| known.certificate()).transpose()?;
            if active.is_some_and(|certificate| certificate.public_key().fingerprint() == key) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the key of this AID has signed for this URL.
    pub(super) async fn check_webhook_proof<'a>(
        &self,
        claim: WebhookClaim<'a, '_>,
        owner: &Aid,
    ) -> Result<CheckedProof<'a>, Error> {
        let WebhookClaim { proof, aid, url } = claim;
        let Some(url) = url else { return Err(Error::Bad(NEEDS_MODE)) };
        if proof.aid.as_str() != aid {
            return Err(refused("webhook_proof must be by the key of the agent's own AID"));
        }
        let key = self.check_proof(proof, owner, Agreement::Webhook { url }).await?;
        Ok(CheckedProof { proof, url: url.to_owned(), key })
    }
}

impl CheckedProof<'_> {
    /// Stores in the row that its messages go to the URL, and that the proof was used.
    pub async fn apply(&self, tx: &mut WriteTx, row: &mut AgentRow) -> Result<(), Error> {
        if row.connection_mode != "webhook" || row.webhook_url.as_deref() != Some(self.url.as_str()) {
            return Err(Error::Bad(NEEDS_MODE));
        }
        use_once(tx, self.proof).await?;
        row.webhook_agreed = Some(sha256_hex(&self.url));
        row.webhook_agreed_key = Some(self.key.clone());
        Ok(())
    }
}

/// Stores that a proof was used.
pub(super) async fn use_once(tx: &mut WriteTx, proof: &AgentKeyProof) -> Result<(), Error> {
    let expires_at = (proof.timestamp + GOOD_SECONDS) * 1000;
    match agents::use_proof(tx, proof.aid.as_str(), &proof.nonce, expires_at).await? {
        true => Ok(()),
        false => Err(refused("it was used before")),
    }
}

fn refused(reason: &str) -> Error {
    Error::Proof(reason.to_owned())
}
