//! `Rpc`: a service's method table, and its callers.

use super::trace::TracedCall;
use super::{Aid, DeviceId, RpcError, SlotId, codes};
use proto_schemas::{Access, Method, Request, fields_of};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
use std::collections::HashMap;
use std::future::{Future, ready};
use std::marker::PhantomData;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

/// Who calls. Built only from an authenticated connection, by another service, or for the operator; never from what a
/// client wrote into its parameters.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Caller {
    /// A connection that proved its AID.
    Agent(Session),
    /// An agent over HTTP, by its token. It has no connection, so no event reaches it: `connection` is 0, and device and
    /// slot are empty.
    Token(Session, TokenKind),
    /// An agent of another domain, vouched for by the gateway of that domain, where its session is.
    Foreign(Session, Relayed),
    /// A service of another domain in its own name, vouched for by the gateway of that domain.
    ForeignService { service: String, relayed: Relayed },
    /// A connection that has not logged in.
    Unauthenticated,
    /// Another service, or the gateway itself.
    Service(String),
    /// The same while it answers a call that came from another domain, for what it asks of others because of that call.
    ServiceForRelay { service: String, relayed: Relayed },
    /// Who has access to the data folder of this server.
    Operator,
}

/// What a token was given for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// The access token of a login: whatever the agent may do without a connection.
    Access,
    /// The token that the owner of an agent was given for it: the agent reads what concerns it, and changes nothing.
    Agent,
}

/// How a call came from another domain.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Relayed {
    /// The domain that proved itself on the peer link.
    pub from_issuer: String,
    pub relay_id: String,
    /// How many relays led to this one: 0 if it was started by a client of that domain.
    pub depth: u8,
}

/// What the gateway knows of an authenticated connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Session {
    pub aid: Aid,
    pub device: DeviceId,
    pub slot: SlotId,
    pub connection: u64,
    /// The address that the connection comes from.
    pub address: IpAddr,
    pub connected_at_ms: i64,
    /// Which messages the client can read and how it catches up.
    pub generation: Generation,
    /// The trace of this call, if the client asked for one. Between processes it travels beside the session: it belongs to one
    /// call only.
    #[serde(skip)]
    pub trace: Option<Arc<TracedCall>>,
}

/// What a client declared in the `capabilities` of `auth.connect`, as far as the server treats it differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Generation {
    /// Reads plain messages, and encrypted ones of the first kind.
    #[default]
    First,
    /// Catches up by `message.v2.pull` with one cursor for everything.
    Second,
    /// Catches up sender by sender: it asks `message.peers`.
    Peer,
}

impl Caller {
    pub fn service(name: &str) -> Caller {
        Caller::Service(name.to_owned())
    }

    /// The caller of what a service asks of others because of a call that it answers. The service speaks for itself; where
    /// the call came from another domain, that is not lost.
    pub fn service_because_of(name: &str, cause: &Caller) -> Caller {
        match cause.relayed() {
            Some(relayed) => Caller::ServiceForRelay { service: name.to_owned(), relayed: relayed.clone() },
            None => Caller::service(name),
        }
    }

    /// The name of the calling service, if a service of this domain calls.
    pub fn service_name(&self) -> Option<&str> {
        match self {
            Caller::Service(service) | Caller::ServiceForRelay { service, .. } => Some(service),
            Caller::Agent(_)
            | Caller::Token(..)
            | Caller::Foreign(..)
            | Caller::ForeignService { .. }
            | Caller::Unauthenticated
            | Caller::Operator => None,
        }
    }

    /// The relay that led to this call, if it came from another domain.
    pub fn relayed(&self) -> Option<&Relayed> {
        match self {
            Caller::Foreign(_, relayed)
            | Caller::ForeignService { relayed, .. }
            | Caller::ServiceForRelay { relayed, .. } => Some(relayed),
            Caller::Agent(_)
            | Caller::Token(..)
            | Caller::Unauthenticated
            | Caller::Service(_)
            | Caller::Operator => None,
        }
    }

    /// The session of the caller, or an error for callers that have none here. For what belongs to a connection or to the
    /// device behind it.
    pub fn session(&self) -> Result<&Session, RpcError> {
        match self {
            Caller::Token(..) => {
                Err(RpcError::new(codes::INVALID_REQUEST, "this method needs a WebSocket connection"))
            }
            _ => self.agent(),
        }
    }

