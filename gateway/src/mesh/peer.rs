//! The process on the other end of a mesh connection, as its certificate names it.

use kernel::Caller;

pub(super) struct MeshPeer {
    pub services: Vec<&'static str>,
    /// When the first of the two certificates of the connection expires, in seconds since 1970.
    pub not_after: i64,
}

impl MeshPeer {
    /// A service speaks for itself; only the gateway speaks for callers it has authenticated. Nobody speaks for the operator, who
    /// is known by a socket in the data folder of the process that is asked.
    pub fn may_speak_for(&self, caller: &Caller) -> bool {
        match caller {
            Caller::Service(service) | Caller::ServiceForRelay { service, .. } => {
                self.services.contains(&service.as_str())
            }
            Caller::Agent(_)
            | Caller::Token(..)
            | Caller::Foreign(..)
            | Caller::ForeignService { .. }
            | Caller::Unauthenticated(_) => self.services.contains(&"gateway"),
            Caller::Operator => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::Relayed;

    #[test]
    fn a_service_speaks_for_itself_and_only_the_gateway_for_others() {
        let relayed = Relayed { from_issuer: "aid.net".into(), relay_id: "r-1".into(), depth: 0 };
        let foreign = Caller::ForeignService { service: "message".into(), relayed };
        let in_relay = Caller::service_in_call("message", &foreign);
        for (caller, message, gateway) in [
            (Caller::service("message"), true, false),
            (in_relay, true, false),
            (foreign, false, true),
            (Caller::Unauthenticated(None), false, true),
            (Caller::Operator, false, false),
        ] {
            let may = ["message", "gateway", "auth"].map(|service| {
                let peer = MeshPeer { services: vec![service], not_after: 0 };
                peer.may_speak_for(&caller)
            });
            assert_eq!(may, [message, gateway, false], "{caller:?}");
        }
    }
}
