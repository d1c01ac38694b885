//! `auth.download_cert`: any certificate by its serial, or the root.

use crate::{AuthService, Error};
use kernel::Caller;
use proto_schemas::requests::auth::{CertificateWithChain, DownloadCert};
use proto_schemas::requests::ca;
use std::sync::Arc;

impl AuthService {
    pub(crate) async fn download_cert(
        self: Arc<Self>,
        _: Caller,
        params: DownloadCert,
    ) -> Result<CertificateWithChain, Error> {
        let cert_chain = self.ca(&ca::GetCertChain {}).await?.certs;
        let cert = match params.cert_sn.as_str() {
            "root" => cert_chain.last().cloned().unwrap_or_default(),
            serial if certs::parse_serial(serial).is_none() => {
                return Err(Error::Param("cert_sn must be root or a serial in hexadecimal".to_owned()));
            }
            serial => {
                let wanted = ca::GetCert { serial: Some(serial.to_owned()), ..ca::GetCert::default() };
                let Some(cert) = self.ca(&wanted).await?.cert else {
                    return Err(Error::NoCertificate(serial.chars().take(80).collect()));
                };
                cert
            }
        };
        let ca_cert = cert_chain.first().cloned().unwrap_or_default();
        Ok(CertificateWithChain { cert, ca_cert, cert_chain })
    }
}
