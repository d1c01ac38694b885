//! One WebSocket: calls and their answers.

pub(crate) mod dial;
pub(crate) mod first_use;
pub(crate) mod gateway_url;
pub(crate) mod http;
pub(crate) mod transport;
pub(crate) mod trust;

use super::error::Error;
use super::events::EventReaders;
use jsonrpsee_core::client::async_client::{PingConfig, RpcService};
use jsonrpsee_core::client::{self as rpc, ClientT as _, IdKind};
use jsonrpsee_core::middleware::RpcServiceBuilder;
use jsonrpsee_core::traits::ToRpcParams;
use proto_schemas::Request;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use transport::{ByteStream, ConnectionEnd, FrameObserver, FrameSender};

/// How long a call may take; the SDKs wait as long.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(35);

/// How often the gateway is pinged, and after how long without a frame the connection counts as lost.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_secs(60);

/// How long the server has to answer a close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A socket whose challenge has been read. Calls may be made at the same time.
pub struct ClientConnection {
    rpc: rpc::Client<RpcService>,
    nonce: String,
    sender: FrameSender,
    end: ConnectionEnd,
}

/// Parameters that are JSON already.
struct CallParams(Box<RawValue>);

impl ToRpcParams for CallParams {
    fn to_rpc_params(self) -> Result<Option<Box<RawValue>>, serde_json::Error> {
        Ok(Some(self.0))
    }
}

impl ClientConnection {
    /// A WebSocket over a stream that the caller has dialled, for calls alone: events are dropped. The URL names the host and the
    /// path of the upgrade.
    pub async fn over(stream: impl ByteStream + 'static, url: &str) -> Result<ClientConnection, Error> {
        ClientConnection::open(url, Box::new(stream), None, None).await
    }

    pub(crate) async fn open(
        url: &str,
        stream: Box<dyn ByteStream>,
        observer: Option<FrameObserver>,
        events: Option<Arc<EventReaders>>,
    ) -> Result<ClientConnection, Error> {
        let upgraded = tokio_tungstenite::client_async(url, stream).await;
        let (socket, _) = upgraded.map_err(|error| Error::Unexpected(error.to_string()))?;
        let (sender, mut receiver) = transport::split(socket, observer, events);
        let (nonce, end) = (receiver.challenge().await?, receiver.end());
        let pings = PingConfig::new().ping_interval(PING_INTERVAL).inactive_limit(SILENCE);
        let rpc = rpc::async_client::ClientBuilder::new()
            // The layer that it brings logs parameters, and there are tokens among them.
            .set_rpc_middleware(RpcServiceBuilder::new())
            .request_timeout(CALL_TIMEOUT)
            .id_format(IdKind::String)
            .enable_ws_ping(pings)
            .build_with_tokio(sender.clone(), receiver);
        Ok(ClientConnection { rpc, nonce, sender, end })
    }

    /// The nonce of the challenge, which `auth.connect` repeats.
    pub fn nonce(&self) -> &str {
        &self.nonce
    }

    /// The result of a call by the name of its method.
    pub async fn call(&self, method: &str, params: &Value) -> Result<Value, Error> {
        self.answer(method, params).await
    }

    /// The result of a call that has a type.
    pub async fn request<R: Request>(&self, request: &R) -> Result<R::Result, Error> {
        self.answer(R::METHOD, request).await
    }

    /// Waits for the end of the connection, and says why it ended.
    pub async fn ended(&self) -> Error {
        let error = self.rpc.on_disconnect().await;
        self.end_or(&error)
    }

    /// Ends the connection as the SDKs do, with 1000.
    pub async fn close(&self) {
        self.sender.send_close().await;
        let _ = timeout(CLOSE_TIMEOUT, self.rpc.on_disconnect()).await;
    }

    async fn answer<T: DeserializeOwned>(&self, method: &str, params: impl Serialize) -> Result<T, Error> {
        let params = to_raw_value(&params).map_err(|error| Error::Invalid(error.to_string()))?;
        let answer = self.rpc.request(method, CallParams(params)).await;
        answer.map_err(|error| match error {
            rpc::Error::Call(error) => match serde_json::to_value(&error) {
                Ok(error) => Error::refused(method, error),
                Err(error) => Error::Unexpected(error.to_string()),
            },
            rpc::Error::RequestTimeout => Error::TimedOut(method.to_owned()),
            rpc::Error::ParseError(error) => Error::Unexpected(format!("{method}: {error}")),
            error => self.end_or(&error),
        })
    }

    /// What the receiving side ended with says more than that there was an end.
    fn end_or(&self, error: &rpc::Error) -> Error {
        if let Some(end) = self.end.get() {
            return end.clone();
        }
        let cause = match error {
            rpc::Error::RestartNeeded(cause) => cause,
            other => other,
        };
        let ours = match cause {
            rpc::Error::Transport(error) => error.downcast_ref::<Error>(),
            _ => None,
        };
        ours.cloned().unwrap_or_else(|| Error::Disconnected(cause.to_string()))
    }
}