    /// The calling agent of this domain, over a connection or by its token.
    pub fn agent(&self) -> Result<&Session, RpcError> {
        match self {
            Caller::Agent(session) | Caller::Token(session, _) => Ok(session),
            _ => Err(RpcError::new(codes::UNAUTHENTICATED, "this method needs a logged-in agent")),
        }
    }

    /// The calling agent, of this domain or another.
    pub fn speaker(&self) -> Result<&Session, RpcError> {
        match self {
            Caller::Foreign(session, _) => Ok(session),
            _ => self.agent(),
        }
    }

    /// The trace of the call, if its client asked for one.
    fn trace(&self) -> Option<Arc<TracedCall>> {
        match self {
            Caller::Agent(session) | Caller::Token(session, _) | Caller::Foreign(session, _) => {
                session.trace.clone()
            }
            Caller::ForeignService { .. }
            | Caller::Unauthenticated
            | Caller::Service(_)
            | Caller::ServiceForRelay { .. }
            | Caller::Operator => None,
        }
    }

    fn may_call(&self, method: &Method) -> bool {
        match (method.access, self) {
            (_, Caller::Token(..)) => method.access.is_for_agents() && !method.needs_connection,
            (_, Caller::Foreign(..)) => method.federation.is_some_and(|rule| rule.agents),
            (_, Caller::ForeignService { .. }) => method.federation.is_some_and(|rule| rule.services),
            (_, Caller::Service(service) | Caller::ServiceForRelay { service, .. }) => {
                method.is_for_service(service)
            }
            (Access::Public, _) | (_, Caller::Operator) => true,
            (Access::Session, Caller::Agent(_)) => true,
            (Access::Session, Caller::Unauthenticated)
            | (Access::Internal | Access::Peer, Caller::Agent(_) | Caller::Unauthenticated) => false,
        }
    }
}

/// A call that has begun: it ends with its answer or with an error.
pub type PendingAnswer<T = Answer> = Pin<Box<dyn Future<Output = Result<T, RpcError>> + Send>>;

/// What a method answers: its result (over the mesh as it was written), and the event it causes on the caller's own
/// connection, if any.
#[derive(Clone, Debug)]
pub struct Answer<R = Box<RawValue>> {
    pub result: R,
    /// Boxed: hardly any answer causes one, and every answer is moved about.
    pub event: Option<Box<CallerEvent>>,
}

/// An event for the connection that called, which must not overtake the answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallerEvent {
    pub method: Cow<'static, str>,
    pub params: Box<RawValue>,
}

/// A borrowed answer.
#[derive(Clone, Copy)]
pub struct AnswerRef<'a> {
    pub result: &'a RawValue,
    pub event: Option<&'a CallerEvent>,
}

impl Answer {
    pub fn as_ref(&self) -> AnswerRef<'_> {
        AnswerRef { result: &self.result, event: self.event.as_deref() }
    }
}

impl AnswerRef<'_> {
    pub fn to_owned(self) -> Answer {
        Answer { result: self.result.to_owned(), event: self.event.cloned().map(Box::new) }
    }
}

impl From<Box<RawValue>> for Answer {
    fn from(result: Box<RawValue>) -> Answer {
        Answer { result, event: None }
    }
}

/// What the handler of a method with this result may return: the result alone, an [`Answer`] where an event follows it, or a
/// [`ResultText`].
pub trait IntoAnswer<R> {
    fn into_answer(self) -> serde_json::Result<Answer>;
}

impl<R: Serialize> IntoAnswer<R> for R {
    fn into_answer(self) -> serde_json::Result<Answer> {
        Ok(Answer { result: to_raw_value(&self)?, event: None })
    }
}

impl<R: Serialize> IntoAnswer<R> for Answer<R> {
    fn into_answer(self) -> serde_json::Result<Answer> {
        Ok(Answer { result: to_raw_value(&self.result)?, event: self.event })
    }
}

/// The result of a method as it is kept: a text that is signed as a whole, so it is passed on byte by byte.
#[derive(Clone, Debug)]
pub struct ResultText<R> {
    text: Box<RawValue>,
    result: PhantomData<fn() -> R>,
}

