//! `run.backends`: what can work on runs.

use super::list::profiles;
use crate::RunService;
use crate::access::RunAccess;
use crate::error::Error;
use crate::known_profiles::is_builtin;
use crate::settings::ProfileBackEnd;
use kernel::Caller;
use proto_schemas::requests::run::{BackendList, Backends, RunBackend};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn backends(self: Arc<Self>, caller: Caller, _: Backends) -> Result<BackendList, Error> {
        RunAccess::of(&caller, &self.settings)?;
        let configured = self.configured_profiles().await?;
        let backends =
            profiles(&self.settings, &configured).into_iter().map(|(profile, configured)| RunBackend {
                profile: profile.to_owned(),
                backend_kind: self.settings.kind_of(profile).as_str().to_owned(),
                builtin: is_builtin(profile),
                configured,
                capabilities: capabilities(self.settings.kind_of(profile))
                    .iter()
                    .map(|word| (*word).to_owned())
                    .collect(),
            });
        Ok(BackendList { backends: backends.collect() })
    }
}

/// What every back end of a kind can do.
fn capabilities(kind: ProfileBackEnd) -> &'static [&'static str] {
    match kind {
        ProfileBackEnd::ProcessJsonl => &["approval", "steer", "tools"],
        ProfileBackEnd::CodexStdio => &["approval", "diff", "plan", "reasoning", "resume", "steer", "tools"],
    }
}
