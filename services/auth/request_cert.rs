//! `auth.request_cert`: a further certificate of a logged-in agent, such as one on P-384.

use super::{Auth, Error, IssuedCert};
use crate::kernel::{Aid, Caller};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

#[derive(Deserialize)]
pub(super) struct RequestCertParams {
    aid: Aid,
    public_key: String,
    curve: certs::Curve,
}

#[derive(Clone, Serialize)]
pub(super) struct Requested {
    status: &'static str,
    aid: Aid,
    cert: String,
    ca_cert: String,
    curve: String,
}

impl Auth {
    pub(super) async fn request_cert(
        self: Arc<Self>,
        caller: Caller,
        params: RequestCertParams,
    ) -> Result<Requested, Error> {
        let RequestCertParams { aid, public_key, curve } = params;
        let session = caller.session()?;
        if session.aid != aid {
            return Err(Error::NotYours { wanted: aid.to_string(), session: session.aid.to_string() });
        }

        let request = json!({ "aid": aid, "public_key": public_key, "curve": curve, "additional": true });
        let issued: IssuedCert = self.ca("ca.issue_cert", request).await?;
        Ok(Requested {
            status: "issued",
            aid,
            cert: issued.cert,
            ca_cert: issued.ca_cert,
            curve: issued.curve,
        })
    }
}
