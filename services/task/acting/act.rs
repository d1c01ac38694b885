//! `task.act`: what the assignee does, called by the service that works on its tasks.

use crate::TaskService;
use crate::model::error::Error;
use kernel::{Caller, CallingAgent, RpcError};
use proto_schemas::Request;
use proto_schemas::requests::task::{Accept, Act, ActResult, Complete, Fail, Get, Reject, RequestInput};
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

impl TaskService {
    pub(crate) async fn act_as_assignee(
        self: Arc<Self>,
        _: Caller,
        Act { aid, method, params }: Act,
    ) -> Result<ActResult, Error> {
        if aid.issuer() != self.issuer {
            return Err(Error::Param(format!("aid must be an agent of {}", self.issuer)));
        }
        if let Some(called) = proto_schemas::find(&method) {
            self.disk.check(called, Some(&params))?;
        }
        let agent = CallingAgent::without_session(aid, IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let caller = Caller::Agent(agent);
        let result = match &*method {
            Get::METHOD => answer::<Get>(self.get(caller, read::<Get>(&params)?).await?),
            Accept::METHOD => answer::<Accept>(self.accept(caller, read::<Accept>(&params)?).await?),
            Reject::METHOD => answer::<Reject>(self.reject(caller, read::<Reject>(&params)?).await?),
            RequestInput::METHOD => {
                answer::<RequestInput>(self.request_input(caller, read::<RequestInput>(&params)?).await?)
            }
            Complete::METHOD => answer::<Complete>(self.complete(caller, read::<Complete>(&params)?).await?),
            Fail::METHOD => answer::<Fail>(self.fail(caller, read::<Fail>(&params)?).await?),
            _ => Err(Error::Param(format!("method: {method} is not called by an assignee"))),
        };
        Ok(ActResult { result: result? })
    }
}

fn read<R: DeserializeOwned>(params: &RawValue) -> Result<R, Error> {
    serde_json::from_str(params.get()).map_err(|error| Error::Param(format!("params: {error}")))
}

fn answer<R: Request>(result: R::Result) -> Result<Box<RawValue>, Error>
where
    R::Result: serde::Serialize,
{
    Ok(to_raw_value(&result).map_err(RpcError::internal)?)
}
