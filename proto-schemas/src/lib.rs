//! The wire contract: what each method means, which errors there are, and all of it as one OpenRPC document.
//!
//! The JSON files beside this crate are the contract, one per method; `build.rs` checks and embeds them. This crate only
//! gives access to them, and has them as types: requests, results, the signals of the bus, and names that have rules. It knows no socket, no store and no other crate of the workspace.

mod delivery;
pub mod envelope;
mod fields;
mod fill;
mod http;
mod limited_text;
mod names;
mod openapi;
mod openrpc;
mod request;
pub mod requests;
mod reserved;
mod signal;
pub mod tool_call;
mod violations;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value};

pub use delivery::Mode;
pub use envelope::HttpEnvelope;
pub use fields::{field_differences, fields_of, properties_of, referred};
pub use fill::fill;
pub use http::{
    ACCESS_TOKEN, HttpAccess, HttpHost, HttpPrefix, HttpRoute, HttpRouteBody, HttpRouteStatus, ServiceToken,
    TokenRule, VerifyServiceToken,
};
pub use limited_text::LimitedText;
pub use names::{Aid, AidError, DeviceId, SlotId};
pub use openapi::openapi;
pub use openrpc::openrpc;
pub use request::Request;
pub use reserved::is_reserved;
pub use signal::Signal;
pub use violations::{ParamViolation, bound_violations, violations};

/// The errors of `errors.json` and of the namespaces, one constant each.
pub mod codes {
    use super::Code;

    include!(concat!(env!("OUT_DIR"), "/codes.rs"));
}

include!(concat!(env!("OUT_DIR"), "/tables.rs"));
include!("body_limit.rs");

/// One row of a table of errors: the code on the wire, its status over HTTP, the sentence used where nothing more is known, and
/// whether a retry of the same call can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Whose table it is in; none for those of the protocol. Two namespaces may give the same name to different things.
    pub namespace: Option<&'static str>,
    pub name: &'static str,
    pub code: i32,
    pub http: u16,
    pub message: &'static str,
    pub retryable: bool,
    /// Whether it is listed for clients only: this server does not answer it.
    pub reserved: bool,
}

impl Code {
    /// The error of this name, in either case, that a method of this namespace answers: one of its service, or of the protocol.
    pub fn find(namespace: &Namespace, name: &str) -> Option<Code> {
        let known = |code: &&Code| match code.namespace {
            None => true,
            Some(table) => find_namespace(table).is_some_and(|own| own.service == namespace.service),
        };
        codes::ALL.iter().filter(known).find(|code| code.name.eq_ignore_ascii_case(name)).copied()
    }

    /// The status of errors of this name or kind: it is the same in all tables.
    pub fn http_status(name: &str) -> Option<u16> {
        codes::ALL.iter().find(|code| code.name.eq_ignore_ascii_case(name)).map(|code| code.http)
    }

    /// Whether the row of errors of this kind says that the same call may work later.
    pub fn is_retryable(kind: &str) -> bool {
        codes::ALL.iter().any(|code| code.retryable && code.name.eq_ignore_ascii_case(kind))
    }

    /// The key of its translations: `error.manifest.too_large` for `MANIFEST_TOO_LARGE`.
    pub fn i18n_key(&self) -> String {
        HttpEnvelope::i18n_key(self.name)
    }

    /// The name as the wire spells it in `data.kind`: `rate_limited`.
    pub fn kind(&self) -> String {
        self.name.to_ascii_lowercase()
    }
}

/// Who may call a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody, before login too.
    Public,
    /// Whoever has connected with `auth.connect`.
    Session,
    /// Those of the server's own services that its `callers` lists, and the operator; never a socket from outside.
    Internal,
    /// The gateway of another domain, over its peer link.
    Peer,
}

impl Access {
    /// Whether an agent can ever call it.
    pub fn is_for_agents(self) -> bool {
        matches!(self, Access::Public | Access::Session)
    }
}

/// One `namespace.json`: who serves the namespace, and what the gateway has to know of it.
#[derive(Clone, Copy, Debug)]
pub struct Namespace {
    pub name: &'static str,
    /// The service that serves it; `gateway` for the gateway's own.
    pub service: &'static str,
    /// Whether its service is told of sessions: `{name}.session_opened`, `session_resync` and `session_closed`.
    pub sessions: bool,
    /// Members of `features` in the answer to `auth.connect` that are true while the namespace answers.
    pub session_features: &'static [&'static str],
    /// Its feature tags. The first one stands for every method that names no other.
    pub tags: &'static [Tag],
    pub rates: &'static [RateClass],
    /// The tokens that its service gives.
    pub tokens: &'static [TokenRule],
    /// The HTTP paths of its service.
    pub http: &'static [HttpPrefix],
    doc: &'static LazyLock<Value>,
}

