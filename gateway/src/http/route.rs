//! Which service a request is for: the longest path that covers it, of those that the namespaces declare for its host.

use super::host::RequestHost;
use proto_schemas::{HttpHost, HttpPrefix};

/// A declared path, and the service that answers it.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeclaredPath {
    pub prefix: &'static HttpPrefix,
    pub service: &'static str,
}

/// Every path that a namespace declares.
pub(super) fn declared_paths() -> Vec<DeclaredPath> {
    let namespaces = proto_schemas::namespaces().iter();
    let of = |namespace: &'static proto_schemas::Namespace| {
        namespace.http.iter().map(|prefix| DeclaredPath { prefix, service: namespace.service })
    };
    let declared = namespaces.flat_map(of);
    #[cfg(test)]
    let declared = declared.chain(super::tests::declared_paths());
    declared.collect()
}

/// Every method that may have a route.
pub(super) fn methods() -> impl Iterator<Item = &'static proto_schemas::Method> {
    let methods = proto_schemas::methods().iter();
    #[cfg(test)]
    let methods = methods.chain(super::tests::methods());
    methods
}

/// Of two paths of the same length the one wins that is not for every host.
pub(super) fn find(all: &[DeclaredPath], host: &RequestHost, path: &str) -> Option<DeclaredPath> {
    let covers = |declared: &&DeclaredPath| host.is(declared.prefix.host) && declared.prefix.covers(path);
    let specific =
        |declared: &&DeclaredPath| (declared.prefix.path.len(), declared.prefix.host != HttpHost::Any);
    all.iter().filter(covers).max_by_key(specific).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::Aid;

    #[test]
    fn the_host_and_the_longest_path_decide() {
        let agent = RequestHost::Agent(Aid::parse("alice.aid.pub").unwrap());
        let (all, gateway, pki) = (declared_paths(), RequestHost::Gateway, RequestHost::Pki);
        let service = |host: &RequestHost, path: &str| find(&all, host, path).map(|found| found.service);
        assert_eq!(service(&gateway, "/pki/chain"), Some("ca"));
        assert_eq!(service(&pki, "/root.crt"), Some("ca"));
        assert_eq!(service(&gateway, "/root.crt"), None);
        assert_eq!((service(&agent, "/"), service(&gateway, "/")), (Some("agent"), None));
        assert_eq!(service(&gateway, "/rpc"), Some("gateway"));
        for path in ["/health/", "//health", "/pki", "/rpc/x", "/nothing"] {
            assert_eq!(service(&gateway, path), None, "{path}");
        }
    }
}
