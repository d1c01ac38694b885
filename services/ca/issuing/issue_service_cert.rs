//! `ca.issue_service_cert`: a certificate for a service of this server, such as `auth.{issuer}`. The service keeps its
//! key; only the public half comes here.

use crate::issuing::issue_cert::public_key;
use crate::store::{CertificateRow, ClaimOutcome, NewCertificate};
use crate::{BACKDATE_SECONDS, CaService, Error, Issued, LEAF_SECONDS};
use certs::Curve;
use kernel::Caller;
use serde::Deserialize;
use std::net::IpAddr;
use std::sync::Arc;

/// How often the name is looked up again when another process was faster. Each time is another process that has its certificate by
/// now, so this is how many of one service may start at the same moment.
const TRIES: usize = 64;

#[derive(Deserialize)]
pub(crate) struct IssueServiceCertParams {
    name: String,
    public_key: String,
    curve: Curve,
    key_purpose: Option<ServiceKeyPurpose>,
    replaces: Option<String>,
    #[serde(default)]
    dns_names: Vec<String>,
    #[serde(default)]
    ips: Vec<IpAddr>,
}

/// What tells two keys of a service apart that are on one curve.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ServiceKeyPurpose {
    Login,
}

impl CaService {
    pub(crate) async fn issue_service_cert(
        self: Arc<Self>,
        caller: Caller,
        params: IssueServiceCertParams,
    ) -> Result<Issued, Error> {
        let key = public_key(&params.public_key, params.curve)?;
        let Some((named, _)) = params.name.split_once('.').filter(|(_, issuer)| *issuer == self.issuer)
        else {
            return Err(Error::ForeignIssuer { aid: params.name, issuer: self.issuer.clone() });
        };
        // A service is given a certificate for itself, and for no other.
        if let Some(service) = caller.service_name().filter(|service| *service != named) {
            return Err(Error::OtherService { service: service.to_owned(), name: params.name });
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
        let purpose = match (params.key_purpose, params.dns_names.is_empty()) {
            (Some(ServiceKeyPurpose::Login), _) => "login",
            (None, true) => "service",
            (None, false) => "tls",
        };
        let new = |state: &str| {
            let row = CertificateRow {
                state: state.to_owned(),
                ..CertificateRow::new(&certificate, &params.name, purpose)
            };
            NewCertificate { row, issued_at: self.clock.now_ms(), additional: true }
        };

        // Two processes of one service may ask at the same moment; the second finds the certificate of the first and
        // replaces it.
        for _ in 0..TRIES {
            if let Some(issued) = self.activate(&params, purpose, new("active_signing")).await? {
                return Ok(issued);
            }
        }
        Err(Error::OtherKey(params.name))
    }

    /// `None` if another process was faster.
    async fn activate(
        &self,
        params: &IssueServiceCertParams,
        purpose: &str,
        row: NewCertificate,
    ) -> Result<Option<Issued>, Error> {
        let active = self.store.active_of(&params.name).await?;
        let same_kind =
            active.iter().find(|row| row.key_purpose == purpose && row.curve == params.curve.as_str());
        let replaces = params.replaces.as_deref().and_then(certs::parse_serial);
        let named = active.iter().find(|row| replaces.as_deref() == Some(row.serial.as_str()));
        match same_kind.or(named) {
            // Rotation: the old certificate still verifies what it signed, the new one signs from now on.
            Some(old) if self.store.replace(&old.serial, &row).await? => {
                Ok(Some(self.issued(&row.row, false, Some(old.serial.clone()))))
            }
            Some(_) => Ok(None),
            None => match self.claims.submit(row.clone(), row.row.pem.len()).await? {
                ClaimOutcome::New => Ok(Some(self.issued(&row.row, false, None))),
                ClaimOutcome::Same(row) => Ok(Some(self.issued(&row, true, None))),
                ClaimOutcome::OtherKey => Ok(None),
                ClaimOutcome::Revoked => Err(Error::NameRevoked(params.name.clone())),
            },
        }
    }
}
