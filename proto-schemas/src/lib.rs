//! The wire contract: what each method means, which errors there are, and all of it as one OpenRPC document.
//!
//! The JSON files beside this crate are the contract, one per method; `build.rs` checks and embeds them. This crate only
//! gives access to them. It knows no socket, no store and no other crate of the workspace.

mod fill;
mod openrpc;
mod request;
pub mod requests;

use std::sync::LazyLock;

use serde_json::{Map, Value};

pub use fill::fill;
pub use openrpc::openrpc;
pub use request::Request;

/// The errors of `errors.json`, one constant each.
pub mod codes {
    use super::Code;

    include!(concat!(env!("OUT_DIR"), "/codes.rs"));
}

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

/// One row of `errors.json`: the code on the wire, the sentence used where nothing more is known, and whether a retry of
/// the same call can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    pub name: &'static str,
    pub code: i32,
    pub message: &'static str,
    pub retryable: bool,
}

impl Code {
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
    /// The server's own services and its operator, never a socket from outside.
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

/// How a method is forwarded from one domain to another. A method without this is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FederationRule {
    /// The parameter whose AID, or AIDs, determine the domain.
    pub by: Option<&'static str>,
    /// The parameter that makes a retry safe.
    pub again: Option<&'static str>,
    /// Whether it changes nothing, so that a retry is always safe.
    pub reads: bool,
}

/// Which limit counts a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    Register,
    Login,
    Call,
    Ping,
}

/// One method file.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    pub name: &'static str,
    pub access: Access,
    pub rate: Rate,
    /// A notification is sent without an id and is never answered.
    pub notification: bool,
    /// How it is forwarded to the domain of another agent, if it is.
    pub federation: Option<FederationRule>,
    doc: &'static LazyLock<Value>,
}

impl Method {
    /// The whole file: summary, description, params, result, errors, examples.
    pub fn doc(&self) -> &'static Value {
        self.doc
    }
}

/// One event file: something the server sends without being asked.
#[derive(Clone, Copy, Debug)]
pub struct EventSchema {
    /// The name on the wire: `event/gateway.disconnect`.
    pub name: &'static str,
    doc: &'static LazyLock<Value>,
}

impl EventSchema {
    /// The whole file: summary, description, params, example.
    pub fn doc(&self) -> &'static Value {
        self.doc
    }
}

/// Every method, in alphabetical order.
pub fn methods() -> &'static [Method] {
    &METHODS
}

/// The method of this name, if there is one.
pub fn find(name: &str) -> Option<&'static Method> {
    let at = METHODS.binary_search_by_key(&name, |method| method.name).ok()?;
    Some(&METHODS[at])
}

/// Every event, in alphabetical order.
pub fn events() -> &'static [EventSchema] {
    &EVENTS
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

/// The table of errors as it is written, descriptions included.
pub fn errors() -> &'static Value {
    static TABLE: LazyLock<Value> = LazyLock::new(|| parse(include_str!("../errors.json")));
    &TABLE
}

/// A schema that can be handed to a validator: the same one, with the shared schemas it refers to inside.
pub fn standalone(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(object) = schema.as_object_mut() {
        object.insert("components".to_owned(), serde_json::json!({ "schemas": common() }));
    }
    schema
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("build.rs has read this file")
}