impl Namespace {
    /// The whole file.
    pub fn doc(&self) -> &'static Value {
        self.doc
    }
}

/// A feature tag: advertised in `/capabilities` while everything it needs is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    pub name: &'static str,
    /// The protocol version that brought it.
    pub since: &'static str,
    /// The ways it can be operated, where there are several.
    pub modes: &'static [&'static str],
    /// The namespaces without which it is not advertised.
    pub needs: &'static [&'static str],
}

/// A limit of its own for some methods or routes, beside that of all calls of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateClass {
    /// With its namespace: `auth.login`.
    pub name: &'static str,
    pub by: RateKey,
    /// What is accepted where the operator sets nothing else.
    pub per_minute: u32,
    /// How many may come at once, where that is less than a whole minute's.
    pub burst: Option<u32>,
}

/// Whose calls a rate class counts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateKey {
    Agent,
    Address,
    /// An address and the `aid` of the parameters: who knows a name cannot lock its owner out from another address.
    AddressAndAid,
}

/// How a method is forwarded from one domain to another. A method without this is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FederationRule {
    /// The parameter whose AID, or AIDs, determine the domain.
    pub by: Option<&'static str>,
    /// The parameter that makes a retry safe.
    pub again: Option<&'static str>,
    /// Whether it changes nothing, so that a retry is always safe.
    pub reads: bool,
    /// Whether agents of the other domain may call it.
    pub agents: bool,
    /// Whether a service of the other domain may call it in its own name.
    pub services: bool,
}

/// Whether a call makes the server store new bytes. It is refused while there is no space for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewBytes {
    /// It reads, frees space, or replaces a row of a few bytes.
    Never,
    Always,
    /// Only with this param.
    With(&'static str),
}

/// One method file.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    pub name: &'static str,
    /// Its position in [`methods`].
    pub position: usize,
    pub namespace: &'static Namespace,
    /// The feature tag without which it may not be called.
    pub tag: Option<&'static Tag>,
    pub access: Access,
    /// The services that may call it, if it is internal; beside them the operator, and the service that serves it.
    pub callers: &'static [&'static str],
    /// The limit that counts it beside that of all calls.
    pub rate: Option<&'static RateClass>,
    /// Whether it stores new bytes.
    pub new_bytes: NewBytes,
    /// A notification is sent without an id and is never answered.
    pub notification: bool,
    /// Whether it means nothing without a WebSocket, so that it cannot be called over HTTP.
    pub needs_connection: bool,
    /// Whether the same call again changes nothing, whatever its params are: it may be signed once and sent twice.
    pub repeatable: bool,
    /// What is answered to params that cannot be read.
    pub invalid_params: Code,
    /// The routes that it is, too.
    pub http: &'static [HttpRoute],
    /// How it is forwarded to the domain of another agent, if it is.
    pub federation: Option<FederationRule>,
    /// The file as it is written: the order of its members is lost in `doc`.
    text: &'static str,
    doc: &'static LazyLock<Value>,
}

impl Method {
    /// The whole file: summary, description, params, result, errors, examples.
    pub fn doc(&self) -> &'static Value {
        self.doc
    }

    /// The same method as another file would declare it; for tests of those who read such files.
    #[must_use]
    pub fn with_file(mut self, text: &'static str, doc: &'static LazyLock<Value>) -> Method {
        (self.text, self.doc) = (text, doc);
        self
    }

    /// Whether a service of this server may call it. What it serves itself is no secret to it.
    pub fn is_for_service(&self, service: &str) -> bool {
        self.access != Access::Internal
            || self.callers.contains(&service)
            || self.namespace.service == service
    }
}

/// One event file: something the server sends without being asked.
#[derive(Clone, Copy, Debug)]
pub struct EventSchema {
    /// The name on the wire: `event/gateway.disconnect`.
    pub name: &'static str,
    pub namespace: &'static str,
    pub audience: EventAudience,
    /// What orders it, where the order matters.
    pub order: Option<EventOrderRule>,
    /// How it crosses to another domain, if it does.
    pub federation: Option<EventFederationRule>,
    doc: &'static LazyLock<Value>,
}

/// The widest audience of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventAudience {
    /// One connection.
    Connection,
    /// The connections of one device of an agent.
    Device,
    /// All connections of an agent.
    Agent,
}

/// Events with the same series and the same values of the members of the key are delivered by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventOrderRule {
    /// With its namespace: `message.inbox`. Events of one series share their numbers.
    pub series: &'static str,
    pub key: &'static [&'static str],
    pub number: &'static str,
    /// Whether no number is left out, so that an event that comes too early is known by it and held for a moment. In a
    /// series that is not dense only the newest number counts.
    pub dense: bool,
    /// Whether the event may be repeated to one connection, outside the order.
    pub repeatable: bool,
    /// Whether several events may have the same number; they keep the order they came in. Otherwise one that comes twice
    /// is dropped.
    pub shared: bool,
}

