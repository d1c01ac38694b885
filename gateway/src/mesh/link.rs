//! The asking side: one link to each process that has a namespace, dialled again whenever it breaks.

use super::Wiring;
use super::pass::{self, Pass, server_name};
use super::pump::{self, Ear, Post, pump};
use super::wire::{self, Call, Frame, Introduced};
use crate::config;
use crate::telemetry::LinkMetrics;
use anyhow::Context as _;
use futures_util::future::ready;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use serde::Deserialize;
use serde_json::value::RawValue;
use services::kernel::{Answering, Caller, Far, Mesh, RpcError, codes, unavailable};
use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{self, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

/// Calls that may be under way on one link.
const IN_FLIGHT: usize = 16_384;
const DIAL_PATIENCE: Duration = Duration::from_secs(5);
/// Redialled after a random part of a wait that doubles from the first to the last.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LAST_WAIT: Duration = Duration::from_secs(2);

/// The processes that have a namespace.
pub struct Links {
    namespace: &'static str,
    links: Vec<Arc<Link>>,
    turn: AtomicUsize,
}

/// Puts a namespace of other processes on the mesh and keeps its links up until the wiring is taken down.
pub fn dial(wiring: &Arc<Wiring>, namespace: &'static str, addresses: &[String]) {
    let links: Vec<_> = addresses
        .iter()
        .map(|url| Arc::new(Link::new(namespace, url, wiring.metrics.link(namespace, url))))
        .collect();
    for link in &links {
        let (link, wiring) = (link.clone(), wiring.clone());
        wiring.tracker.clone().spawn(async move {
            wiring.stop.run_until_cancelled(link.keep_up(&wiring)).await;
            link.down("this process stops");
        });
    }
    wiring.mesh.add_remote(namespace, Arc::new(Links { namespace, links, turn: AtomicUsize::new(0) }));
}

impl Far for Links {
    fn call(
        &self,
        caller: Caller,
        method: &str,
        params: Option<Box<RawValue>>,
        within: Duration,
    ) -> Answering {
        let link = match params.as_deref().and_then(recipient) {
            Some(recipient) if self.links.len() > 1 => self.choose_for(&recipient),
            _ => self.choose(),
        };
        let Some(link) = link else { return Box::pin(ready(Err(unavailable(self.namespace)))) };
        match link.call(caller, method, params.as_deref(), within) {
            Ok(waiting) => Box::pin(waiting),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn is_up(&self) -> bool {
        self.links.iter().any(|link| link.open.load(Ordering::Acquire))
    }
}

impl Links {
    /// The link with the fewest calls under way; those that are equal take turns.
    fn choose(&self) -> Option<&Arc<Link>> {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        (0..self.links.len())
            .map(|step| &self.links[(first.wrapping_add(step)) % self.links.len()])
            .filter(|link| link.open.load(Ordering::Acquire))
            .min_by_key(|link| link.metrics.pending.get())
    }
}

impl Links {
    /// The process that looks after this recipient while it is there: bells of one inbox that two processes ring could
    /// overtake each other, and their commits would wait for each other.
    fn choose_for(&self, recipient: &str) -> Option<&Arc<Link>> {
        let open = self.links.iter().enumerate().filter(|(_, link)| link.open.load(Ordering::Acquire));
        // By its place in the list: two gateways may know one process by different names.
        let chosen = open.max_by_key(|(place, _)| {
            let mut hasher = DefaultHasher::new();
            (recipient, place).hash(&mut hasher);
            hasher.finish()
        });
        chosen.map(|(_, link)| link)
    }
}

/// Whom a call is about to write to, if anybody.
fn recipient(params: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Addressed<'a> {
        #[serde(borrow)]
        to: Option<Cow<'a, str>>,
    }
    // Most calls write to nobody, and looking for the word costs less than reading them.
    let named = params.get().contains("\"to\"");
    named.then(|| serde_json::from_str::<Addressed<'_>>(params.get()).ok()?.to).flatten()
}

struct Link {
    namespace: &'static str,
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
    waiting: HashMap<u64, oneshot::Sender<Result<Box<RawValue>, RpcError>>>,
    next: u64,
}

impl Link {
    fn new(namespace: &'static str, url: &str, metrics: LinkMetrics) -> Link {
        Link {
            namespace,
            url: url.to_owned(),
            open: AtomicBool::new(false),
            state: Mutex::default(),
            metrics,
        }
    }

    fn call(
        self: &Arc<Self>,
        caller: Caller,
        method: &str,
        params: Option<&RawValue>,
        within: Duration,
    ) -> Result<Waiting, RpcError> {
        let mut state = self.state.lock();
        // Under one lock, so that a session is introduced before it is only numbered.
        let State { post, introduced, waiting, next } = &mut *state;
        let post = post.as_ref().ok_or_else(|| unavailable(self.namespace))?;
        if waiting.len() >= IN_FLIGHT {
            return Err(busy(self.namespace));
        }
        let (caller, trace, forget) = introduced.introduce(caller);
        if forget {
            post.push(wire::FORGET);
        }
        *next += 1;
        let id = *next;
        let within_ms = wire::within_ms(within);
        let frame = wire::call(id, &Call { method: method.into(), caller, trace, within_ms, params });
        if !post.push(frame) {
            return Err(busy(self.namespace));
        }
        let (answer, receiver) = oneshot::channel();
        waiting.insert(id, answer);
        self.metrics.pending.set(count(waiting.len()));
        self.metrics.calls.inc();
        Ok(Waiting { link: self.clone(), id, receiver, done: false })
    }

    /// Dials, speaks until the link breaks, and dials again.
    async fn keep_up(self: &Arc<Self>, wiring: &Wiring) {
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
            tokio::time::sleep(wiring.ids.part_of(wait)).await;
            wait = (wait * 2).min(LAST_WAIT);
        }
    }

    /// The socket, and when the first of the two certificates behind it ends.
    async fn connect(&self, wiring: &Wiring) -> anyhow::Result<(Socket, i64)> {
        let pass = Pass::read(&wiring.settings)?;
        let own_end = pass.ends();
        let stream =
            TcpStream::connect(config::mesh_address(&self.url)?).await.context("nobody listens there")?;
        stream.set_nodelay(true)?;
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

    async fn speak(self: &Arc<Self>, socket: Socket, until: i64, wiring: &Wiring) -> &'static str {
        let (post, posted) = pump::post();
        {
            let mut state = self.state.lock();
            state.introduced = Introduced::default();
            state.post = Some(post);
        }
        self.open.store(true, Ordering::Release);
        self.metrics.up.set(1);
        wiring.mesh.touch();
        let mut ear = Asking { link: self.clone(), mesh: &wiring.mesh, last_words: None };
        let reason = tokio::select! {
            reason = pump(socket, posted, &mut ear) => reason,
            () = pass::ended(&wiring.clock, until) => "a certificate has expired",
        };
        self.down(reason);
        match ear.last_words {
            Some(_) => wiring.mesh.touch(),
            None => wiring.mesh.lost(self.namespace),
        }
        reason
    }

    /// No more calls; those under way are told that nobody will answer.
    fn down(&self, reason: &str) {
        self.open.store(false, Ordering::Release);
        self.metrics.up.set(0);
        let waiting = {
            let mut state = self.state.lock();
            state.post = None;
            self.metrics.pending.set(0);
            std::mem::take(&mut state.waiting)
        };
        for answer in waiting.into_values() {
            let sentence = format!(
                "the {} service went away before it answered ({reason}); whether it did anything is not known",
                self.namespace
            );
            let _ = answer.send(Err(RpcError::new(codes::UNAVAILABLE, sentence)));
        }
    }

    fn answered(&self, id: u64) -> Option<oneshot::Sender<Result<Box<RawValue>, RpcError>>> {
        let mut state = self.state.lock();
        let answer = state.waiting.remove(&id);
        self.metrics.pending.set(count(state.waiting.len()));
        answer
    }
}

fn count(calls: usize) -> i64 {
    i64::try_from(calls).unwrap_or(i64::MAX)
}

fn busy(namespace: &str) -> RpcError {
    RpcError::new(codes::UNAVAILABLE, format!("the {namespace} service has too much to do right now"))
}

type Socket = WebSocketStream<TlsStream<TcpStream>>;

/// A call under way. Whoever stops waiting takes its place in the table along.
struct Waiting {
    link: Arc<Link>,
    id: u64,
    receiver: oneshot::Receiver<Result<Box<RawValue>, RpcError>>,
    done: bool,
}

impl Future for Waiting {
    type Output = Result<Box<RawValue>, RpcError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        let answer = std::task::ready!(Pin::new(&mut self.receiver).poll(cx));
        self.done = true;
        Poll::Ready(answer.unwrap_or_else(|_| Err(unavailable(self.link.namespace))))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.done {
            self.link.answered(self.id);
        }
    }
}

struct Asking<'a> {
    link: Arc<Link>,
    mesh: &'a Mesh,
    /// Kept from the moment nothing more may be said, or the socket would take us for gone.
    last_words: Option<Post>,
}

impl Ear for Asking<'_> {
    fn hear(&mut self, text: &str) -> Result<(), &'static str> {
        let frame: Frame<'_> =
            serde_json::from_str(text).map_err(|_| "the other side does not speak our language")?;
        if let Some(id) = frame.id {
            let outcome = match (frame.result, frame.error) {
                (_, Some(error)) => Err(error),
                (result, None) => Ok(result.unwrap_or(RawValue::NULL).to_owned()),
            };
            // Nobody there any more: it took too long for them.
            if let Some(answer) = self.link.answered(id) {
                let _ = answer.send(outcome);
            }
        } else if frame.method.as_deref() == Some("mesh.draining") {
            self.link.open.store(false, Ordering::Release);
            self.mesh.touch();
            // Under the lock that calls are sent under: nothing follows it.
            self.last_words = self.link.state.lock().post.take();
            if let Some(post) = &self.last_words {
                post.push(wire::DRAINED);
            }
        }
        Ok(())
    }
}
