//! The asking side: one link to a process that has a namespace, dialled again whenever it breaks.

use super::Wiring;
use super::acquaint::{Introduced, Introduction};
use super::pass::{self, Pass, server_name};
use super::post::Post;
use super::pump::{self, Ear, pump};
use super::table::{self, Table};
use super::waiting::Waiting;
use super::wire::{self, Asker, Frame, Question};
use crate::config;
use crate::telemetry::LinkMetrics;
use anyhow::Context as _;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use services::kernel::{AnswerRef, Mesh, OnAnswer, RpcError, codes, unavailable};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

const DIAL_PATIENCE: Duration = Duration::from_secs(5);
/// Redialled after a random part of a wait that doubles from the first to the last.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LAST_WAIT: Duration = Duration::from_secs(2);
/// How often those are looked for who have waited long enough: one clock for all of them, instead of one each.
const LATE_EVERY: Duration = Duration::from_millis(100);

pub(super) struct Link {
    pub namespace: &'static str,
    url: String,
    /// Whether new calls may be sent.
    open: AtomicBool,
    state: Mutex<State>,
    metrics: LinkMetrics,
}

#[derive(Default)]
struct State {
    post: Option<Post>,
    introduced: Introduced,
    waiting: Table,
}

impl Link {
    pub fn new(namespace: &'static str, url: &str, metrics: LinkMetrics) -> Link {
        Link {
            namespace,
            url: url.to_owned(),
            open: AtomicBool::new(false),
            state: Mutex::default(),
            metrics,
        }
    }

    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    pub fn pending(&self) -> i64 {
        self.metrics.pending.get()
    }

    /// Sends a call; `then` hears how it ended.
    pub fn send(&self, asker: Asker<'_>, question: &Question<'_>, then: OnAnswer) {
        if let Err((then, error)) = self.begin(asker, question, then) {
            then(Err(error), question.term.began);
        }
    }

