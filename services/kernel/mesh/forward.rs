//! Calls to other domains, which the gateway passes on.

use super::Mesh;
use crate::federation::Forwarder;
use crate::rpc::PendingAnswer;
use crate::{Caller, RpcError, trace};
use proto_schemas::requests::gateway::{
    DispatchEvent, ForwardFederation, ForwardFederationBatch, ForwardedCalls,
};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;

/// The longest a call to another domain may take.
const FORWARD_TIMEOUT: Duration = Duration::from_secs(25);

impl Mesh {
    pub fn set_forwarder(&self, forwarder: Arc<dyn Forwarder>) {
        *self.forwarder.write() = Some(forwarder);
    }

    /// Calls a method at another domain. What fails there fails here with the same code.
    ///
    /// `cause` is the caller that the handler was given, or the service itself for what it does without being asked. The
    /// gateway learns from it how many relays led to this one; a service cannot say so itself.
    pub fn forward(
        self: &Arc<Self>,
        service: &str,
        cause: &Caller,
        forward: ForwardFederation,
    ) -> PendingAnswer<Box<RawValue>> {
        let caller = Caller::service_in_call(service, cause);
        let step = trace::step("relay", "forward");
        if let Some(forwarder) = self.forwarder.read().clone() {
            let answering = forwarder.forward(&caller, forward);
            let Some(step) = step else { return answering };
            return Box::pin(async move {
                let answer = answering.await;
                drop(step);
                answer
            });
        }
        let mesh = self.clone();
        Box::pin(async move {
            let forwarded = mesh.ask_within(caller, &forward, FORWARD_TIMEOUT).await;
            drop(step);
            Ok(forwarded?.result)
        })
    }

    /// The same for many calls to one domain.
    pub async fn forward_batch(
        &self,
        service: &str,
        cause: &Caller,
        batch: &ForwardFederationBatch,
    ) -> Result<ForwardedCalls, RpcError> {
        let caller = Caller::service_in_call(service, cause);
        self.ask_within(caller, batch, FORWARD_TIMEOUT).await
    }

    /// Publishes an event to agents of any domain. It is lost for those that cannot be reached now.
    pub async fn dispatch(
        &self,
        service: &str,
        cause: &Caller,
        event: &DispatchEvent,
    ) -> Result<(), RpcError> {
        let caller = Caller::service_in_call(service, cause);
        self.ask_within(caller, event, FORWARD_TIMEOUT).await?;
        Ok(())
    }
}
