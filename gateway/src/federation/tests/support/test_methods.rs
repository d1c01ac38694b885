//! Schemas of methods that only the tests have, so that no method of the server has to change for a test.

use proto_schemas::{FederationRule, Method};
use std::sync::LazyLock;

/// Only for services; the domain is determined by nothing in the parameters.
pub const SYNC: &str = "sync";
/// For agents and services; acts on `to`.
pub const SHARED: &str = "shared";

static TEST_METHODS: LazyLock<[Method; 2]> = LazyLock::new(|| {
    let rule = FederationRule { by: None, again: None, reads: true, agents: false, services: true };
    let like = |name, rule| {
        let mut method = *proto_schemas::find("message.send").unwrap();
        (method.name, method.federation) = (name, Some(rule));
        method
    };
    let shared = FederationRule { by: Some("to"), agents: true, ..rule };
    [like("message.sync", rule), like("message.shared", shared)]
});

/// The schemas of the server, and those of the tests.
pub fn find_method(name: &str) -> Option<&'static Method> {
    TEST_METHODS.iter().find(|method| method.name == name).or_else(|| proto_schemas::find(name))
}
