//! The feature tags of the `namespace.json` files. A tag that is advertised means that the behaviour is present: the list
//! that clients read and the check of every call are made from the same row.

use parking_lot::RwLock;
use proto_schemas::{Method, Tag};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub const SCHEMA_VERSION: u32 = 1;
pub const PROTOCOL: &str = "v1";
/// No run service has a workspace yet. A folder of this machine would tell unauthenticated callers about it, and each
/// gateway of a domain would say another one.
const WORKSPACE: &str = "/";

/// What is advertised now.
pub struct AdvertisedCapabilities {
    now: RwLock<Snapshot>,
    /// Of each method, by its position, whether its tag is advertised.
    methods: Box<[AtomicBool]>,
}

struct Snapshot {
    tags: Vec<&'static Tag>,
    text: Arc<str>,
}

impl AdvertisedCapabilities {
    /// `up` has the namespaces that answer.
    pub fn new(up: &[&'static str]) -> AdvertisedCapabilities {
        let methods = proto_schemas::methods().iter().map(|_| AtomicBool::new(false)).collect();
        let capabilities = AdvertisedCapabilities { methods, now: RwLock::new(snapshot(up)) };
        capabilities.update_methods();
        capabilities
    }

    /// The document of `GET /capabilities` and `meta.capabilities`.
    pub fn text(&self) -> Arc<str> {
        self.now.read().text.clone()
    }

    /// Whether a method may be called: it belongs to no tag, or to one that is advertised. Read for every call.
    pub fn allows(&self, method: &Method) -> bool {
        self.methods.get(method.position).is_some_and(|allowed| allowed.load(Ordering::Relaxed))
    }

    /// Whether a tag is advertised.
    pub fn has(&self, tag: &Tag) -> bool {
        self.now.read().tags.contains(&tag)
    }

    /// Gives what was added and removed since the last time, if anything was.
    pub fn update(&self, up: &[&'static str]) -> Option<Value> {
        let next = snapshot(up);
        let missing = |from: &[&'static Tag], tags: &[&'static Tag]| -> Vec<&'static str> {
            tags.iter().filter(|tag| !from.contains(tag)).map(|tag| tag.name).collect()
        };
        let before = std::mem::replace(&mut *self.now.write(), next);
        self.update_methods();
        let tags = &self.now.read().tags;
        let (added, removed) = (missing(&before.tags, tags), missing(tags, &before.tags));
        (!added.is_empty() || !removed.is_empty()).then(|| json!({ "added": added, "removed": removed }))
    }

    fn update_methods(&self) {
        let now = self.now.read();
        for (method, allowed) in proto_schemas::methods().iter().zip(&self.methods) {
            allowed.store(method.tag.is_none_or(|tag| now.tags.contains(&tag)), Ordering::Relaxed);
        }
    }
}

/// The tags whose needs are all up, in the order of the namespaces.
fn advertised(up: &[&'static str]) -> Vec<&'static Tag> {
    let tags = proto_schemas::namespaces().iter().flat_map(|namespace| namespace.tags);
    tags.filter(|tag| tag.needs.iter().all(|need| up.contains(need))).collect()
}

fn snapshot(up: &[&'static str]) -> Snapshot {
    let tags = advertised(up);
    let versions = json!({ "current": PROTOCOL, "supported": [PROTOCOL] });
    let names: Vec<&str> = tags.iter().map(|tag| tag.name).collect();
    let details: serde_json::Map<String, Value> = tags
        .iter()
        .map(|tag| {
            let mut detail = json!({ "since": tag.since });
            if !tag.modes.is_empty() {
                detail["modes"] = json!(tag.modes);
            }
            (tag.name.to_owned(), detail)
        })
        .collect();
    let document = json!({
        "v": SCHEMA_VERSION,
        "mode": "http-bridge",
        "features": names,
        "featureDetails": details,
        "workspaceCwd": WORKSPACE,
        "protocol": versions,
        "protocolVersions": versions,
        "modelServices": [],
        "transports": ["rest"],
        "serverVersion": env!("CARGO_PKG_VERSION"),
    });
    Snapshot { text: document.to_string().into(), tags }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Everything that a tag may need.
    fn everything() -> Vec<&'static str> {
        let tags = proto_schemas::namespaces().iter().flat_map(|namespace| namespace.tags);
        tags.flat_map(|tag| tag.needs).copied().collect()
    }

    fn names(up: &[&'static str]) -> Vec<&'static str> {
        advertised(up).into_iter().map(|tag| tag.name).collect()
    }

    #[test]
    fn tags_are_unique_and_keep_their_order() {
        let all = names(&everything());
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
        assert_eq!(all[..4], ["health", "capabilities", "rate_limit", "rpc_gateway"]);
    }

    #[test]
    fn every_tag_comes_and_goes_with_what_it_needs() {
        let (everything, none) = (everything(), names(&[]));
        for tag in proto_schemas::namespaces().iter().flat_map(|namespace| namespace.tags) {
            assert_eq!(tag.needs.is_empty(), none.contains(&tag.name), "{}", tag.name);
            for need in tag.needs {
                let without: Vec<_> = everything.iter().filter(|up| *up != need).copied().collect();
                assert!(!names(&without).contains(&tag.name), "{} without {need}", tag.name);
            }
            assert!(names(tag.needs).contains(&tag.name), "{} with what it needs", tag.name);
        }
    }

    #[test]
    fn what_is_advertised_and_what_may_be_called_cannot_differ() {
        let capabilities = AdvertisedCapabilities::new(&["agent", "auth", "ca", "message"]);
        let allows = |name: &str| capabilities.allows(proto_schemas::find(name).unwrap());
        assert!(allows("auth.aid_login1") && allows("meta.trust_roots"));
        let change = capabilities.update(&["ca"]).unwrap();
        let removed = ["agent_md", "ns_agent", "scope_texts", "ns_auth", "ns_message", "tool_call_artifacts"];
        assert_eq!(change, json!({ "added": [], "removed": removed }));
        assert!(!allows("auth.aid_login1") && allows("meta.trust_roots"));
        assert!(!capabilities.text().contains("ns_auth"));
        assert!(capabilities.update(&["ca"]).is_none());
    }

    #[test]
    fn both_spellings_of_the_versions_agree() {
        let text = AdvertisedCapabilities::new(&everything()).text();
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["protocol"], document["protocolVersions"]);
        assert_eq!(document["v"], 1);
    }
}
