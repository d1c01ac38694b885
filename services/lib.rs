//! The services of aund: one folder per service, and the kernel that all of them use.
//!
//! A service is a value, not a process: `open` returns a [`Service`] whose methods are called through the mesh, from this
//! process or another. No service binds a port, and no service imports another.

pub mod kernel;

mod agent;
mod auth;
mod ca;
mod message;
mod search;
mod task;

#[cfg(test)]
mod schemas;
#[cfg(test)]
mod testing;

use kernel::{Service, World};
use serde::{Deserialize, Serialize};

/// From one line for each service: its name, its settings, and how it is opened.
macro_rules! services {
    ($($name:ident),* $(,)?) => {
        /// The services, in the order in which they open: a service may call those before it while opening.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        /// The settings of all services, a table of `aund.toml` for each.
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Settings {
            $(pub $name: $name::Settings,)*
        }

        /// Opens one service. The caller adds it to the world, which calls it and runs its tasks.
        pub async fn open(name: &str, world: &World, settings: &Settings) -> anyhow::Result<Service> {
            match name {
                $(stringify!($name) => $name::open(world, &settings.$name).await,)*
                other => anyhow::bail!("service {other} not found; the services are {}", NAMES.join(", ")),
            }
        }
    };
}

services![ca, auth, agent, message, search, task];

impl Settings {
    /// Refuses what a service cannot do with, before any of them is opened.
    pub fn check(&self) -> anyhow::Result<()> {
        self.ca.check()?;
        self.message.check()
    }
}

/// What the fuzz targets, the gateway and the benchmark need of a service without opening it.
pub mod pure {
    pub use crate::auth::jwt::{Claims, JwtError, verify as verify_token};
    pub use crate::kernel::agent_md::AgentMd;
    pub use crate::search::index as text_index;
}
