//! `ca.revoke_cert`: this certificate, or every certificate of this agent, is not valid any more.
//!
//! The certificate is revoked first: from that commit on nobody logs in with it and nothing is refreshed. Then the tokens, which `auth`
//! revokes, and with them the connections. What `auth` has to be told is stored by the same commit, so it is told also if
//! this process is killed in between.

use crate::store::RevocationScope;
use crate::{CaService, Error};
use certs::Reason;
use kernel::{Caller, RpcError};
use proto_schemas::requests::auth;
use proto_schemas::requests::ca::{CertRevoked, RevokeCert, RevokedCertificates};
use std::sync::Arc;
use std::time::Duration;

/// How often the task looks for revocations that nobody was told of, and how soon again after one that could not be told.
const EVERY: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_secs(1);
/// A call that revokes tells of it by itself, within this time.
const TOLD_WITHIN_MS: i64 = 15_000;
/// How many the task reads at once.
const PAGE: i64 = 100;

impl CaService {
    pub(crate) async fn revoke_cert(
        self: Arc<Self>,
        _: Caller,
        params: RevokeCert,
    ) -> Result<RevokedCertificates, Error> {
        let reason: Reason = match params.reason.as_deref() {
            Some(text) => text
                .parse()
                .map_err(|_| Error::Bad(format!("reason must be one of RFC 5280, and is {text:?}")))?,
            None => Reason::Unspecified,
        };
        let scope = self.to_revoke(&params).await?;

        let known_by = self.store.revoke(&scope, self.clock.now_ms(), reason.as_str()).await?;
        self.drop_crl();

        self.announce(scope.aid(), known_by)
            .await
            .map_err(|cause| Error::TokensRemain { aid: scope.aid().to_owned(), cause })?;
        let aid = scope.aid().to_owned();
        let serials = match scope {
            // Those that were added while it waited for its turn are among them.
            RevocationScope::Name(aid) => {
                self.store.of_aid(&aid).await?.into_iter().map(|row| row.serial).collect()
            }
            RevocationScope::Certificate { serial, .. } => vec![serial],
        };
        Ok(RevokedCertificates { revoked: true, aid, serials })
    }

    async fn to_revoke(&self, params: &RevokeCert) -> Result<RevocationScope, Error> {
        if let Some(aid) = &params.aid {
            if self.store.of_aid(aid.as_str()).await?.is_empty() {
                return Err(Error::NotFound(format!("of {aid}")));
            }
            return Ok(RevocationScope::Name(aid.to_string()));
        }
        let serial = params.serial.as_deref().unwrap_or_default();
        let serial = certs::parse_serial(serial)
            .ok_or_else(|| Error::Bad("either aid or serial, in hexadecimal, must be given".to_owned()))?;
        let row = self.store.by_serial(&serial).await?.ok_or_else(|| Error::NotFound(serial.clone()))?;
        Ok(RevocationScope::Certificate { aid: row.aid, serial })
    }

    /// Tells the gateways, and has `auth` revoke the tokens. Done twice it does no harm.
    async fn announce(&self, aid: &str, known_by: i64) -> Result<(), RpcError> {
        self.bus.signal(&CertRevoked { aid: aid.to_owned() });
        self.mesh.ask(Caller::service("ca"), &auth::RevokeTokens { aid: aid.to_owned() }).await?;
        self.store.announced(aid, known_by).await?;
        Ok(())
    }

    /// Tells of what was revoked by a process that was killed before it had told, or while `auth` did not answer. Until the server stops.
    pub(crate) async fn announce_revocations(&self) {
        // Whatever is there at the start was left by a process that has ended.
        let mut told_within = 0;
        loop {
            match self.announce_older_than(self.clock.now_ms() - told_within).await {
                Ok(()) => {
                    told_within = TOLD_WITHIN_MS;
                    tokio::time::sleep(EVERY).await;
                }
                Err(error) => {
                    tracing::info!("tokens of revoked agents could not be revoked, will retry: {error}");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    pub(crate) async fn announce_older_than(&self, before_ms: i64) -> Result<(), RpcError> {
        loop {
            let page = self.store.unannounced(before_ms, PAGE).await?;
            if page.is_empty() {
                return Ok(());
            }
            for (aid, known_by) in page {
                self.announce(&aid, known_by).await?;
                tracing::info!(aid, "the tokens of a revoked agent are revoked now");
            }
        }
    }
}
