//! The processes that have one namespace, and which of them a call goes to.

use super::Wiring;
use super::link::Link;
use super::wire::{Asker, Question};
use futures_util::future::ready;
use serde::Deserialize;
use serde_json::value::RawValue;
use services::kernel::{CallTerm, Caller, OnAnswer, PendingAnswer, RemoteService, Session, unavailable};
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

struct Links {
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

impl RemoteService for Links {
    fn call(
        &self,
        mut caller: Caller,
        method: &str,
        params: Option<&RawValue>,
        within: Duration,
    ) -> PendingAnswer {
        let Some(link) = self.choose(params) else {
            return Box::pin(ready(Err(unavailable(self.namespace))));
        };
        let trace = match &mut caller {
            Caller::Agent(session) => session.trace.take(),
            _ => None,
        };
        let asker = match &caller {
            Caller::Agent(session) => Asker::Agent(session),
            other => Asker::Other(other),
        };
        let term = CallTerm { began: Instant::now(), within };
        Box::pin(link.call(asker, &Question { method, params, term, trace: trace.as_ref() }))
    }

    fn send(
        &self,
        session: &Session,
        method: &str,
        params: Option<&RawValue>,
        term: CallTerm,
        then: OnAnswer,
    ) {
        match self.choose(params) {
            Some(link) => {
                let question = Question { method, params, term, trace: session.trace.as_ref() };
                link.send(Asker::Agent(session), &question, then);
            }
            None => then(Err(unavailable(self.namespace)), term.began),
        }
    }

    fn is_up(&self) -> bool {
        self.links.iter().any(|link| link.is_open())
    }
}

impl Links {
    fn choose(&self, params: Option<&RawValue>) -> Option<&Arc<Link>> {
        if let [only] = &*self.links {
            return Some(only).filter(|link| link.is_open());
        }
        match params.and_then(recipient) {
            Some(recipient) => self.of_recipient(&recipient),
            None => self.least_busy(),
        }
    }

    /// The link with the fewest calls under way; those that are equal take turns.
    fn least_busy(&self) -> Option<&Arc<Link>> {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        (0..self.links.len())
            .map(|step| &self.links[(first.wrapping_add(step)) % self.links.len()])
            .filter(|link| link.is_open())
            .min_by_key(|link| link.pending())
    }

    /// The process that looks after this recipient while it is there: bells of one inbox that two processes ring could
    /// overtake each other, and their commits would wait for each other.
    fn of_recipient(&self, recipient: &str) -> Option<&Arc<Link>> {
        let open = self.links.iter().enumerate().filter(|(_, link)| link.is_open());
        // By its place in the list: two gateways may know one process by different names.
        let chosen = open.max_by_key(|(place, _)| {
            let mut hasher = DefaultHasher::new();
            (recipient, place).hash(&mut hasher);
            hasher.finish()
        });
        chosen.map(|(_, link)| link)
    }
}

/// Whom a call is about to write to, if anybody: an agent, or another domain, to which one gateway has the link.
fn recipient(params: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Addressed<'a> {
        #[serde(borrow)]
        to: Option<Cow<'a, str>>,
    }
    // It is the first thing a service says to the gateway, and what follows is long.
    if let Some(forward) = params.get().strip_prefix("{\"target_issuer\":\"") {
        return forward.split('"').next().map(Cow::Borrowed);
    }
    // Most calls write to nobody, and looking for the word costs less than reading them.
    let named = params.get().contains("\"to\"");
    named.then(|| serde_json::from_str::<Addressed<'_>>(params.get()).ok()?.to).flatten()
}