    /// Sends a call, and waits for its answer.
    pub fn call(self: &Arc<Self>, asker: Asker<'_>, question: &Question<'_>) -> Waiting {
        let (answer, receiver) = oneshot::channel();
        let then = Box::new(|outcome: Result<AnswerRef<'_>, RpcError>, _| {
            let _ = answer.send(outcome.map(AnswerRef::to_owned));
        });
        let id = match self.begin(asker, question, then) {
            Ok(id) => Some(id),
            Err((then, error)) => {
                then(Err(error), question.term.began);
                None
            }
        };
        Waiting::new(self.clone(), id, receiver)
    }

    fn begin(
        &self,
        asker: Asker<'_>,
        question: &Question<'_>,
        then: OnAnswer,
    ) -> Result<u64, (OnAnswer, RpcError)> {
        let until = question.term.began + question.term.within;
        let mut state = self.state.lock();
        // Under one lock, so that a session is introduced before it is only numbered.
        let State { post, introduced, waiting } = &mut *state;
        let Some(post) = post else { return Err((then, unavailable(self.namespace))) };
        if waiting.is_full() || !post.has_space() {
            return Err((then, busy(self.namespace)));
        }
        let introduction = introduced.introduce(asker);
        if matches!(introduction, Introduction::NewAfterForgetting) {
            post.say(wire::FORGET);
        }
        let id = waiting.add(until, then);
        self.metrics.pending.set(count(waiting.len()));
        post.add(|out| wire::write_call(out, id, asker, &introduction, question));
        drop(state);
        self.metrics.calls.inc();
        Ok(id)
    }

    /// Dials, speaks until the link breaks, and dials again.
    pub async fn keep_up(self: &Arc<Self>, wiring: &Wiring) {
        let mut wait = FIRST_WAIT;
        let mut said = String::new();
        loop {
            match timeout(DIAL_PATIENCE, self.connect(wiring)).await {
                Ok(Ok((socket, until))) => {
                    tracing::info!("{} is reached at {}", self.namespace, self.url);
                    said.clear();
                    wait = FIRST_WAIT;
                    let reason = self.speak(socket, until, wiring).await;
                    tracing::warn!("the link to {} at {} ended: {reason}", self.namespace, self.url);
                }
                problem => {
                    // Said once, not at every try.
                    let text = match problem {
                        Ok(Err(error)) => format!("{error:#}"),
                        _ => format!("no answer within {} s", DIAL_PATIENCE.as_secs()),
                    };
                    if text != said {
                        tracing::warn!("{} is not reached at {}: {text}", self.namespace, self.url);
                    }
                    said = text;
                }
            }
            self.metrics.redials.inc();
            tokio::time::sleep(wiring.ids.jitter(wait)).await;
            wait = (wait * 2).min(LAST_WAIT);
        }
    }

    /// The socket, and when the first of the two certificates behind it ends.
    async fn connect(&self, wiring: &Wiring) -> anyhow::Result<(Socket, i64)> {
        let pass = Pass::read(&wiring.settings)?;
        let own_end = pass.ends();
        let stream =
            TcpStream::connect(config::mesh_address(&self.url)?).await.context("nobody listens there")?;
        let stream = pump::stream(stream)?;
        let name = ServerName::try_from(server_name(self.namespace))?;
        let stream = pass.connector()?.connect(name, stream).await.context("TLS")?;
        let peer = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let until = peer.map_or(0, pass::ends).min(own_end);
        let request = format!("wss://{}/mesh", server_name(self.namespace)).into_client_request()?;
        let config = Some(pump::socket_config());
        let (socket, _) = tokio_tungstenite::client_async_with_config(request, stream, config)
            .await
            .context("WebSocket")?;
        Ok((socket, until))
    }

    pub async fn speak<S>(&self, socket: WebSocketStream<S>, until: i64, wiring: &Wiring) -> &'static str
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let post = Post::new(wire::CALLS);
        {
            let mut state = self.state.lock();
            state.introduced = Introduced::default();
            state.post = Some(post.clone());
        }
        self.open.store(true, Ordering::Release);
        self.metrics.up.set(1);
        wiring.mesh.touch();
        let mut ear = Asking { link: self, mesh: &wiring.mesh, drained: false };
        let reason = tokio::select! {
            reason = pump(socket, &post, &mut ear) => reason,
            () = pass::ended(&wiring.clock, until) => "a certificate has expired",
            () = self.give_up_the_late() => "the clock stopped",
        };
        self.down(reason);
        match ear.drained {
            true => wiring.mesh.touch(),
            false => wiring.mesh.lost(self.namespace),
        }
        reason
    }

    async fn give_up_the_late(&self) {
        let mut clock = tokio::time::interval(LATE_EVERY);
        loop {
            clock.tick().await;
            if self.pending() == 0 {
                continue;
            }
            let late = {
                let mut state = self.state.lock();
                let late = state.waiting.take_late(Instant::now());
                self.metrics.pending.set(count(state.waiting.len()));
                late
            };
            table::tell_all(late, || {
                let sentence = format!("rpc handler timeout: the {} service took too long", self.namespace);
                RpcError::new(codes::HANDLER_TIMEOUT, sentence)
            });
        }
    }

    /// No more calls; those under way are told that nobody will answer.
    pub fn down(&self, reason: &str) {
        self.open.store(false, Ordering::Release);
        self.metrics.up.set(0);
        let waiting = {
            let mut state = self.state.lock();
            state.post = None;
            self.metrics.pending.set(0);
            state.waiting.take_all()
        };
        table::tell_all(waiting, || {
            let sentence = format!(
                "the {} service went away before it answered ({reason}); whether it did anything is not known",
                self.namespace
            );
            RpcError::new(codes::UNAVAILABLE, sentence)
        });
    }

    /// The places of those calls are free again.
    pub fn take(&self, ids: impl Iterator<Item = u64>) -> Vec<Option<OnAnswer>> {
        let mut state = self.state.lock();
        let taken = ids.map(|id| state.waiting.take(id)).collect();
        self.metrics.pending.set(count(state.waiting.len()));
        taken
    }
}

fn count(calls: usize) -> i64 {
    i64::try_from(calls).unwrap_or(i64::MAX)
}

fn busy(namespace: &str) -> RpcError {
    RpcError::new(codes::UNAVAILABLE, format!("the {namespace} service has too much to do right now"))
}

type Socket = WebSocketStream<TlsStream<pump::Stream>>;

struct Asking<'a> {
    link: &'a Link,
    mesh: &'a Mesh,
    /// Whether the other side said that it is about to leave.
    drained: bool,
}

impl Ear for Asking<'_> {
    fn hear(&mut self, text: &str) -> Result<(), &'static str> {
        match serde_json::from_str(text) {
            Ok(Frame::Answers(answers)) => {
                let taken = self.link.take(answers.iter().map(|answer| answer.id));
                table::tell(taken.into_iter().zip(answers));
                Ok(())
            }
            Ok(Frame::Draining) => {
                self.drained = true;
                self.link.open.store(false, Ordering::Release);
                self.mesh.touch();
                // Under the lock that calls are sent under: nothing follows it.
                if let Some(post) = self.link.state.lock().post.take() {
                    post.say(wire::DRAINED);
                }
                Ok(())
            }
            _ => Err("the other side does not speak our language"),
        }
    }

    fn expects_more(&self) -> bool {
        self.link.pending() > 1
    }
}
