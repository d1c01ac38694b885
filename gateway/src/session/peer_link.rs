//! A socket whose other side is the gateway of another domain: an inbound peer link.

use super::{Conversation, SocketResult, close_reason};
use crate::federation::{Federation, InboundPeer};
use crate::frame::{self, InvalidRequest, RequestFrame, RpcRequest};
use kernel::{RpcError, codes};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Conversation<S> {
    /// `federation.hello` where a client would send `auth.connect`: from then on this socket is a peer link.
    pub(super) async fn federate(
        &mut self,
        federation: &Arc<Federation>,
        request: &RpcRequest<'_>,
    ) -> SocketResult {
        let age_ms = i64::try_from(self.opened.elapsed().as_millis()).unwrap_or(i64::MAX);
        let outcome = match &*request.method {
            "federation.hello" => match self.gateway.admission.login_failures.within(self.connection.address)
            {
                Ok(()) => {
                    federation.accept_hello(&self.connection, &self.nonce, age_ms, request.params).await
                }
                Err(too_many) => Err(too_many),
            },
            _ => Err(RpcError::new(codes::UNAUTHENTICATED, "federation.hello must be the first call")
                .with("reason", "federation_unauthenticated")),
        };
        match outcome {
            Ok((inbound, welcome)) => {
                self.inbound = Some(inbound);
                self.set_deadline();
                self.socket.get_mut().logged_in(self.gateway.config.limits.frame_bytes, None);
                let id = request.id.unwrap_or(serde_json::value::RawValue::NULL);
                self.feed(frame::success(id, welcome.get()).into()).await
            }
            Err(error) => {
                self.gateway.admission.login_failures.count_error(self.connection.address, &error);
                self.feed(frame::failure(request.id, &error).into()).await?;
                Err(close_reason(4001, &error.to_string()))
            }
        }
    }

    pub(super) async fn peer_frame(
        &mut self,
        inbound: &Arc<InboundPeer>,
        read: Result<RequestFrame<'_>, InvalidRequest>,
    ) -> SocketResult {
        let Some(federation) = &self.gateway.federation else { return Ok(()) };
        let (id, error) = match read {
            Ok(RequestFrame::One(request)) => {
                match federation.receive_frame(inbound, &self.connection, &self.gateway.tracker, &request) {
                    Ok(()) => return Ok(()),
                    Err(error) => (request.id.map(ToOwned::to_owned), error),
                }
            }
            Ok(RequestFrame::Batch(_)) => {
                (None, RpcError::new(codes::INVALID_REQUEST, "arrays are not accepted on a peer link"))
            }
            Err(invalid) => (invalid.id, invalid.error),
        };
        self.feed(frame::failure(id.as_deref(), &error).into()).await?;
        match error.data("reason").is_some_and(|reason| reason == "already_authenticated") {
            true => Err(close_reason(4001, &error.to_string())),
            false => Ok(()),
        }
    }
}