impl<R> ResultText<R> {
    pub fn new(text: Box<RawValue>) -> ResultText<R> {
        ResultText { text, result: PhantomData }
    }

    pub fn get(&self) -> &str {
        self.text.get()
    }
}

impl<R> IntoAnswer<R> for ResultText<R> {
    fn into_answer(self) -> serde_json::Result<Answer> {
        Ok(self.text.into())
    }
}

type Handler = Box<dyn Fn(Caller, Option<&RawValue>) -> PendingAnswer + Send + Sync>;

/// The names of the members that a handler reads. None where it does not read a struct of fixed names.
pub type ParamFields = Option<&'static [&'static str]>;

struct MethodEntry {
    handler: Handler,
    fields: ParamFields,
}

/// A service's method table: cheap to clone, and a call through it is a function call.
#[derive(Clone, Default)]
pub struct Methods(Arc<HashMap<&'static str, MethodEntry>>);

impl Methods {
    /// Begins a call, if there is such a method.
    pub fn call(&self, caller: Caller, method: &str, params: Option<&RawValue>) -> Option<PendingAnswer> {
        self.0.get(method).map(|entry| (entry.handler)(caller, params))
    }

    /// Every method and the members that it reads, to be compared with its schema.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, ParamFields)> {
        self.0.iter().map(|(name, entry)| (*name, entry.fields))
    }
}

/// Builds a service's method table. For each call: check access, parse, run, turn the service's error into an `RpcError`.
pub struct Rpc<Service> {
    service: Arc<Service>,
    entries: HashMap<&'static str, MethodEntry>,
}

impl<Service: Send + Sync + 'static> Rpc<Service> {
    pub fn new(service: Arc<Service>) -> Self {
        Rpc { service, entries: HashMap::new() }
    }

    /// Adds the method whose request the handler takes and whose result it gives. The schema says who may call it.
    #[must_use]
    pub fn method<R, A, E, Fut>(self, handler: fn(Arc<Service>, Caller, R) -> Fut) -> Self
    where
        R: Request + DeserializeOwned + Send + 'static,
        A: IntoAnswer<R::Result> + Send + 'static,
        E: Into<RpcError> + Send + 'static,
        Fut: Future<Output = Result<A, E>> + Send + 'static,
    {
        self.named_method(R::METHOD, handler)
    }

    #[must_use]
    pub fn named_method<P, T, A, E, Fut>(
        mut self,
        name: &'static str,
        handler: fn(Arc<Service>, Caller, P) -> Fut,
    ) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        A: IntoAnswer<T> + Send + 'static,
        E: Into<RpcError> + Send + 'static,
        Fut: Future<Output = Result<A, E>> + Send + 'static,
    {
        let method = proto_schemas::find(name).unwrap_or_else(|| panic!("{name} has no schema"));
        let service = self.service.clone();
        let call = move |caller: Caller, params: Option<&RawValue>| -> PendingAnswer {
            if !caller.may_call(method) {
                return Box::pin(ready(Err(no_method(name))));
            }
            // Parsed while they are borrowed: they need not be copied first.
            let params = match parse(params) {
                Ok(params) => params,
                Err(error) => return Box::pin(ready(Err(error))),
            };
            let service = service.clone();
            Box::pin(async move {
                // Begun in here, where it stays: the future of a method is large and must not be moved.
                let answer = match caller.trace() {
                    None => handler(service, caller, params).await,
                    // Boxed, so that the future of a call without a trace has no space for it.
                    Some(call) => {
                        let answering = Box::pin(handler(service, caller, params));
                        call.answered_by(method.namespace.name, answering).await
                    }
                };
                let answer = answer.map_err(Into::into);
                let answer = answer.and_then(|answer| answer.into_answer().map_err(RpcError::internal));
                answer.map_err(|error| error.logged(name))
            })
        };
        let entry = MethodEntry { handler: Box::new(call), fields: fields_of::<P>() };
        let before = self.entries.insert(name, entry);
        assert!(before.is_none(), "{name} is in the table twice");
        self
    }
}

impl<Service> From<Rpc<Service>> for Methods {
    fn from(rpc: Rpc<Service>) -> Methods {
        Methods(Arc::new(rpc.entries))
    }
}

