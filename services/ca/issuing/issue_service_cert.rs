//! `ca.issue_service_cert`: a certificate for a service of this server, such as `auth.{issuer}`. The service keeps its
//! key; only the public half comes here.

use crate::issuing::issue_cert::public_key;
use crate::store::{CertificateRow, ClaimOutcome, NewCertificate};
use crate::{BACKDATE_SECONDS, CaService, Error, LEAF_SECONDS};
use kernel::Caller;
use proto_schemas::requests::ca::{IssueServiceCert, IssuedCertificate, ServiceKeyPurpose};
use std::net::IpAddr;
use std::sync::Arc;

/// How often the name is looked up again when another process was faster. Each time is another process that has its certificate by
/// now, so this is how many of one service may start at the same moment.
const TRIES: usize = 64;

impl CaService {
    pub(crate) async fn issue_service_cert(
        self: Arc<Self>,
        caller: Caller,
        params: IssueServiceCert,
    ) -> Result<IssuedCertificate, Error> {
        let key = public_key(&params.public_key, params.curve.as_str())?;
        let dns_names = params.dns_names.as_deref().unwrap_or_default();
        let ips = addresses(params.ips.as_deref().unwrap_or_default())?;
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
        let certificate =
            self.authority().issue_service(&params.name, &key, dns_names, &ips, &self.urls, from, until)?;
        let purpose = match (params.key_purpose, dns_names.is_empty()) {
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
        params: &IssueServiceCert,
        purpose: &str,
        row: NewCertificate,
    ) -> Result<Option<IssuedCertificate>, Error> {
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
                ClaimOutcome::OtherKey | ClaimOutcome::Kept => Ok(None),
                ClaimOutcome::Revoked => Err(Error::NameRevoked(params.name.clone())),
            },
        }
    }
}

fn addresses(texts: &[String]) -> Result<Vec<IpAddr>, Error> {
    let parsed = texts.iter().map(|text| text.parse());
    parsed.collect::<Result<_, _>>().map_err(|_| Error::Bad("ips must be IP addresses".to_owned()))
}
