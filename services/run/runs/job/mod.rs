//! Runner jobs of a run: what may be asked of them, and how they are shown.

mod runner_job_create;
mod runner_job_get;
mod runner_jobs;

use crate::RunService;
use crate::error::Error;
use crate::redact::{is_secret_name, redact_text};
use kernel::Caller;
use proto_schemas::requests::run::GotRunnerJob;
use std::collections::BTreeMap;

pub(super) const DEFAULT_IDLE_MS: i64 = 60_000;
pub(super) const MOST_ENV: usize = 32;
pub(super) const MOST_ENV_BYTES: usize = 4 << 10;

impl RunService {
    pub(super) async fn job_of(
        &self,
        caller: &Caller,
        run_id: &str,
        id: &str,
    ) -> Result<GotRunnerJob, Error> {
        let run = self.run_of(caller, run_id).await?;
        let job = self.store.job(&run.row.id, id).await?;
        let job = job.ok_or_else(|| Error::NotFound(format!("runner job {id}")))?;
        Ok(GotRunnerJob { runner_job: self.job_shown(&job, &run.row) })
    }
}

/// Settings of a runner, and nothing with which its process or its secrets could be changed.
pub(super) fn check_env(env: &BTreeMap<String, String>) -> Result<(), Error> {
    let invalid = |sentence: String| Err(Error::Invalid(sentence));
    if env.len() > MOST_ENV {
        return invalid(format!("env must have at most {MOST_ENV} entries"));
    }
    let bytes: usize = env.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > MOST_ENV_BYTES {
        return invalid(format!("env must have at most {MOST_ENV_BYTES} bytes"));
    }
    for (name, value) in env {
        let well_formed = name.starts_with(|first: char| first.is_ascii_uppercase())
            && name.len() <= 64
            && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        if !well_formed {
            return invalid(format!("env.{name}: a name has 1 to 64 characters of A-Z, 0-9 and _"));
        }
        let reserved = ["PATH", "HOME"].contains(&name.as_str())
            || ["LD_", "CODEX_", "AGENTRUN_"].iter().any(|prefix| name.starts_with(prefix));
        if reserved || is_secret_name(name) {
            return invalid(format!("env.{name} is not accepted"));
        }
        if value.contains('\0') {
            return invalid(format!("env.{name} must not have control characters"));
        }
        if redact_text(value) != *value {
            return invalid(format!("env.{name} must not have a secret"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_a_process_or_is_a_secret_is_no_setting() {
        let check = |name: &str| check_env(&BTreeMap::from([(name.to_owned(), "x".to_owned())]));
        assert!(check("LOG_LEVEL").is_ok() && check("A1").is_ok());
        let refused =
            ["PATH", "HOME", "LD_PRELOAD", "CODEX_HOME", "AGENTRUN_X", "MY_TOKEN", "API_KEY", "a", "", "1A"];
        for name in refused {
            assert!(check(name).is_err(), "{name}");
        }
        let many: BTreeMap<String, String> = (0..33).map(|n| (format!("A{n}"), String::new())).collect();
        assert!(check_env(&many).is_err());
        assert!(check_env(&BTreeMap::from([("A".to_owned(), "x".repeat(5000))])).is_err());
    }
}
