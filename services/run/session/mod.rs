//! Sessions: conversations over several runs, and the storage that those share.

mod collect_storage;
mod control;
mod create;
mod delete_storage;
mod get;
mod list;
mod measured_storage;
mod output;
mod paging;
mod read;
mod record;
mod refresh_storage;
mod storage;
mod trace;

use crate::RunService;
use kernel::Rpc;

/// Adds the methods of sessions.
pub(crate) fn methods(rpc: Rpc<RunService>) -> Rpc<RunService> {
    rpc.method(RunService::session_create)
        .method(RunService::session_list)
        .method(RunService::session_get)
        .method(RunService::session_trace)
        .method(RunService::session_output)
        .method(RunService::session_read)
        .method(RunService::session_control)
        .method(RunService::session_storage)
        .method(RunService::session_delete_storage)
        .method(RunService::session_refresh_storage)
        .method(RunService::session_collect_storage)
}
