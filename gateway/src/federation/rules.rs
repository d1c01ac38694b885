//! Which methods and events cross domains, as their schemas say and as far as the operator lets their namespaces cross.

use proto_schemas::{EventFederationRule, EventSchema, Method};

pub struct FederationRules {
    /// The namespaces that may cross.
    namespaces: Vec<String>,
    /// Looks up the schema of a method. A test may have schemas of its own.
    pub find_method: fn(&str) -> Option<&'static Method>,
}

impl FederationRules {
    pub fn new(namespaces: &[String]) -> FederationRules {
        FederationRules { namespaces: namespaces.to_vec(), find_method: proto_schemas::find }
    }

    pub fn allows(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|allowed| allowed == namespace)
    }

    /// The method, if its schema says that it crosses, for whomever.
    pub fn method(&self, namespace: &str, method: &str) -> Option<&'static Method> {
        (self.find_method)(&format!("{namespace}.{method}")).filter(|method| method.federation.is_some())
    }

    /// The event of this name on the wire, if its schema says that it crosses.
    pub fn event(name: &str) -> Option<(&'static EventSchema, EventFederationRule)> {
        let schema = proto_schemas::find_event(name)?;
        Some((schema, schema.federation?))
    }
}

/// Whether the service serves this namespace: then it may relay what is in it.
pub fn serves(service: &str, namespace: &str) -> bool {
    proto_schemas::find_namespace(namespace).is_some_and(|namespace| namespace.service == service)
}
