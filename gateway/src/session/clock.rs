//! What a connection does when nothing happens: it looks for life, and ends what has been idle too long.

use super::{Conversation, End, Go, Kind, close_reason, disconnect, ms};
use crate::session::Bound;
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Conversation<S> {
    /// Sets the next look at the clock for a session.
    pub(super) fn rest(&mut self) {
        let limits = &self.gateway.config.limits;
        let mut wait = ms(limits.ping_interval_ms);
        if self.pinged {
            wait = ms(limits.ping_timeout_ms);
        }
        if let Some(Bound { kind: Kind::Short(Some(ttl)), .. }) = self.link.bound() {
            let period = Duration::from_secs_f64((*ttl as f64 / 4000.0).clamp(0.2, 5.0));
            wait = wait.min(period);
        }
        self.deadline.as_mut().reset(Instant::now() + wait);
    }

    pub(super) async fn look_at_clock(&mut self) -> Go {
        if let Some(guest) = &self.guest {
            if guest.is_expired(self.gateway.clock.now_ms()) {
                return Err(close_reason(1001, "this link has to prove itself anew"));
            }
            return self.look_for_life().await;
        }
        let Some(bound) = self.link.bound() else {
            let waited = self.opened.elapsed();
            tracing::debug!(conn.id = self.link.id, "no login within {waited:?}");
            return Err(close_reason(4008, "no successful auth.connect in time"));
        };
        if let Kind::Short(Some(ttl)) = bound.kind {
            let idle = u64::try_from(self.last_call.elapsed().as_millis()).unwrap_or(u64::MAX);
            if idle >= ttl {
                let detail = json!({ "ttl_ms": ttl, "idle_ms": idle });
                return Err(End::CloseReason(disconnect(4014, "short_connection_idle", &detail)));
            }
            // A short connection looks more often than it is pinged.
            let recent = self.last_call.elapsed() < ms(self.gateway.config.limits.ping_interval_ms);
            if recent && !self.pinged {
                self.rest();
                return Ok(());
            }
        }
        self.look_for_life().await
    }

    /// Whoever said nothing for a while is pinged, and has to answer.
    pub(super) async fn look_for_life(&mut self) -> Go {
        // Whoever is not read, because too many of his calls are under way, cannot be heard.
        if std::mem::take(&mut self.heard) || !self.may_read() {
            self.pinged = false;
        } else if self.pinged {
            return Err(close_reason(1001, "no answer to a ping"));
        } else {
            self.pinged = true;
            self.send(Message::Ping(Default::default())).await?;
        }
        self.rest();
        Ok(())
    }
}
