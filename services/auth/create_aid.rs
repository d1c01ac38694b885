//! `auth.create_aid`: a name for a key, for the first time.

use super::{AuthService, Error};
use kernel::{Aid, Caller};
use proto_schemas::requests::auth::{CreateAid, RegisteredAid};
use proto_schemas::requests::ca;
use std::sync::Arc;

impl AuthService {
    pub(super) async fn create_aid(
        self: Arc<Self>,
        caller: Caller,
        params: CreateAid,
    ) -> Result<RegisteredAid, Error> {
        let aid = registrable(&params.aid, &self.issuer)?;
        if let Some(curve) = params.curve.filter(|curve| curve != "P-256") {
            return Err(Error::Curve(curve));
        }

        // The certificate is the registration: the authority stores it before it answers, and recognises the same key.
        let request = ca::IssueCert {
            aid: aid.clone(),
            public_key: params.public_key,
            curve: ca::KeyCurve::P256,
            key_purpose: None,
            additional: None,
        };
        let ca::IssuedCertificate { cert, ca_cert, curve, existing, .. } = self.ca(&request).await?;
        // Everybody can ask again for a name that exists, with the key that its certificate shows.
        if existing != Some(true) {
            self.note_new_agent(&aid, caller.address()).await?;
        }
        Ok(RegisteredAid { aid, cert, ca_cert: Some(ca_cert), curve: Some(curve) })
    }
}

fn registrable(text: &str, issuer: &str) -> Result<Aid, Error> {
    // Clients compare the certificate's name with what they asked for, character by character.
    if text != text.to_ascii_lowercase() {
        return Err(Error::NotLowerCase(text.chars().take(80).collect()));
    }
    let aid = Aid::parse(text)?;
    if aid.as_str() != text {
        return Err(Error::Param("aid must not have white space around it".to_owned()));
    }
    if aid.issuer() != issuer {
        return Err(Error::ForeignIssuer { aid: aid.to_string(), issuer: issuer.to_owned() });
    }
    if proto_schemas::is_reserved(aid.name()) {
        return Err(Error::Reserved(aid.name().to_owned()));
    }
    Ok(aid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_foreign_and_upper_case_names_are_refused() {
        let refused = |text| registrable(text, "aid.pub").unwrap_err();
        assert!(matches!(refused("auth.aid.pub"), Error::Reserved(_)));
        assert!(matches!(refused("guest42.aid.pub"), Error::Reserved(_)));
        assert!(matches!(refused("alice.aid.net"), Error::ForeignIssuer { .. }));
        assert!(matches!(refused("Alice.aid.pub"), Error::NotLowerCase(_)));
        assert!(matches!(refused("bob.aid.pub"), Error::Aid(_)));
        assert!(matches!(refused(" alice.aid.pub"), Error::Param(_)));
        assert!(registrable("alice.aid.pub", "aid.pub").is_ok());
    }
}
