//! A socket before login.

use super::{Conversation, SocketResult, close_reason, connect, dispatch};
use crate::frame::{self, InvalidRequest, RequestFrame, RpcRequest};
use kernel::{BytesOwner, RpcError, codes};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Conversation<S> {
    /// Before login one call is answered at a time, and only so many are.
    pub(super) async fn unauthenticated_frame(
        &mut self,
        read: Result<RequestFrame<'_>, InvalidRequest>,
    ) -> SocketResult {
        self.calls += 1;
        if self.calls > self.gateway.config.limits.preauth_calls {
            return Err(close_reason(1008, "too many calls before login"));
        }
        let request = match read {
            Ok(RequestFrame::One(request)) => request,
            Ok(RequestFrame::Batch(_)) => {
                let error = RpcError::new(codes::INVALID_REQUEST, "arrays are accepted only after login");
                return self.feed(frame::failure(None, &error).into()).await;
            }
            Err(invalid) => {
                return self.feed(frame::failure(invalid.id.as_deref(), &invalid.error).into()).await;
            }
        };
        if request.method == "auth.connect" {
            return self.connect(&request).await;
        }
        if request.method.starts_with("federation.")
            && let Some(federation) = self.gateway.federation.clone()
        {
            return self.federate(&federation, &request).await;
        }
        let answer = dispatch::unauthenticated_call(&self.gateway, self.connection.address, &request).await;
        match answer {
            Some(answer) => self.feed(answer.into()).await,
            None => Ok(()),
        }
    }

    async fn connect(&mut self, request: &RpcRequest<'_>) -> SocketResult {
        let started = Instant::now();
        let outcome = connect::connect(&self.gateway, &self.connection, &self.nonce, request.params).await;
        let code = outcome.as_ref().err().map_or(0, |refused| refused.error.code());
        let metrics = &self.gateway.metrics;
        metrics.answered(metrics.method("auth.connect"), code, started.elapsed().as_secs_f64());
        let id = request.id;
        match outcome {
            Ok(result) => {
                metrics.sessions.inc();
                self.set_deadline();
                let agent = self.connection.session().map(|open| BytesOwner::Agent(open.session.aid.clone()));
                self.socket.get_mut().logged_in(self.gateway.config.limits.frame_bytes, agent);
                match id {
                    Some(id) => self.feed(frame::success(id, &result).into()).await,
                    None => Ok(()),
                }
            }
            Err(refused) => {
                if let Some(id) = id {
                    self.feed(frame::failure(Some(id), &refused.error).into()).await?;
                }
                match refused.close {
                    Some(code) => Err(close_reason(code, &refused.error.to_string())),
                    None => Ok(()),
                }
            }
        }
    }
}
