//! The other side is the gateway of another domain.

use super::{Conversation, Go, close_reason};
use crate::federation::{Federation, InboundPeer};
use crate::frame::{self, Frame, Request};
use services::kernel::{RpcError, codes};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Conversation<S> {
    /// `federation.hello` where a client would say `auth.connect`: from then on this socket is a link between domains.
    pub(super) async fn federate(&mut self, federation: &Arc<Federation>, request: &Request<'_>) -> Go {
        let age_ms = i64::try_from(self.opened.elapsed().as_millis()).unwrap_or(i64::MAX);
        let outcome = match &*request.method {
            "federation.hello" => {
                federation.accept_hello(&self.link, &self.nonce, age_ms, request.params).await
            }
            _ => Err(RpcError::new(codes::UNAUTHENTICATED, "federation.hello comes first")
                .with("reason", "federation_unauthenticated")),
        };
        match outcome {
            Ok((guest, welcome)) => {
                self.guest = Some(guest);
                self.rest();
                let id = request.id.unwrap_or(serde_json::value::RawValue::NULL);
                self.feed(frame::success(id, welcome.get()).into()).await
            }
            Err(error) => {
                self.feed(frame::failure(request.id, &error).into()).await?;
                Err(close_reason(4001, &error.to_string()))
            }
        }
    }

    pub(super) async fn guest_frame(
        &mut self,
        guest: &Arc<InboundPeer>,
        read: Result<Frame<'_>, frame::Refusal>,
    ) -> Go {
        let Some(federation) = self.gateway.federation() else { return Ok(()) };
        let (id, error) = match read {
            Ok(Frame::One(request)) => {
                match federation.receive_frame(guest, &self.link, &self.gateway.tracker, &request) {
                    Ok(()) => return Ok(()),
                    Err(error) => (request.id.map(ToOwned::to_owned), error),
                }
            }
            Ok(Frame::Batch(_)) => (
                None,
                RpcError::new(codes::INVALID_REQUEST, "arrays are not taken on a link between domains"),
            ),
            Err(refusal) => (refusal.id, refusal.error),
        };
        self.feed(frame::failure(id.as_deref(), &error).into()).await?;
        match error.data("reason").is_some_and(|reason| reason == "already_authenticated") {
            true => Err(close_reason(4001, &error.to_string())),
            false => Ok(()),
        }
    }
}
