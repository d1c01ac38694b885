//! What a connection does when nothing happens: it pings, and closes what has been idle for too long.

use super::{Conversation, SocketEnd, SocketResult, close_reason, ms};
use crate::connection::{CloseReason, ConnectionKind, OpenSession};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Conversation<S> {
    /// Sets when to look at the clock next.
    pub(super) fn set_deadline(&mut self) {
        let limits = &self.gateway.config.limits;
        let mut wait = ms(limits.ping_interval_ms);
        if self.pinged {
            wait = ms(limits.ping_timeout_ms);
        }
        if let Some(OpenSession { kind: ConnectionKind::Short(Some(ttl)), .. }) = self.connection.session() {
            let period = Duration::from_secs_f64((*ttl as f64 / 4000.0).clamp(0.2, 5.0));
            wait = wait.min(period);
        }
        self.deadline.as_mut().reset(Instant::now() + wait);
    }

    pub(super) async fn on_deadline(&mut self) -> SocketResult {
        if let Some(inbound) = &self.inbound {
            if inbound.is_expired(self.gateway.clock.now_ms()) {
                return Err(close_reason(1001, "this link has to authenticate again"));
            }
            return self.check_alive().await;
        }
        let Some(open) = self.connection.session() else {
            let waited = self.opened.elapsed();
            tracing::debug!(conn.id = self.connection.id, "no login within {waited:?}");
            return Err(close_reason(4008, "no successful auth.connect in time"));
        };
        if let ConnectionKind::Short(Some(ttl)) = open.kind {
            let idle = u64::try_from(self.last_call.elapsed().as_millis()).unwrap_or(u64::MAX);
            if idle >= ttl {
                let detail = json!({ "aid": open.session.aid, "ttl_ms": ttl, "idle_ms": idle });
                return Err(SocketEnd::CloseReason(CloseReason::disconnect(
                    4014,
                    "short_connection_idle",
                    &detail,
                )));
            }
            // A short connection looks at the clock more often than it is pinged.
            let recent = self.last_call.elapsed() < ms(self.gateway.config.limits.ping_interval_ms);
            if recent && !self.pinged {
                self.set_deadline();
                return Ok(());
            }
        }
        self.check_alive().await
    }

    /// A client that sent nothing for a while is pinged, and has to answer.
    pub(super) async fn check_alive(&mut self) -> SocketResult {
        // A connection that is not read, because too many of its calls are in flight, cannot be seen to answer.
        if std::mem::take(&mut self.heard) || !self.may_read() {
            self.pinged = false;
        } else if self.pinged {
            return Err(close_reason(1001, "no answer to a ping"));
        } else {
            self.pinged = true;
            self.send(Message::Ping(Default::default())).await?;
        }
        self.set_deadline();
        Ok(())
    }
}