pub(super) fn no_method(name: &str) -> RpcError {
    RpcError::new(codes::METHOD_NOT_FOUND, format!("method {name} not found"))
}

/// A wrong field answers with its JSON path. Absent parameters are an empty object.
fn parse<P: DeserializeOwned>(params: Option<&RawValue>) -> Result<P, RpcError> {
    let text = params.map_or("{}", RawValue::get);
    // Tracking the path costs time; only calls that fail need it.
    if let Ok(params) = serde_json::from_str(text) {
        return Ok(params);
    }
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner().to_string();
        let reason = inner.split(" at line ").next().unwrap_or(&inner);
        let path = if path == "." { "params".to_owned() } else { format!("params.{path}") };
        RpcError::new(codes::INVALID_PARAMS, format!("{path}: {reason}")).with("path", path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        Session {
            aid: Aid::parse("alice.aid.net").unwrap(),
            device: DeviceId::default(),
            slot: SlotId::default(),
            connection: 0,
            address: [0, 0, 0, 0].into(),
            connected_at_ms: 0,
            generation: Generation::default(),
            trace: None,
        }
    }

    fn relayed(depth: u8) -> Relayed {
        Relayed { from_issuer: "aid.net".to_owned(), relay_id: "r-1".to_owned(), depth }
    }

    #[test]
    fn the_schema_says_who_of_another_domain_may_call() {
        let agent = Caller::Foreign(session(), relayed(0));
        let service = Caller::ForeignService { service: "search".to_owned(), relayed: relayed(0) };
        let mut method = *proto_schemas::find("message.send").unwrap();
        let rule = method.federation.unwrap();
        for (agents, services) in [(true, false), (false, true), (true, true), (false, false)] {
            method.federation = Some(proto_schemas::FederationRule { agents, services, ..rule });
            assert_eq!((agent.may_call(&method), service.may_call(&method)), (agents, services));
        }
        method.federation = None;
        for access in [Access::Public, Access::Session, Access::Internal] {
            method.access = access;
            assert!(!agent.may_call(&method) && !service.may_call(&method), "{access:?}");
        }
    }

    #[test]
    fn an_internal_method_is_for_the_services_that_its_schema_lists() {
        let may = |name: &str, service: &str| {
            let method = proto_schemas::find(name).unwrap();
            let in_relay = Caller::ServiceForRelay { service: service.to_owned(), relayed: relayed(0) };
            let may = Caller::service(service).may_call(method);
            assert_eq!(in_relay.may_call(method), may, "{service} calls {name}");
            assert!(Caller::Operator.may_call(method), "the operator calls {name}");
            may
        };
        for (method, listed) in [
            ("ca.issue_cert", &["auth"][..]),
            ("ca.rekey_cert", &["auth"][..]),
            ("ca.add_trust_root", &[][..]),
            ("ca.revoked_agents", &["agent"][..]),
            ("auth.verify_token", &["gateway"][..]),
            ("message.session_opened", &["gateway"][..]),
        ] {
            for service in ["auth", "ca", "agent", "message", "search", "task", "gateway", "test", ""] {
                let own = proto_schemas::find(method).unwrap().namespace.service == service;
                assert_eq!(may(method, service), own || listed.contains(&service), "{service}, {method}");
            }
        }
        assert!(may("message.send", "search") && may("auth.create_aid", "search"), "these are not internal");
    }

    #[test]
    fn what_a_service_asks_because_of_a_relay_is_known_to_come_from_it() {
        let foreign = Caller::ForeignService { service: "search".to_owned(), relayed: relayed(1) };
        let first = Caller::service_because_of("group", &foreign);
        // A service that asks another service of this domain does not lose it either.
        let second = Caller::service_because_of("message", &first);
        for (caller, name) in [(first, "group"), (second, "message")] {
            assert_eq!(caller.service_name(), Some(name));
            assert_eq!(caller.relayed().map(|relayed| relayed.depth), Some(1));
        }
        for cause in [Caller::Agent(session()), Caller::service("message"), Caller::Unauthenticated] {
            let caller = Caller::service_because_of("message", &cause);
            assert!(matches!(caller, Caller::Service(service) if service == "message"));
        }
    }
}
