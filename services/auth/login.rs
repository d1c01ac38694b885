//! What passes from `auth.aid_login1` to the call that completes it, sealed inside the nonce.

mod aid_login1;
mod aid_login2;

use super::{AuthService, Error, KnownCert};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use certs::{Certificate, PublicKey};
use kernel::Aid;
use proto_schemas::requests::ca;
use ring::hmac;

/// Single use, and for one minute.
pub(super) const NONCE_MS: i64 = 60_000;

/// A login that has begun.
pub(super) struct Pending {
    pub request_id: String,
    pub expires_at: i64,
    pub fingerprint: String,
}

/// Seals and opens login nonces. Only this server can make one, and it cannot be moved to another agent, certificate or
/// request.
pub(super) struct Seal(hmac::Key);

impl Seal {
    pub fn new(secret: &[u8; 32]) -> Seal {
        Seal(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    pub fn close(&self, aid: &Aid, pending: &Pending, salt: [u8; 16]) -> String {
        let Pending { request_id, expires_at, fingerprint } = pending;
        let inner = format!("{expires_at}|{request_id}|{fingerprint}|{}", hex::encode(salt));
        let tag = hmac::sign(&self.0, format!("{aid}|{inner}").as_bytes());
        format!("{}.{}", URL_SAFE_NO_PAD.encode(&inner), URL_SAFE_NO_PAD.encode(tag))
    }

    pub fn open(&self, aid: &Aid, nonce: &str) -> Option<Pending> {
        let (inner, tag) = nonce.split_once('.')?;
        let inner = String::from_utf8(URL_SAFE_NO_PAD.decode(inner).ok()?).ok()?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        hmac::verify(&self.0, format!("{aid}|{inner}").as_bytes(), &tag).ok()?;
        let mut parts = inner.split('|');
        Some(Pending {
            expires_at: parts.next()?.parse().ok()?,
            request_id: parts.next()?.to_owned(),
            fingerprint: parts.next()?.to_owned(),
        })
    }
}

impl AuthService {
    /// Opens the nonce, finds the certificate it was made for, and checks the signature over `signed` with its key.
    pub(super) async fn complete(
        &self,
        aid: &Aid,
        request_id: &str,
        nonce: &str,
        signed: &str,
        signature: &str,
    ) -> Result<(Pending, KnownCert, Certificate), Error> {
        let pending =
            self.keys.seal.open(aid, nonce).ok_or(Error::Nonce("not one this server gave to this agent"))?;
        if pending.request_id != request_id {
            return Err(Error::Nonce("it belongs to another request_id"));
        }
        let now = self.clock.now_ms();
        // A clock that jumped back must not make expired nonces valid again.
        if now >= pending.expires_at || pending.expires_at - now > NONCE_MS {
            return Err(Error::Nonce("it has expired, begin again with auth.aid_login1"));
        }
        let known = self.known(aid, &pending.fingerprint).await?;
        let certificate = known.certificate()?;
        let signature = STANDARD
            .decode(signature)
            .map_err(|_| Error::Param("signature must be standard base64".into()))?;
        if !certificate.public_key().verify(signed.as_bytes(), &signature) {
            return Err(Error::Signature);
        }
        Ok((pending, known, certificate))
    }

    /// The certificate with this fingerprint, if this agent may still log in with it: it is on P-256, for signing, and its key is
    /// that of the active one. Other certificates of an agent log nobody in.
    pub(super) async fn known(&self, aid: &Aid, fingerprint: &str) -> Result<KnownCert, Error> {
        let wanted = ca::GetCert { cert_fingerprint: Some(fingerprint.to_owned()), ..login_certificate(aid) };
        let Some(known) = self.mesh.known_cert("auth", &wanted).await? else {
            return Err(Error::NotRegistered(aid.to_string()));
        };
        match known.lifecycle_state.as_str() {
            "active_signing" => Ok(known),
            "revoked" => Err(Error::Revoked(known.serial)),
            // Superseded or expired. If a renewed certificate is for the same key, its holder merely missed our answer.
            _ => {
                let Some(active) = self.active(aid).await? else {
                    // The name lapsed; the caller says that it expired.
                    let lapsed = known.lifecycle_state == "expired";
                    return if lapsed { Ok(known) } else { Err(Error::Replaced(aid.to_string())) };
                };
                let key = |known: &KnownCert| known.certificate().map(|it| it.public_key().fingerprint());
                if key(&active)? == key(&known)? { Ok(known) } else { Err(Error::Replaced(aid.to_string())) }
            }
        }
    }

    pub(super) async fn active(&self, aid: &Aid) -> Result<Option<KnownCert>, Error> {
        Ok(self.mesh.known_cert("auth", &login_certificate(aid)).await?)
    }

    /// The certificate that a successor replaces: the one shown, or, if that was renewed and the answer lost, the active
    /// one of the same key.
    pub(super) async fn current(&self, aid: &Aid, known: KnownCert) -> Result<KnownCert, Error> {
        match known.lifecycle_state.as_str() {
            "active_signing" | "expired" => Ok(known),
            _ => self.active(aid).await?.ok_or_else(|| Error::Replaced(aid.to_string())),
        }
    }

    /// Marks the login as used; an error if it already was. Stored before anything is done because of it.
    pub(super) async fn use_up(&self, pending: &Pending) -> Result<(), Error> {
        if !self.store.use_login(&pending.request_id, pending.expires_at).await? {
            return Err(Error::Nonce("it was used already"));
        }
        Ok(())
    }
}

/// The active certificate whose key logs in.
fn login_certificate(aid: &Aid) -> ca::GetCert {
    ca::GetCert {
        key_purpose: Some("signing".to_owned()),
        curve: Some("P-256".to_owned()),
        ..ca::GetCert::of_aid(aid.as_str())
    }
}

/// Whoever asks for a certificate has the private half of its key: it signed what the key of the agent signed.
pub(super) fn check_possession(public_key: &str, signed: &str, proof: &str) -> Result<(), Error> {
    let decoded = |name: &str, text: &str| {
        STANDARD.decode(text).map_err(|_| Error::Param(format!("{name} must be standard base64")))
    };
    let key = PublicKey::from_spki_der(&decoded("public_key", public_key)?)
        .map_err(|error| Error::Param(format!("public_key: {error}")))?;
    if !key.verify(signed.as_bytes(), &decoded("proof", proof)?) {
        return Err(Error::Proof);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testing::cases;

    fn pending() -> Pending {
        Pending { request_id: "req-1".into(), expires_at: 5, fingerprint: "sha256:ab".into() }
    }

    #[test]
    fn a_nonce_opens_for_its_agent_only() {
        let (alice, carol) = (Aid::parse("alice.aid.pub").unwrap(), Aid::parse("carol.aid.pub").unwrap());
        let seal = Seal::new(&[7; 32]);
        let nonce = seal.close(&alice, &pending(), [1; 16]);
        assert_eq!(seal.open(&alice, &nonce).unwrap().request_id, "req-1");
        assert!(seal.open(&carol, &nonce).is_none());
        assert!(Seal::new(&[8; 32]).open(&alice, &nonce).is_none());
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn a_changed_nonce_never_opens(at in 0usize..80, to in "[A-Za-z0-9_.-]") {
            let (alice, seal) = (Aid::parse("alice.aid.pub").unwrap(), Seal::new(&[7; 32]));
            let nonce = seal.close(&alice, &pending(), [1; 16]);
            let mut changed = nonce.clone();
            let at = at % nonce.len();
            changed.replace_range(at..=at, &to);
            if changed != nonce {
                prop_assert!(seal.open(&alice, &changed).is_none());
            }
        }
    }
}
