//! The documents in which clients read what this server can do, for one state of the mesh. The two large ones are made when somebody asks
//! for them first: most processes are never asked, and while many start, the state of the mesh changes often.

use super::capabilities::AdvertisedCapabilities;
use kernel::Mesh;
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};

/// The largest message; a frame holds a little more.
const MESSAGE_BYTES: usize = 1 << 20;

pub(super) struct AdvertisedDocuments {
    /// The `capabilities` member of the answer to `auth.connect`.
    pub session: Arc<str>,
    openrpc: OnceLock<Arc<str>>,
    openapi: OnceLock<Arc<str>>,
}

impl AdvertisedDocuments {
    pub fn new(mesh: &Mesh) -> AdvertisedDocuments {
        let advertised = mesh.advertised();
        let mut namespaces: Vec<&str> = proto_schemas::methods()
            .iter()
            .filter(|method| method.access.is_for_agents() && !method.notification)
            .filter_map(|method| method.name.split('.').next())
            .filter(|namespace| {
                let own =
                    proto_schemas::find_namespace(namespace).is_some_and(|own| own.service == "gateway");
                own || advertised.contains(namespace)
            })
            .collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        let mut features = json!({ "binary_message": false, "max_message_size": MESSAGE_BYTES });
        for namespace in proto_schemas::namespaces() {
            for feature in namespace.session_features {
                features[*feature] = advertised.contains(&namespace.name).into();
            }
        }
        let session = json!({
            "namespaces": namespaces,
            "features": features,
            // Clients from 0.5.25 on do not connect without it.
            "p2p_peer_pull_v1": true,
        });
        AdvertisedDocuments { session: written(&session), openrpc: OnceLock::new(), openapi: OnceLock::new() }
    }

    /// The answer to `rpc.discover`.
    pub fn openrpc(&self, capabilities: &AdvertisedCapabilities) -> Arc<str> {
        let made = || {
            written(&proto_schemas::openrpc(env!("CARGO_PKG_VERSION"), |method| {
                method.access.is_for_agents() && capabilities.allows(method)
            }))
        };
        self.openrpc.get_or_init(made).clone()
    }

    /// The answer to `GET /openapi.json`.
    pub fn openapi(&self, capabilities: &AdvertisedCapabilities) -> Arc<str> {
        let made = || {
            written(&proto_schemas::openapi(env!("CARGO_PKG_VERSION"), |method| capabilities.allows(method)))
        };
        self.openapi.get_or_init(made).clone()
    }
}

fn written(document: &Value) -> Arc<str> {
    document.to_string().into()
}
