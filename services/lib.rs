//! The rooms of aund: one folder per namespace, and the kernel they stand on.
//!
//! A room is a value, not a process: `open` gives a [`Module`] whose methods are called through the mesh, from this
//! process or another. No room binds a port, and no room imports another.

pub mod kernel;

mod agent;
mod auth;
mod ca;
mod message;

#[cfg(test)]
mod testing;

use kernel::{Module, World};

/// The namespaces that live in rooms, in the order in which they open: a room may ask those before it while opening.
pub const NAMESPACES: &[&str] = &["ca", "auth", "agent", "message"];

/// Opens one room. The caller adds the module's methods to the mesh and owns its background work.
pub async fn open(namespace: &str, world: &World) -> anyhow::Result<Module> {
    match namespace {
        "agent" => agent::open(world).await,
        "auth" => auth::open(world).await,
        "ca" => ca::open(world).await,
        "message" => message::open(world).await,
        other => anyhow::bail!("there is no room called {other}; the rooms are {}", NAMESPACES.join(", ")),
    }
}

/// What the fuzz targets and the door need of a room without opening it.
pub mod pure {
    pub use crate::agent::document::Document;
    pub use crate::auth::jwt::{Claims, JwtError, verify as verify_token};
}
