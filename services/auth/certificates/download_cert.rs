//! `auth.download_cert`: any certificate by its serial, or the root.

use crate::{AuthService, Error};
use kernel::Caller;
use proto_schemas::requests::ca;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize)]
pub(crate) struct DownloadCertParams {
    cert_sn: String,
}

#[derive(Clone, Serialize)]
pub(crate) struct Downloaded {
    cert: String,
    ca_cert: String,
    cert_chain: Vec<String>,
}

impl AuthService {
    pub(crate) async fn download_cert(
        self: Arc<Self>,
        _: Caller,
        params: DownloadCertParams,
    ) -> Result<Downloaded, Error> {
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
        Ok(Downloaded { cert, ca_cert: cert_chain.first().cloned().unwrap_or_default(), cert_chain })
    }
}
