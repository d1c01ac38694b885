//! `h2a.*`: what users grant agents, and when they have to be asked again.

mod get;
mod grant;
mod list;
mod restore;
mod revoke;
mod session_closed;
mod session_opened;
mod session_resync;
mod shown;
mod steps;
mod suspend;
mod update;

use super::Agent;
use crate::kernel::Rpc;

/// The methods of the namespace.
pub(super) fn methods(rpc: Rpc<Agent>) -> Rpc<Agent> {
    rpc.method("h2a.grant", Agent::grant)
        .method("h2a.get", Agent::get_relation)
        .method("h2a.list", Agent::list_relations)
        .method("h2a.update", Agent::update_relation)
        .method("h2a.revoke", Agent::revoke)
        .method("h2a.suspend", Agent::suspend)
        .method("h2a.restore", Agent::restore)
        .method("h2a.session_opened", Agent::session_opened)
        .method("h2a.session_resync", Agent::session_resync)
        .method("h2a.session_closed", Agent::session_closed)
}
