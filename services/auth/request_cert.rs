//! `auth.request_cert`: a further certificate of a logged-in agent, such as one on P-384.

use super::{Auth, Error};
use crate::kernel::{Aid, Caller};
use proto_schemas::requests::ca;
use serde::{Deserialize, Serialize};
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
        let session = caller.agent()?;
        if session.aid != aid {
            return Err(Error::NotYours { wanted: aid.to_string(), session: session.aid.to_string() });
        }

        let request = ca::IssueCert {
            aid: aid.to_string(),
            public_key,
            curve: curve.to_string(),
            additional: Some(true),
            ..ca::IssueCert::default()
        };
        let issued = self.ca(&request).await?;
        Ok(Requested {
            status: "issued",
            aid,
            cert: issued.cert,
            ca_cert: issued.ca_cert,
            curve: issued.curve,
        })
    }
}
