//! `ca.revoke_cert`: this certificate, or every certificate of this agent, is not valid any more.

use super::{Ca, Error};
use crate::kernel::{Aid, Audience, Caller, Event};
use certs::Reason;
use proto_schemas::requests::auth;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

#[derive(Deserialize)]
pub(super) struct RevokeCertParams {
    serial: Option<String>,
    aid: Option<Aid>,
    reason: Option<String>,
}

#[derive(Clone, Serialize)]
pub(super) struct CertRevoked {
    revoked: bool,
    aid: String,
    serials: Vec<String>,
}

impl Ca {
    pub(super) async fn revoke_cert(
        self: Arc<Self>,
        _: Caller,
        params: RevokeCertParams,
    ) -> Result<CertRevoked, Error> {
        let reason: Reason = match params.reason.as_deref() {
            Some(text) => text
                .parse()
                .map_err(|_| Error::Bad(format!("reason must be one of RFC 5280, and is {text:?}")))?,
            None => Reason::Unspecified,
        };
        let (aid, serials) = self.to_revoke(&params).await?;

        // Tokens first: after a crash here the agent has to log in again, and nothing was acknowledged yet. The other way
        // round a crash would leave valid tokens of a revoked certificate.
        self.mesh.ask(Caller::service("ca"), &auth::RevokeTokens { aid: aid.clone() }).await?;
        self.store.revoke(&serials, self.clock.now_seconds(), reason.as_str()).await?;
        *self.crl.lock() = None;

        self.tell_gateways("ca.cert_revoked", &aid);
        Ok(CertRevoked { revoked: true, aid, serials })
    }

    async fn to_revoke(&self, params: &RevokeCertParams) -> Result<(String, Vec<String>), Error> {
        if let Some(aid) = &params.aid {
            let rows = self.store.of_aid(aid.as_str()).await?;
            if rows.is_empty() {
                return Err(Error::NotFound(format!("of {aid}")));
            }
            return Ok((aid.to_string(), rows.into_iter().map(|row| row.serial).collect()));
        }
        let serial = params.serial.as_deref().unwrap_or_default();
        let serial = certs::parse_serial(serial)
            .ok_or_else(|| Error::Bad("either aid or serial, in hexadecimal, must be given".to_owned()))?;
        let row = self.store.by_serial(&serial).await?.ok_or_else(|| Error::NotFound(serial.clone()))?;
        Ok((row.aid, vec![serial]))
    }

    /// Has the gateways drop what they cached of this agent's certificates, and close its connections where they must.
    pub(super) fn tell_gateways(&self, what: &str, aid: &str) {
        self.bus.publish(&Event::new(Audience::Gateways, what, &json!({ "aid": aid })));
    }
}
