//! `ca.issue_service_cert`: a certificate for a part of this server, such as `auth.{issuer}`. The part keeps its key;
//! only the public half comes here.

use super::issue_cert::public_key;
use super::store::{Claim, NewRow, Row};
use super::{BACKDATE_SECONDS, Ca, Error, Issued, LEAF_SECONDS};
use crate::kernel::Caller;
use certs::Curve;
use serde::Deserialize;
use std::net::IpAddr;
use std::sync::Arc;

/// How often the name is looked up again when somebody else was quicker.
const TRIES: usize = 4;

#[derive(Deserialize)]
pub(super) struct IssueServiceCertParams {
    name: String,
    public_key: String,
    curve: Curve,
    #[serde(default)]
    dns_names: Vec<String>,
    #[serde(default)]
    ips: Vec<IpAddr>,
}

impl Ca {
    pub(super) async fn issue_service_cert(
        self: Arc<Self>,
        _: Caller,
        params: IssueServiceCertParams,
    ) -> Result<Issued, Error> {
        let key = public_key(&params.public_key, params.curve)?;
        if params.name.split_once('.').is_none_or(|(_, issuer)| issuer != self.issuer) {
            return Err(Error::ForeignIssuer { aid: params.name, issuer: self.issuer.clone() });
        }

        let now = self.clock.now_seconds();
        let (from, until) = (now - BACKDATE_SECONDS, now + LEAF_SECONDS);
        let certificate = self.authority().issue_service(
            &params.name,
            &key,
            &params.dns_names,
            &params.ips,
            &self.urls,
            from,
            until,
        )?;
        let purpose = if params.dns_names.is_empty() { "service" } else { "tls" };
        let new = |state: &str| {
            let row = Row { state: state.to_owned(), ..Row::new(&certificate, &params.name, purpose) };
            NewRow { row, issued_at: self.clock.now_ms(), additional: true }
        };

        // Two processes of one part may ask at the same moment; whoever comes second finds the other's and replaces it.
        for _ in 0..TRIES {
            if let Some(issued) = self.put_in_force(&params, purpose, new("active_signing")).await? {
                return Ok(issued);
            }
        }
        Err(Error::Taken(params.name))
    }

    /// `None` if somebody else was quicker.
    async fn put_in_force(
        &self,
        params: &IssueServiceCertParams,
        purpose: &str,
        row: NewRow,
    ) -> Result<Option<Issued>, Error> {
        let held = self.store.of_aid(&params.name).await?;
        let active = held.iter().find(|row| {
            row.state == "active_signing" && row.key_purpose == purpose && row.curve == params.curve.as_str()
        });
        match active {
            // Rotation: the old certificate still verifies what it signed, the new one signs from now on.
            Some(old) if self.store.replace(&old.serial, &row).await? => {
                Ok(Some(self.issued(&row.row, false, Some(old.serial.clone()))))
            }
            Some(_) => Ok(None),
            None => match self.claims.submit(row.clone(), row.row.pem.len()).await? {
                Claim::New => Ok(Some(self.issued(&row.row, false, None))),
                Claim::Same(row) => Ok(Some(self.issued(&row, true, None))),
                Claim::Taken => Ok(None),
                Claim::Held => Err(Error::Held(params.name.clone())),
            },
        }
    }
}
