//! `agent.put_agent_md`: publish, if the document is well-formed, its signatures verify, and it has not changed meanwhile.

use super::store::{AgentMdWrite, Condition, NewAgentMd};
use super::{AgentService, Error};
use kernel::agent_md::{AgentMd, AgentMdWarning, SignatureBlock};
use kernel::{Caller, RpcError, sha256_hex};
use proto_schemas::requests::agent::{AgentMdNote, PutAgentMd, StoredAgentMdVersion};
use proto_schemas::requests::ca;
use std::sync::Arc;

/// How far ahead of ours a signer's clock may be.
const SKEW_SECONDS: i64 = 300;

impl AgentService {
    pub(super) async fn put_agent_md(
        self: Arc<Self>,
        caller: Caller,
        params: PutAgentMd,
    ) -> Result<StoredAgentMdVersion, Error> {
        let PutAgentMd { aid, content, if_match, if_none_match } = params;
        let document = AgentMd::parse_new(&content)?;
        if !document.front.aid.eq_ignore_ascii_case(aid.as_str()) {
            return Err(Error::OtherAgent { found: document.front.aid, expected: aid.to_string() });
        }
        // Whoever reads one signature reads the first one, so it has to be of the agent that the document is about.
        if let Some(other) = document.blocks.first().and_then(|first| first.signer_aid.as_deref())
            && !other.eq_ignore_ascii_case(aid.as_str())
        {
            let reason = format!("it must be signed by {aid}, not by {other}: other signers come after it");
            return Err(Error::Signature { block: 1, reason });
        }
        for (index, block) in document.blocks.iter().enumerate() {
            let signer = block.signer_aid.as_deref().unwrap_or(aid.as_str());
            self.check_signature(signer, block, &content)
                .await?
                .map_err(|reason| Error::Signature { block: index + 1, reason })?;
        }

        let warnings = notes(&document);
        let (etag, now) = (etag(&content), self.clock.now_ms());
        let signed = !document.blocks.is_empty();
        let writer = caller.calling_agent().ok().filter(|writer| writer.aid == aid);
        let payer = match writer {
            Some(writer) => self.store.account.payer(writer),
            None => self.store.account.payer_of(aid.clone()),
        };
        let new = NewAgentMd { aid: aid.as_str(), content: &content, etag: &etag, signed, now, payer };
        let condition = Condition::of(if_match.as_deref(), if_none_match.as_deref());
        let last_modified = match self.store.put(&new, &condition).await? {
            AgentMdWrite::Written => {
                self.tell_readers();
                now
            }
            // The same bytes again are no change, and keep their time.
            AgentMdWrite::Unchanged(since) => since,
            AgentMdWrite::Refused | AgentMdWrite::Absent => return Err(Error::Changed(aid.to_string())),
            AgentMdWrite::Full(full) => return Err(Error::Other(full.into())),
            AgentMdWrite::Unsigned => return Err(Error::Unsigned(aid.to_string())),
        };
        Ok(StoredAgentMdVersion { aid, etag, last_modified, warnings })
    }

    /// The outer error is ours, the inner one the signer's.
    async fn check_signature(
        &self,
        signer: &str,
        block: &SignatureBlock,
        text: &str,
    ) -> Result<Result<(), String>, RpcError> {
        let cert_fingerprint = Some(block.cert_fingerprint.clone());
        let wanted = ca::GetCert { cert_fingerprint, ..ca::GetCert::of_aid(signer) };
        let Some(known) = self.mesh.known_cert("agent", &wanted).await? else {
            return Ok(Err(format!("{signer} has no certificate with this fingerprint")));
        };
        if matches!(known.lifecycle_state.as_str(), "revoked" | "inactive") {
            return Ok(Err(format!("the certificate is {}", known.lifecycle_state)));
        }
        let now = self.clock.now_seconds();
        let superseded = known.deactivated_at.is_some_and(|at| block.timestamp >= at);
        if superseded
            || block.timestamp > now + SKEW_SECONDS
            || !(known.not_before..=known.not_after).contains(&block.timestamp)
        {
            return Ok(Err("it must be made while the certificate is active".to_owned()));
        }
        let certificate = known.certificate()?;
        let key = certificate.public_key();
        if block.public_key_fingerprint.as_ref().is_some_and(|fingerprint| *fingerprint != key.fingerprint())
        {
            return Ok(Err("public_key_fingerprint must be that of the certificate's key".to_owned()));
        }
        if !key.verify(&text.as_bytes()[..block.start], &block.signature) {
            return Ok(Err("the signature does not verify".to_owned()));
        }
        Ok(Ok(()))
    }
}

/// What could be better about a document, if anything.
fn notes(document: &AgentMd) -> Option<Vec<AgentMdNote>> {
    let notes = document.warnings().into_iter();
    let notes: Vec<AgentMdNote> =
        notes.map(|AgentMdWarning { path, message }| AgentMdNote { path, message }).collect();
    (!notes.is_empty()).then_some(notes)
}

/// Clients compute the same: the quoted SHA-256 of the whole.
pub(super) fn etag(content: &str) -> String {
    format!("\"{}\"", sha256_hex(content))
}
