//! The HTTP of a service in other processes, and which of them a request goes to.

use super::link::MeshHttpLink;
use crate::mesh::MeshContext;
use crate::mesh::link::MeshLink;
use axum::extract::Request;
use kernel::{PendingResponse, RemoteRoutes, unavailable};
use std::future::ready;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

pub(in crate::mesh) struct RemoteHttp {
    service: &'static str,
    processes: Vec<HttpProcess>,
    next: AtomicUsize,
    /// Weak, because the context has the mesh, which has this.
    context: Weak<MeshContext>,
}

/// One process: it is up while the link of its calls is.
struct HttpProcess {
    calls: Arc<MeshLink>,
    http: Arc<MeshHttpLink>,
}

impl RemoteHttp {
    pub fn new(
        context: &Arc<MeshContext>,
        service: &'static str,
        links: &[(String, Arc<MeshLink>)],
    ) -> RemoteHttp {
        let process = |(url, calls): &(String, Arc<MeshLink>)| HttpProcess {
            calls: calls.clone(),
            http: Arc::new(MeshHttpLink::new(service, url)),
        };
        RemoteHttp {
            service,
            processes: links.iter().map(process).collect(),
            next: AtomicUsize::new(0),
            context: Arc::downgrade(context),
        }
    }

    /// The process with the fewest requests in flight; round-robin among equals.
    fn least_busy(&self) -> Option<&Arc<MeshHttpLink>> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        (0..self.processes.len())
            .map(|step| &self.processes[first.wrapping_add(step) % self.processes.len()])
            .filter(|process| process.calls.is_open())
            .map(|process| &process.http)
            .min_by_key(|http| http.in_flight())
    }
}

impl RemoteRoutes for RemoteHttp {
    fn send(&self, request: Request) -> PendingResponse {
        let (Some(link), Some(context)) = (self.least_busy().cloned(), self.context.upgrade()) else {
            return Box::pin(ready(Err(unavailable(self.service))));
        };
        Box::pin(async move { link.send(&context, request).await })
    }
}
