//! The process on the other end of a mesh connection, as its certificate names it.

use services::kernel::Caller;

pub(super) struct MeshPeer {
    pub services: Vec<&'static str>,
    /// When the first of the two certificates of the connection expires, in seconds since 1970.
    pub not_after: i64,
}

impl MeshPeer {
    /// A service speaks for itself; only the gateway speaks for callers it has authenticated.
    pub fn may_speak_for(&self, caller: &Caller) -> bool {
        match caller {
            Caller::Service(service) | Caller::ServiceForRelay { service, .. } => {
                self.services.contains(&service.as_str())
            }
            Caller::Agent(_)
            | Caller::Token(..)
            | Caller::Foreign(..)
            | Caller::ForeignService { .. }
            | Caller::Unauthenticated
            | Caller::Operator => self.services.contains(&"gateway"),
        }
    }
}
