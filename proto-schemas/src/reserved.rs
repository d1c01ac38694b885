//! Names that no agent may register: `https://{name}.{issuer}/` leads to a part of the server, or looks as if it did.

use crate::{find_namespace, find_service};

/// Namespaces of the protocol that this server does not have yet. One that has come may stay here.
const TO_COME: [&str; 13] = [
    "aid_custody",
    "group",
    "leaderboard",
    "mail",
    "nameservice",
    "proxy",
    "push",
    "registry",
    "relay",
    "run",
    "storage",
    "stream",
    "trust",
];

/// Hosts of the protocol, and names that a person could mistake for one.
const HOSTS: [&str; 8] =
    ["admin", "aun-console", "aun_console", "localhost", "peer", "pki", "root", "system"];

/// Whether the name of an AID, the part before its first dot, is reserved.
pub fn is_reserved(name: &str) -> bool {
    find_namespace(name).is_some()
        || find_service(name).is_some()
        || TO_COME.contains(&name)
        || HOSTS.contains(&name)
        || name.starts_with("guest")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{namespaces, services};

    #[test]
    fn namespaces_services_and_hosts_are_reserved() {
        for name in namespaces().iter().map(|namespace| namespace.name).chain(services()) {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["group", "storage", "admin", "aun_console", "gateway", "guest", "guest42"] {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["alice", "tasks", "my-gateway", "gues"] {
            assert!(!is_reserved(name), "{name}");
        }
    }
}
