//! The processes that run one namespace, and which of them a call goes to.

use super::MeshContext;
use super::http::RemoteHttp;
use super::link::MeshLink;
use super::wire::{CallerRef, OutgoingCall};
use futures_util::future::ready;
use kernel::{
    CallTerm, Caller, CallingAgent, OnAnswer, PendingAnswer, RemoteService, ServiceRoutes, unavailable,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

struct RemoteNamespace {
    namespace: &'static str,
    links: Vec<Arc<MeshLink>>,
    next: AtomicUsize,
}

/// Puts the namespaces of a service that other processes run on the mesh, and keeps the links to them up until the context is stopped.
pub fn dial(context: &Arc<MeshContext>, namespace: &'static str, addresses: &[String]) {
    let link = |url: &String| Arc::new(MeshLink::new(namespace, url, context.metrics.link(namespace, url)));
    let processes: Vec<_> = addresses.iter().map(|url| (url.clone(), link(url))).collect();
    for (_, link) in &processes {
        let (link, context) = (link.clone(), context.clone());
        context.tracker.clone().spawn(async move {
            context.stop.run_until_cancelled(link.keep_up(&context)).await;
            link.close("this process stops");
        });
    }
    let http = RemoteHttp::new(context, namespace, &processes);
    context.mesh.add_routes(namespace, ServiceRoutes::Remote(Arc::new(http)));
    let links = processes.into_iter().map(|(_, link)| link).collect();
    let remote = Arc::new(RemoteNamespace { namespace, links, next: AtomicUsize::new(0) });
    context.mesh.add_remote(namespace, remote.clone());
    // A service may serve more namespaces than the one of its name.
    let others = proto_schemas::namespaces()
        .iter()
        .filter(|other| other.service == namespace && other.name != namespace);
    for other in others {
        context.mesh.add_remote(other.name, remote.clone());
    }
}

impl RemoteService for RemoteNamespace {
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
            Caller::Agent(agent) | Caller::Foreign(agent, _) => agent.trace.take(),
            Caller::Token(token) => token.agent.as_mut().and_then(|agent| agent.trace.take()),
            _ => None,
        };
        let step = trace.as_ref().and_then(|call| call.begin("mesh", "call"));
        let caller = match &caller {
            Caller::Agent(session) => CallerRef::Agent(session),
            other => CallerRef::Other(other),
        };
        let term = CallTerm { began: Instant::now(), within };
        let answering = link.call(caller, &OutgoingCall { method, params, term, trace: trace.as_ref() });
        let Some(step) = step else { return Box::pin(answering) };
        Box::pin(async move {
            let answer = answering.await;
            drop(step);
            answer
        })
    }

    fn send(
        &self,
        session: &CallingAgent,
        method: &str,
        params: Option<&RawValue>,
        term: CallTerm,
        then: OnAnswer,
    ) {
        match self.choose(params) {
            Some(link) => {
                let call = OutgoingCall { method, params, term, trace: session.trace.as_ref() };
                link.send(CallerRef::Agent(session), &call, then);
            }
            None => then(Err(unavailable(self.namespace)), term.began),
        }
    }

    fn is_up(&self) -> bool {
        self.links.iter().any(|link| link.is_open())
    }

    fn is_turned_off(&self, namespace: &str) -> bool {
        self.links.iter().any(|link| link.is_open() && link.is_turned_off(namespace))
    }
}

impl RemoteNamespace {
    fn choose(&self, params: Option<&RawValue>) -> Option<&Arc<MeshLink>> {
        if let [only] = &*self.links {
            return Some(only).filter(|link| link.is_open());
        }
        match params.and_then(recipient) {
            Some(recipient) => self.for_recipient(&recipient),
            None => self.least_busy(),
        }
    }

    /// The open link with the fewest pending calls; round-robin among equals.
    fn least_busy(&self) -> Option<&Arc<MeshLink>> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        (0..self.links.len())
            .map(|step| &self.links[(first.wrapping_add(step)) % self.links.len()])
            .filter(|link| link.is_open())
            .min_by_key(|link| link.pending())
    }

    /// The same process for the same recipient, as long as its link is open: if two processes wrote to one inbox, its
    /// events could overtake each other, and their commits would wait for each other.
    fn for_recipient(&self, recipient: &str) -> Option<&Arc<MeshLink>> {
        let open = self.links.iter().enumerate().filter(|(_, link)| link.is_open());
        // By position in the list, because two gateways may know one process by different names.
        let chosen = open.max_by_key(|(position, _)| {
            let mut hasher = DefaultHasher::new();
            (recipient, position).hash(&mut hasher);
            hasher.finish()
        });
        chosen.map(|(_, link)| link)
    }
}

/// Whom a call writes to, if it names somebody: an agent, or a peer domain, to which only one gateway has the link. An event
/// is dispatched by the gateway that got it before, which knows that it did.
fn recipient(params: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct ToMember<'a> {
        #[serde(borrow)]
        to: Option<Cow<'a, str>>,
    }
    // The first member of what a service asks the gateway to forward or to dispatch; what follows is long.
    for member in ["{\"target_issuer\":\"", "{\"event_id\":\""] {
        if let Some(value) = params.get().strip_prefix(member) {
            return value.split('"').next().map(Cow::Borrowed);
        }
    }
    // Most calls name no recipient, and searching for the word costs less than parsing them.
    let named = params.get().contains("\"to\"");
    named.then(|| serde_json::from_str::<ToMember<'_>>(params.get()).ok()?.to).flatten()
}
