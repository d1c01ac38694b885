//! The one table of feature tags. A tag that is advertised means that the behaviour is present: the list clients read and
//! the check of every call are made from the same row.

use parking_lot::RwLock;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

pub const SCHEMA_VERSION: u32 = 1;
pub const PROTOCOL: &str = "v1";
/// No run service has a workspace yet. A folder of this machine would tell unauthenticated callers about it, and each
/// gateway of a domain would say another one.
const WORKSPACE: &str = "/";

pub struct FeatureTag {
    pub tag: &'static str,
    /// The protocol version that brought it.
    pub since: &'static str,
    /// The ways it can be operated, where there are several.
    pub modes: &'static [&'static str],
    /// The services without which it is not advertised.
    needs: &'static [&'static str],
    /// The methods and routes that exist only with the tag.
    pub methods: &'static [&'static str],
    pub routes: &'static [&'static str],
}

const fn baseline(
    tag: &'static str,
    methods: &'static [&'static str],
    routes: &'static [&'static str],
) -> FeatureTag {
    FeatureTag { tag, since: PROTOCOL, modes: &[], needs: &[], methods, routes }
}

pub const REGISTRY: &[FeatureTag] = &[
    baseline("health", &[], &["/health"]),
    baseline("capabilities", &["meta.capabilities"], &["/capabilities"]),
    baseline("rate_limit", &[], &[]),
    baseline("rpc_gateway", &["auth.connect"], &["/aun", "/ws"]),
    baseline("rpc_discover", &["rpc.discover"], &[]),
    baseline("ns_meta", &["meta.ping", "meta.status"], &[]),
    FeatureTag {
        needs: &["auth", "ca"],
        ..baseline(
            "ns_auth",
            &[
                "auth.create_aid",
                "auth.aid_login1",
                "auth.aid_login2",
                "auth.refresh_token",
                "auth.renew_cert",
                "auth.rekey",
                "auth.request_cert",
                "auth.download_cert",
            ],
            &[],
        )
    },
    FeatureTag {
        needs: &["ca"],
        ..baseline(
            "pki_http",
            &["meta.trust_roots"],
            &["/pki/chain", "/pki/crl.json", "/pki/trust-roots.json", "/pki/root.crt", "/ca/cert"],
        )
    },
    FeatureTag {
        modes: &["single", "multi-v1"],
        needs: &["agent"],
        ..baseline("agent_md", &[], &["/agent.md"])
    },
    FeatureTag {
        modes: &["fanout", "queue"],
        needs: &["message"],
        ..baseline(
            "ns_message",
            &[
                "message.send",
                "message.pull",
                "message.ack",
                "message.recall",
                "message.query_online",
                "message.peers",
                "message.history",
                "message.read",
                "message.read_state",
                "message.e2ee.put_prekey",
                "message.e2ee.get_prekey",
                "message.e2ee.record_replay_guard",
                "message.e2ee.check_replay_guard",
                "message.v2.put_peer_pk",
                "message.v2.bootstrap",
                "message.v2.pull",
                "message.v2.ack",
                "message.thought.put",
                "message.thought.get",
            ],
            &[],
        )
    },
    FeatureTag { modes: &["aid"], ..baseline("notification_route", &["notification/route"], &[]) },
    FeatureTag { needs: &["ca"], ..baseline("client_signature", &[], &[]) },
];

/// What a method needs that is advertised under a tag.
pub fn needs_of_method(name: &str) -> &'static [&'static str] {
    REGISTRY.iter().find(|row| row.methods.contains(&name)).map_or(&[], |row| row.needs)
}

/// Likewise for an HTTP path.
pub fn needs_of_route(path: &str) -> &'static [&'static str] {
    tag_of_route(path).map_or(&[], |row| row.needs)
}

fn tag_of_route(path: &str) -> Option<&'static FeatureTag> {
    let covers = |route: &str| path == route || (path.starts_with("/pki/") && route.starts_with("/pki/"));
    REGISTRY.iter().find(|row| row.routes.iter().any(|route| covers(route)))
}

