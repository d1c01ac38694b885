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

use super::AgentService;
use kernel::Rpc;

/// The methods of the namespace.
pub(super) fn methods(rpc: Rpc<AgentService>) -> Rpc<AgentService> {
    rpc.method(AgentService::grant)
        .method(AgentService::get_relation)
        .method(AgentService::list_relations)
        .method(AgentService::update_relation)
        .method(AgentService::revoke)
        .method(AgentService::suspend)
        .method(AgentService::restore)
        .method(AgentService::session_opened)
        .method(AgentService::session_resync)
        .method(AgentService::session_closed)
}
