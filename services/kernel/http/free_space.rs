//! What the router of a service answers itself is no call of a method, and is refused without free space like one.

use super::RouteTable;
use crate::{Disk, DiskSpace, RpcError};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use proto_schemas::{HttpPrefix, NewBytes};
use std::sync::LazyLock;

static ROUTES: LazyLock<RouteTable> = LazyLock::new(|| RouteTable::new(proto_schemas::methods()));

/// In front of every router: refuses a request that stores new bytes while there is no space for them.
pub(super) async fn check_space(
    State(disk): State<Disk>,
    request: Request,
    next: Next,
) -> Result<Response, RpcError> {
    if disk.space() == DiskSpace::Full && stores(request.method().as_str(), request.uri().path()) {
        disk.check_bytes()?;
    }
    Ok(next.run(request).await)
}

/// Whether a request that a router answers stores new bytes: as its method declares it. What is no method is taken for one that stores by its verb, unless its path says otherwise: a router
/// cannot be listed, so nobody could tell what was forgotten.
pub fn stores(verb: &str, path: &str) -> bool {
    match ROUTES.find(path).and_then(|found| found.of(verb)) {
        Some(one) => one.method.new_bytes != NewBytes::Never,
        None => {
            matches!(verb, "POST" | "PUT" | "PATCH") && prefix_of(path).is_none_or(|prefix| prefix.stores)
        }
    }
}

fn prefix_of(path: &str) -> Option<&'static HttpPrefix> {
    let prefixes = proto_schemas::namespaces().iter().flat_map(|namespace| namespace.http);
    prefixes.filter(|prefix| prefix.covers(path)).max_by_key(|prefix| prefix.path.len())
}

#[cfg(test)]
mod tests {
    use super::super::routes_of;
    use super::*;
    use crate::DiskReading;
    use axum::Router;
    use axum::body::Body;
    use axum::routing::any;
    use tower::ServiceExt as _;

    #[test]
    fn what_is_declared_decides_and_otherwise_the_verb() {
        for (verb, path, storing) in [
            ("PUT", "/agent.md", true),
            ("PUT", "/", true),
            ("GET", "/agent.md", false),
            ("DELETE", "/agent.md", false),
            ("HEAD", "/agent.md", false),
            ("POST", "/pki/ocsp", false),
            ("POST", "/agents/a/something", true),
            ("GET", "/agents/a/something", false),
            ("PUT", "/of/nobody", true),
        ] {
            assert_eq!(stores(verb, path), storing, "{verb} {path}");
        }
    }

    #[tokio::test]
    async fn a_router_is_not_asked_for_what_there_is_no_space_for() {
        let disk = Disk::default();
        let router = routes_of(Router::new().route("/agent.md", any(|| async { "written" })), &disk);
        let status = async |verb: &str| {
            let request = Request::builder().method(verb).uri("/agent.md").body(Body::empty()).unwrap();
            router.clone().oneshot(request).await.unwrap().status().as_u16()
        };
        assert_eq!(status("PUT").await, 200);
        disk.set(DiskReading::of_disk(0, 1));
        assert_eq!((status("PUT").await, status("GET").await, status("DELETE").await), (503, 200, 200));
        assert_eq!(disk.refusals(), 1);
    }
}