/// The tags whose services are all up, in the order of the table.
fn advertised(up: &[&'static str]) -> Vec<&'static FeatureTag> {
    REGISTRY.iter().filter(|row| row.needs.iter().all(|namespace| up.contains(namespace))).collect()
}

/// What is advertised now.
pub struct AdvertisedCapabilities {
    now: RwLock<Snapshot>,
}

struct Snapshot {
    tags: Vec<&'static str>,
    /// Every method that belongs to a tag, and whether that is advertised: read for every call.
    methods: HashMap<&'static str, bool>,
    text: Arc<str>,
}

impl AdvertisedCapabilities {
    /// `up` has the namespaces that answer.
    pub fn new(up: &[&'static str]) -> AdvertisedCapabilities {
        AdvertisedCapabilities { now: RwLock::new(snapshot(up)) }
    }

    /// The document of `GET /capabilities` and `meta.capabilities`.
    pub fn text(&self) -> Arc<str> {
        self.now.read().text.clone()
    }

    /// Whether a method may be called: it belongs to no tag, or to one that is advertised.
    pub fn allows(&self, method: &str) -> bool {
        self.now.read().methods.get(method).copied().unwrap_or(true)
    }

    /// Whether an HTTP path is answered: likewise.
    pub fn serves(&self, path: &str) -> bool {
        tag_of_route(path).is_none_or(|row| self.now.read().tags.contains(&row.tag))
    }

    /// Gives what was added and removed since the last time, if anything was.
    pub fn update(&self, up: &[&'static str]) -> Option<Value> {
        let next = snapshot(up);
        let mut now = self.now.write();
        let missing = |from: &[&'static str], tags: &[&'static str]| -> Vec<&'static str> {
            tags.iter().filter(|tag| !from.contains(tag)).copied().collect()
        };
        let (added, removed) = (missing(&now.tags, &next.tags), missing(&next.tags, &now.tags));
        *now = next;
        (!added.is_empty() || !removed.is_empty()).then(|| json!({ "added": added, "removed": removed }))
    }
}

fn snapshot(up: &[&'static str]) -> Snapshot {
    let rows = advertised(up);
    let tags: Vec<&'static str> = rows.iter().map(|row| row.tag).collect();
    let versions = json!({ "current": PROTOCOL, "supported": [PROTOCOL] });
    let details: serde_json::Map<String, Value> = rows
        .iter()
        .map(|row| {
            let mut detail = json!({ "since": row.since });
            if !row.modes.is_empty() {
                detail["modes"] = json!(row.modes);
            }
            (row.tag.to_owned(), detail)
        })
        .collect();
    let document = json!({
        "v": SCHEMA_VERSION,
        "mode": "http-bridge",
        "features": tags,
        "featureDetails": details,
        "workspaceCwd": WORKSPACE,
        "protocol": versions,
        "protocolVersions": versions,
        "modelServices": [],
        "transports": ["rest"],
        "serverVersion": env!("CARGO_PKG_VERSION"),
    });
    let methods = REGISTRY.iter().rev().flat_map(|row| {
        let present = tags.contains(&row.tag);
        row.methods.iter().map(move |method| (*method, present))
    });
    Snapshot { methods: methods.collect(), text: document.to_string().into(), tags }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn tags(up: &[&'static str]) -> Vec<&'static str> {
        advertised(up).into_iter().map(|row| row.tag).collect()
    }

    #[test]
    fn tags_are_unique_and_keep_their_order() {
        let all: Vec<_> = REGISTRY.iter().map(|row| row.tag).collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
        assert_eq!(tags(services::NAMESPACES), all);
    }

    #[test]
    fn a_tag_comes_and_goes_with_the_services_it_needs() {
        let none = tags(&[]);
        for row in REGISTRY {
            assert_eq!(row.needs.is_empty(), none.contains(&row.tag), "{}", row.tag);
        }
        let some = tags(&["ca"]);
        assert!(some.contains(&"pki_http") && !some.contains(&"ns_auth"), "ns_auth needs auth, too");
    }

    #[test]
    fn what_is_advertised_and_what_may_be_called_cannot_differ() {
        let capabilities = AdvertisedCapabilities::new(services::NAMESPACES);
        assert!(capabilities.allows("auth.aid_login1"));
        let change = capabilities.update(&["ca"]).unwrap();
        assert_eq!(change, json!({ "added": [], "removed": ["ns_auth", "agent_md", "ns_message"] }));
        assert!(!capabilities.allows("auth.aid_login1"));
        assert!(
            !capabilities.serves("/agent.md")
                && capabilities.serves("/pki/cert/x")
                && capabilities.serves("/else")
        );
        assert!(!capabilities.text().contains("ns_auth"));
        assert!(capabilities.update(&["ca"]).is_none());
    }

    #[test]
    fn both_spellings_of_the_versions_agree() {
        let text = AdvertisedCapabilities::new(services::NAMESPACES).text();
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["protocol"], document["protocolVersions"]);
        assert_eq!(document["v"], 1);
    }
}
