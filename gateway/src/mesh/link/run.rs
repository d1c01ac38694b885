//! Keeps a mesh link up: dials the process that runs the namespace, runs the socket until it ends, and dials again.

use super::MeshLink;
use crate::mesh::MeshContext;
use crate::mesh::dial_tls::{DIAL_TIMEOUT, dial_tls};
use crate::mesh::identity::{self, server_name};
use crate::mesh::link_sessions::SentSessions;
use crate::mesh::pending_calls;
use crate::mesh::socket::{self, BufferedTcp, FrameHandler, run_socket};
use crate::mesh::wire::{self, MeshFrame};
use crate::mesh::write_queue::MeshWriteQueue;
use anyhow::Context as _;
use kernel::{Backoff, Mesh};
use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

/// A link is dialled again after a random share of a wait that doubles from the first to the last.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LAST_WAIT: Duration = Duration::from_secs(2);
/// How often deadlines are checked: one timer for all pending calls, instead of one each.
const DEADLINES_EVERY: Duration = Duration::from_millis(100);

type MeshClientSocket = WebSocketStream<TlsStream<BufferedTcp>>;

impl MeshLink {
    /// Dials, runs the link until it ends, and dials again, for ever.
    pub async fn keep_up(&self, context: &MeshContext) {
        let mut backoff = Backoff::new(FIRST_WAIT, LAST_WAIT);
        let mut logged = String::new();
        loop {
            match timeout(DIAL_TIMEOUT, self.connect(context)).await {
                Ok(Ok((socket, not_after))) => {
                    tracing::info!("the {} service is connected at {}", self.namespace, self.url);
                    logged.clear();
                    backoff.reset();
                    let reason = self.run(socket, not_after, context).await;
                    tracing::warn!(
                        "the link to the {} service at {} ended: {reason}",
                        self.namespace,
                        self.url
                    );
                }
                failed => {
                    let cause = match failed {
                        Ok(Err(error)) => format!("{error:#}"),
                        _ => format!("no answer within {} s", DIAL_TIMEOUT.as_secs()),
                    };
                    // Logged once for each cause, not at every attempt.
                    if cause != logged {
                        tracing::warn!(
                            "the {} service is not reached at {}: {cause}",
                            self.namespace,
                            self.url
                        );
                    }
                    logged = cause;
                }
            }
            self.metrics.redials.inc();
            backoff.wait().await;
        }
    }

    /// The socket, and when the first of the two certificates behind it expires.
    async fn connect(&self, context: &MeshContext) -> anyhow::Result<(MeshClientSocket, i64)> {
        let (stream, not_after) = dial_tls(context, self.namespace, &self.url, None).await?;
        let request = format!("wss://{}/mesh", server_name(self.namespace)).into_client_request()?;
        let config = Some(socket::socket_config());
        let (socket, _) = tokio_tungstenite::client_async_with_config(request, stream, config)
            .await
            .context("WebSocket")?;
        Ok((socket, not_after))
    }

    /// Runs the link on this socket until it ends, and returns why it did.
    pub async fn run<S>(
        &self,
        socket: WebSocketStream<S>,
        not_after: i64,
        context: &MeshContext,
    ) -> &'static str
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let queue = MeshWriteQueue::new(wire::CALLS);
        {
            let mut state = self.state.lock();
            state.sent_sessions = SentSessions::default();
            state.queue = Some(queue.clone());
        }
        self.turned_off.lock().clear();
        self.open.store(true, Ordering::Release);
        self.metrics.up.set(1);
        context.mesh.touch();
        let mut handler = AnswerHandler { link: self, mesh: &context.mesh, draining: false };
        let reason = tokio::select! {
            reason = run_socket(socket, &queue, &mut handler) => reason,
            () = identity::expired(&context.clock, not_after) => "a certificate expired",
            () = self.check_deadlines() => "the timer stopped",
        };
        self.close(reason);
        match handler.draining {
            true => context.mesh.touch(),
            false => context.mesh.lost(self.namespace),
        }
        reason
    }

    /// Fails overdue calls. While none is pending it sleeps: every tick polls the socket, too, and a server has many idle links.
    async fn check_deadlines(&self) {
        loop {
            self.first_call.notified().await;
            while self.pending() > 0 {
                tokio::time::sleep(DEADLINES_EVERY).await;
                self.fail_overdue();
            }
        }
    }
}

/// Handles the frames of the answering side.
struct AnswerHandler<'a> {
    link: &'a MeshLink,
    mesh: &'a Mesh,
    /// Whether the other side announced that it is about to stop.
    draining: bool,
}

impl FrameHandler for AnswerHandler<'_> {
    fn on_frame(&mut self, text: &str) -> Result<(), &'static str> {
        match serde_json::from_str(text) {
            Ok(MeshFrame::Answers(answers)) => {
                let calls = self.link.take(answers.iter().map(|answer| answer.id));
                pending_calls::complete(calls.into_iter().zip(answers));
                Ok(())
            }
            Ok(MeshFrame::Draining) => {
                self.draining = true;
                self.link.open.store(false, Ordering::Release);
                self.mesh.touch();
                // Under the lock that calls are sent under, so that no call follows this frame.
                if let Some(queue) = self.link.state.lock().queue.take() {
                    queue.add_frame(wire::DRAINED);
                }
                Ok(())
            }
            Ok(MeshFrame::TurnedOff(namespaces)) => {
                *self.link.turned_off.lock() = namespaces.into_iter().map(Cow::into_owned).collect();
                self.mesh.touch();
                Ok(())
            }
            Ok(_) => Err("the answering side sent a frame that only the calling side may send"),
            Err(_) => Err("a received frame is not a mesh frame"),
        }
    }

    fn expects_more(&self) -> bool {
        self.link.pending() > 1
    }
}
