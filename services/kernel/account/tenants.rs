//! How much a service keeps for tenants.

use super::{Account, Kept};
use std::collections::HashMap;

/// What tenants may keep in one service. Until the service says so, they may keep nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantShares {
    /// Each tenant that has no share of its own.
    pub each: Kept,
    /// By name.
    pub own: HashMap<String, Kept>,
}

impl TenantShares {
    pub(super) fn of(&self, name: &str) -> Kept {
        self.own.get(name).copied().unwrap_or(self.each)
    }
}

impl Account {
    /// Says what tenants may keep from now on. What they keep already stays, also if it is more.
    pub fn set_tenant_shares(&self, shares: TenantShares) {
        *self.0.tenants.write() = shares;
    }
}
