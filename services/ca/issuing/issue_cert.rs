//! `ca.issue_cert`: the certificate of a new name, or a further one of a name that exists.

use crate::store::{CertificateRow, ClaimOutcome, NewCertificate};
use crate::{CaService, Error};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::PublicKey;
use kernel::Caller;
use proto_schemas::requests::ca::{IssueCert, IssuedCertificate};
use std::sync::Arc;

impl CaService {
    pub(crate) async fn issue_cert(
        self: Arc<Self>,
        _: Caller,
        params: IssueCert,
    ) -> Result<IssuedCertificate, Error> {
        let key = public_key(&params.public_key, params.curve.as_str())?;
        if params.aid.issuer() != self.issuer {
            return Err(Error::ForeignIssuer { aid: params.aid.to_string(), issuer: self.issuer.clone() });
        }
        let key_purpose = params.key_purpose.as_deref().unwrap_or("signing");
        if !matches!(key_purpose, "signing" | "group_identity") {
            return Err(Error::Bad("key_purpose must be signing or group_identity".to_owned()));
        }

        let certificate = self.sign_agent(params.aid.as_str(), &key)?;
        let row = CertificateRow::new(&certificate, params.aid.as_str(), key_purpose);

        let claim = NewCertificate {
            row: row.clone(),
            issued_at: self.clock.now_ms(),
            additional: params.additional.unwrap_or_default(),
        };
        let outcome = match claim.additional {
            true => self.store.claim_further(&claim).await?,
            false => self.claims.submit(claim, row.pem.len() + 512).await?,
        };
        match outcome {
            ClaimOutcome::New => Ok(self.issued(&row, false, None)),
            ClaimOutcome::Same(row) => Ok(self.issued(&row, true, None)),
            ClaimOutcome::OtherKey => Err(Error::OtherKey(row.aid)),
            ClaimOutcome::Revoked => Err(Error::NameRevoked(row.aid)),
            ClaimOutcome::Kept => Err(Error::NameKept(row.aid)),
        }
    }
}

/// A key as the protocol writes it: standard base64 of the DER `SubjectPublicKeyInfo`, on the curve it claims.
pub(crate) fn public_key(text: &str, curve: &str) -> Result<PublicKey, Error> {
    let der = STANDARD.decode(text).map_err(|_| Error::Key("must be standard base64".to_owned()))?;
    let key = PublicKey::from_spki_der(&der).map_err(|error| Error::Key(error.to_string()))?;
    if key.curve().as_str() != curve {
        return Err(Error::Key(format!("must be on the curve {curve}, and is on {}", key.curve())));
    }
    Ok(key)
}
