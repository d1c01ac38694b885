//! The services of aund: one folder per namespace, and the kernel that all of them use.
//!
//! A service is a value, not a process: `open` returns a [`Module`] whose methods are called through the mesh, from this
//! process or another. No service binds a port, and no service imports another.

pub mod kernel;

mod agent;
mod auth;
mod ca;
mod message;

#[cfg(test)]
mod schemas;
#[cfg(test)]
mod testing;

use kernel::{Module, World};

/// The namespaces of the services, in the order in which they open: a service may call those before it while opening.
pub const NAMESPACES: &[&str] = &["ca", "auth", "agent", "message"];

/// Opens one service. The caller adds the module's methods to the mesh and owns its background work.
pub async fn open(namespace: &str, world: &World) -> anyhow::Result<Module> {
    match namespace {
        "agent" => agent::open(world).await,
        "auth" => auth::open(world).await,
        "ca" => ca::open(world).await,
        "message" => message::open(world).await,
        other => {
            anyhow::bail!("service {other} not found; the services are {}", NAMESPACES.join(", "))
        }
    }
}

/// What the fuzz targets and the gateway need of a service without opening it.
pub mod pure {
    pub use crate::agent::agent_md::AgentMd;
    pub use crate::auth::jwt::{Claims, JwtError, verify as verify_token};
}
