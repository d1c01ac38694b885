//! Provider profiles: which back end works on a run, with which credential, and whether it does.

mod backends;
mod check;
mod delete;
mod get;
mod list;
mod record;
mod set_credential;
mod validate;
mod validation;
mod validation_get;

use crate::RunService;
use kernel::Rpc;

/// Adds the methods of profiles.
pub(crate) fn methods(rpc: Rpc<RunService>) -> Rpc<RunService> {
    rpc.method(RunService::backends)
        .method(RunService::profile_list)
        .method(RunService::profile_get)
        .method(RunService::profile_set_credential)
        .method(RunService::profile_delete)
        .method(RunService::profile_validate)
        .method(RunService::profile_validation_get)
}