/// How an event crosses from one domain to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventFederationRule {
    /// The member that names the agent the event is about, who must be of the domain it comes from.
    pub about: &'static str,
    /// Whether nobody but that agent is told.
    pub owner_only: bool,
}

impl EventSchema {
    /// The whole file: summary, description, params, example.
    pub fn doc(&self) -> &'static Value {
        self.doc
    }
}

/// Every namespace: the gateway's own first, then in alphabetical order.
pub fn namespaces() -> &'static [Namespace] {
    &NAMESPACES
}

/// The namespace of this name, if there is one.
pub fn find_namespace(name: &str) -> Option<&'static Namespace> {
    NAMESPACES.iter().find(|namespace| namespace.name == name)
}

/// Every service that serves a namespace, the gateway among them, by name.
pub fn services() -> impl Iterator<Item = &'static str> {
    NAMESPACES.iter().map(|namespace| namespace.service).collect::<BTreeSet<_>>().into_iter()
}

/// The namespaces of one service.
pub fn namespaces_of(service: &str) -> impl Iterator<Item = &'static Namespace> {
    NAMESPACES.iter().filter(move |namespace| namespace.service == service)
}

/// The service of this name, if one serves a namespace.
pub fn find_service(name: &str) -> Option<&'static str> {
    namespaces_of(name).next().map(|namespace| namespace.service)
}

/// The namespaces with a method or an event that crosses domains.
pub fn federated_namespaces() -> impl Iterator<Item = &'static Namespace> {
    NAMESPACES.iter().filter(|namespace| {
        let has_method = METHODS
            .iter()
            .any(|method| method.namespace.name == namespace.name && method.federation.is_some());
        let has_event =
            EVENTS.iter().any(|event| event.namespace == namespace.name && event.federation.is_some());
        has_method || has_event
    })
}

/// Every method, in alphabetical order.
pub fn methods() -> &'static [Method] {
    &METHODS
}

/// The methods by which namespaces say what they keep for agents: every internal one that is called `account`.
pub fn account_methods() -> impl Iterator<Item = &'static Method> {
    let is_account = |name: &str| name.split_once('.').is_some_and(|(_, method)| method == "account");
    METHODS.iter().filter(move |method| method.access == Access::Internal && is_account(method.name))
}

/// The method of this name, if there is one.
pub fn find(name: &str) -> Option<&'static Method> {
    let at = METHODS.binary_search_by_key(&name, |method| method.name).ok()?;
    Some(&METHODS[at])
}

/// The envelope of paths that name no other.
pub fn plain_envelope() -> &'static HttpEnvelope {
    &PLAIN_ENVELOPE
}

/// Every event, in alphabetical order.
pub fn events() -> &'static [EventSchema] {
    &EVENTS
}

/// The event of this name, if there is one.
pub fn find_event(name: &str) -> Option<&'static EventSchema> {
    let at = EVENTS.binary_search_by_key(&name, |event| event.name).ok()?;
    Some(&EVENTS[at])
}

/// The schemas the methods share, by name. A method refers to one as `#/components/schemas/Aid`.
pub fn common() -> &'static Value {
    static SCHEMAS: LazyLock<Value> = LazyLock::new(|| {
        let schemas: Map<_, _> =
            COMMON.iter().map(|(name, text)| ((*name).to_owned(), parse(text))).collect();
        Value::Object(schemas)
    });
    &SCHEMAS
}

/// A schema that can be handed to a validator: the same one, with the shared schemas it refers to inside.
pub fn standalone(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(object) = schema.as_object_mut() {
        object.insert("components".to_owned(), serde_json::json!({ "schemas": common() }));
    }
    schema
}

/// The same, refusing members that it does not list, at every depth. A schema accepts them, because the protocol grows; what
/// this server writes is listed.
pub fn exact(schema: &Value) -> Value {
    let mut schema = standalone(schema);
    refuse_others(&mut schema);
    let shared = schema.pointer_mut("/components/schemas").and_then(Value::as_object_mut);
    shared.into_iter().flatten().for_each(|(_, schema)| refuse_others(schema));
    schema
}

fn refuse_others(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(refuse_others);
        object.entry("additionalProperties").or_insert(false.into());
    }
    for inside in ["items", "additionalProperties"] {
        object.get_mut(inside).into_iter().for_each(refuse_others);
    }
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("build.rs has read this file")
}

fn parse_envelope(text: &str) -> HttpEnvelope {
    HttpEnvelope::parse(text).expect("build.rs has read this file")
}
