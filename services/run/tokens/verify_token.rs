//! `run.verify_token`: whose a token is.

use super::{RUNNER_TOKEN_MS, hash_of, is_token};
use crate::RunService;
use crate::access::{ADMIN, RUNNER, TENANT};
use crate::error::Error;
use crate::store::TokenFacts;
use kernel::{Caller, RpcError, codes};
use proto_schemas::ServiceToken;
use proto_schemas::requests::run::VerifyToken;
use std::sync::Arc;

impl RunService {
    pub(crate) async fn verify_token(
        self: Arc<Self>,
        _: Caller,
        VerifyToken { token }: VerifyToken,
    ) -> Result<ServiceToken, Error> {
        let facts = match is_token(&token) {
            true => self.store.token(&hash_of(&token)).await?,
            false => None,
        };
        let subject = facts.and_then(|facts| self.subject(facts));
        let Some(subject) = subject else { return Err(RpcError::plain(codes::TOKEN_INVALID).into()) };
        Ok(ServiceToken { subject, aid: None })
    }

    fn subject(&self, facts: TokenFacts) -> Option<String> {
        if facts.revoked_at.is_some() {
            return None;
        }
        match &*facts.kind {
            TENANT => facts.tenant.filter(|tenant| self.settings.tenants.contains_key(tenant)),
            ADMIN => Some(ADMIN.to_owned()),
            RUNNER if runner_token_ends_at(&facts, self.started_at)? > self.clock.now_ms() => {
                Some(format!("{} {}", facts.run_id?, facts.attempt_id?))
            }
            _ => None,
        }
    }
}

/// When the token of a runner ends; none if its run has ended, or is not there.
fn runner_token_ends_at(facts: &TokenFacts, started_at: i64) -> Option<i64> {
    let run = facts.run.as_ref().filter(|run| run.ended_at.is_none())?;
    let last = match facts.attempt_id.is_some() && facts.attempt_id == run.lease_attempt {
        true if run.lease_released => run.lease_until,
        // Nobody could renew a lease while the server was down.
        true => run.lease_until.max(started_at + run.lease_ms),
        // The attempt has no lease yet, or another attempt has replaced it: its runner is still told by whom.
        false => facts.created_at.max(run.holder_registered_at.unwrap_or_default()),
    };
    Some(last + RUNNER_TOKEN_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::TokenRun;

    #[test]
    fn a_runner_token_ends_with_its_run_or_ten_minutes_after_the_last_lease_of_its_attempt() {
        let run = TokenRun {
            lease_attempt: Some("attempt_1".to_owned()),
            lease_until: 5000,
            lease_ms: 60,
            lease_released: false,
            ended_at: None,
            holder_registered_at: Some(4000),
        };
        let ends_at = |attempt: &str, started_at, change: fn(&mut TokenRun)| {
            let mut run = run.clone();
            change(&mut run);
            let facts = TokenFacts {
                kind: RUNNER.to_owned(),
                run_id: Some("run_1".to_owned()),
                attempt_id: Some(attempt.to_owned()),
                created_at: 3000,
                run: Some(run),
                ..TokenFacts::default()
            };
            runner_token_ends_at(&facts, started_at)
        };
        let after = |at: i64| Some(at + RUNNER_TOKEN_MS);
        assert_eq!(ends_at("attempt_1", 0, |_| ()), after(5000));
        assert_eq!(ends_at("attempt_1", 9000, |_| ()), after(9060), "after a start");
        assert_eq!(ends_at("attempt_1", 9000, |run| run.lease_released = true), after(5000), "given back");
        assert_eq!(ends_at("attempt_2", 9000, |_| ()), after(4000), "replaced");
        let waiting = |run: &mut TokenRun| (run.lease_attempt, run.holder_registered_at) = (None, None);
        assert_eq!(ends_at("attempt_2", 0, waiting), after(3000), "not claimed yet");
        assert_eq!(ends_at("attempt_1", 0, |run| run.ended_at = Some(1)), None);
    }
}
