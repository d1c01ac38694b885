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
    rpc.named_method("h2a.grant", AgentService::grant)
        .named_method("h2a.get", AgentService::get_relation)
        .named_method("h2a.list", AgentService::list_relations)
        .named_method("h2a.update", AgentService::update_relation)
        .named_method("h2a.revoke", AgentService::revoke)
        .named_method("h2a.suspend", AgentService::suspend)
        .named_method("h2a.restore", AgentService::restore)
        .named_method("h2a.session_opened", AgentService::session_opened)
        .named_method("h2a.session_resync", AgentService::session_resync)
        .named_method("h2a.session_closed", AgentService::session_closed)
}
