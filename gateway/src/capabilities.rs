//! The one table of feature tags. A tag that is present means that the behaviour is present: the list clients read and
//! the gate that dispatch asks are made from the same row.

use parking_lot::RwLock;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

pub const SCHEMA_VERSION: u32 = 1;
pub const PROTOCOL: &str = "v1";
/// Work is done in a workspace of the run service. While there is none, nobody is bound to a part of any disk; a folder of
/// ours would tell strangers where we live, and each gateway of a domain would say another one.
const WORKSPACE: &str = "/";

/// What the conditions look at: facts of this deployment, right now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toggles {
    pub rate_limit: bool,
    /// The namespaces whose service answers.
    pub namespaces: Vec<&'static str>,
}

impl Toggles {
    fn has(&self, namespace: &str) -> bool {
        self.namespaces.contains(&namespace)
    }
}

pub struct Tag {
    pub tag: &'static str,
    /// The protocol version that brought it.
    pub since: &'static str,
    /// The ways it can be operated, where there are several.
    pub modes: &'static [&'static str],
    /// Present only where this holds; baseline tags have no condition.
    predicate: Option<fn(&Toggles) -> bool>,
    /// The methods and routes that exist only with the tag.
    pub methods: &'static [&'static str],
    pub routes: &'static [&'static str],
}

const fn baseline(
    tag: &'static str,
    methods: &'static [&'static str],
    routes: &'static [&'static str],
) -> Tag {
    Tag { tag, since: PROTOCOL, modes: &[], predicate: None, methods, routes }
}

pub const REGISTRY: &[Tag] = &[
    baseline("health", &[], &["/health"]),
    baseline("capabilities", &["meta.capabilities"], &["/capabilities"]),
    Tag { predicate: Some(|t| t.rate_limit), ..baseline("rate_limit", &[], &[]) },
    baseline("rpc_gateway", &["auth.connect"], &["/aun", "/ws"]),
    baseline("rpc_discover", &["rpc.discover"], &[]),
    baseline("ns_meta", &["meta.ping", "meta.status"], &[]),
    Tag {
        predicate: Some(|t| t.has("auth") && t.has("ca")),
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
    Tag {
        predicate: Some(|t| t.has("ca")),
        ..baseline(
            "pki_http",
            &["meta.trust_roots"],
            &["/pki/chain", "/pki/crl.json", "/pki/trust-roots.json", "/pki/root.crt", "/ca/cert"],
        )
    },
    Tag {
        modes: &["single", "multi-v1"],
        predicate: Some(|t| t.has("agent")),
        ..baseline("agent_md", &[], &["/agent.md"])
    },
    Tag {
        modes: &["fanout", "queue"],
        predicate: Some(|t| t.has("message")),
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
    Tag { modes: &["aid"], ..baseline("notification_route", &["notification/route"], &[]) },
    Tag { predicate: Some(|t| t.has("ca")), ..baseline("client_signature", &[], &[]) },
];

/// Every tag there is, advertised or not, in registry order.
pub fn registered() -> impl Iterator<Item = &'static str> {
    REGISTRY.iter().map(|row| row.tag)
}

/// The tags whose behaviour is present, in registry order.
pub fn advertised<'t>(protocol: &'t str, toggles: &'t Toggles) -> impl Iterator<Item = &'static Tag> + 't {
    REGISTRY
        .iter()
        .filter(move |row| row.since == protocol && row.predicate.is_none_or(|holds| holds(toggles)))
}

/// What is advertised now. Reading it is a pointer's worth of work.
pub struct Capabilities {
    now: RwLock<Snapshot>,
}

struct Snapshot {
    tags: Vec<&'static str>,
    /// Every method that belongs to a tag, and whether that is present: asked for every call.
    methods: HashMap<&'static str, bool>,
    text: Arc<str>,
}

impl Capabilities {
    pub fn new(toggles: &Toggles) -> Capabilities {
        Capabilities { now: RwLock::new(snapshot(toggles)) }
    }

    /// The envelope of `GET /capabilities` and `meta.capabilities`.
    pub fn text(&self) -> Arc<str> {
        self.now.read().text.clone()
    }

    /// Whether a method may be called: it belongs to no tag, or to one that is present.
    pub fn allows(&self, method: &str) -> bool {
        self.now.read().methods.get(method).copied().unwrap_or(true)
    }

    /// Whether a path is answered: likewise.
    pub fn serves(&self, path: &str) -> bool {
        let covers = |route: &str| path == route || (path.starts_with("/pki/") && route.starts_with("/pki/"));
        let Some(row) = REGISTRY.iter().find(|row| row.routes.iter().any(|route| covers(route))) else {
            return true;
        };
        self.now.read().tags.contains(&row.tag)
    }

    /// Takes a new state of the deployment and gives what was added and removed, if anything was.
    pub fn update(&self, toggles: &Toggles) -> Option<Value> {
        let next = snapshot(toggles);
        let mut now = self.now.write();
        let missing = |from: &[&'static str], tags: &[&'static str]| -> Vec<&'static str> {
            tags.iter().filter(|tag| !from.contains(tag)).copied().collect()
        };
        let (added, removed) = (missing(&now.tags, &next.tags), missing(&next.tags, &now.tags));
        *now = next;
        (!added.is_empty() || !removed.is_empty()).then(|| json!({ "added": added, "removed": removed }))
    }
}

fn snapshot(toggles: &Toggles) -> Snapshot {
    let rows: Vec<&Tag> = advertised(PROTOCOL, toggles).collect();
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
    let envelope = json!({
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
    Snapshot { methods: methods.collect(), text: envelope.to_string().into(), tags }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn all_on() -> Toggles {
        Toggles { rate_limit: true, namespaces: services::NAMESPACES.to_vec() }
    }

    fn tags(toggles: &Toggles) -> Vec<&'static str> {
        advertised(PROTOCOL, toggles).map(|row| row.tag).collect()
    }

    #[test]
    fn tags_are_unique_and_keep_their_order() {
        let all: Vec<_> = registered().collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
        assert_eq!(tags(&all_on()), all);
    }

    #[test]
    fn every_conditional_tag_comes_and_goes_with_its_condition() {
        let off = tags(&Toggles::default());
        for row in REGISTRY {
            assert_eq!(row.predicate.is_none(), off.contains(&row.tag), "{}", row.tag);
        }
        let on = tags(&Toggles { rate_limit: true, ..Toggles::default() });
        assert!(on.contains(&"rate_limit") && !on.contains(&"agent_md"));
    }

    #[test]
    fn the_gate_and_the_list_cannot_disagree() {
        let capabilities = Capabilities::new(&all_on());
        assert!(capabilities.allows("auth.aid_login1"));
        let change = capabilities.update(&Toggles { rate_limit: true, namespaces: vec!["ca"] }).unwrap();
        assert_eq!(change, json!({ "added": [], "removed": ["ns_auth", "agent_md", "ns_message"] }));
        assert!(!capabilities.allows("auth.aid_login1"));
        assert!(
            !capabilities.serves("/agent.md")
                && capabilities.serves("/pki/cert/x")
                && capabilities.serves("/else")
        );
        assert!(!capabilities.text().contains("ns_auth"));
        assert!(capabilities.update(&Toggles { rate_limit: true, namespaces: vec!["ca"] }).is_none());
    }

    #[test]
    fn both_spellings_of_the_versions_agree() {
        let envelope: Value = serde_json::from_str(&Capabilities::new(&all_on()).text()).unwrap();
        assert_eq!(envelope["protocol"], envelope["protocolVersions"]);
        assert_eq!(envelope["v"], 1);
    }
}
