//! `run.backends`: what can work on runs.

use super::list::profiles;
use crate::RunService;
use crate::access::RunAccess;
use crate::error::Error;
use crate::known_profiles::{PROCESS_JSONL, is_builtin, kind_of};
use kernel::Caller;
use proto_schemas::requests::run::{BackendList, Backends, RunBackend};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn backends(self: Arc<Self>, caller: Caller, _: Backends) -> Result<BackendList, Error> {
        RunAccess::of(&caller, &self.settings)?;
        let configured = self.configured_profiles().await?;
        let backends = profiles(&configured).into_iter().map(|(profile, configured)| RunBackend {
            profile: profile.to_owned(),
            backend_kind: kind_of(profile).to_owned(),
            builtin: is_builtin(profile),
            configured,
            capabilities: capabilities(kind_of(profile)).iter().map(|word| (*word).to_owned()).collect(),
        });
        Ok(BackendList { backends: backends.collect() })
    }
}

/// What every back end of a kind can do.
fn capabilities(kind: &str) -> &'static [&'static str] {
    match kind {
        PROCESS_JSONL => &["approval", "steer", "tools"],
        _ => &["approval", "diff", "plan", "reasoning", "resume", "steer", "tools"],
    }
}
