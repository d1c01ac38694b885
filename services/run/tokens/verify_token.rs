//! `run.verify_token`: whose a token is.

use super::{hash_of, is_token};
use crate::RunService;
use crate::access::{ADMIN, RUNNER, TENANT, payer_of};
use crate::error::Error;
use crate::model::run::RUNNER_TOKEN_MS;
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
        let found = facts.and_then(|facts| {
            let payer = facts.run.is_some().then(|| facts.tenant.as_deref().map(payer_of)).flatten();
            Some(ServiceToken { subject: self.subject(facts)?, aid: None, payer })
        });
        found.ok_or_else(|| RpcError::plain(codes::TOKEN_INVALID).into())
    }

    fn subject(&self, facts: TokenFacts) -> Option<String> {
        if facts.revoked_at.is_some() {
            return None;
        }
        match &*facts.kind {
            TENANT => facts.tenant.filter(|tenant| self.settings.tenants.contains_key(tenant)),
            ADMIN => Some(ADMIN.to_owned()),
            RUNNER if runner_token_ends_at(&facts, self.started_at())? > self.clock.now_ms() => {
                Some(format!("{} {}", facts.run_id?, facts.attempt_id?))
            }
            _ => None,
        }
    }
}

/// When the token of a runner ends; none if its run is not there. For a while after its last lease, or after the end of the run, its
/// runner is told why, and not that it is unknown. Each of the times only makes it shorter, so none that has ended is valid again.
fn runner_token_ends_at(facts: &TokenFacts, started_at: i64) -> Option<i64> {
    let run = facts.run.as_ref()?;
    let is_holder = facts.attempt_id.is_some() && facts.attempt_id == run.lease_attempt;
    let last_lease = match (is_holder, facts.ends_at) {
        (true, _) if run.lease_released => Some(run.lease_until),
        // Nobody could renew a lease while the server was down.
        (true, _) => Some(run.lease_until.max(started_at + run.lease_ms)),
        // It has had no lease yet.
        (false, None) => Some(facts.created_at),
        // Another attempt has replaced it.
        (false, Some(_)) => None,
    };
    let after = |at: Option<i64>| at.map(|at| at + RUNNER_TOKEN_MS);
    [after(last_lease), after(run.ended_at), facts.ends_at].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::TokenRun;

    #[test]
    fn a_runner_token_ends_ten_minutes_after_its_run_or_after_the_last_lease_of_its_attempt() {
        let ends_at = |attempt: &str, started_at, change: fn(&mut TokenFacts, &mut TokenRun)| {
            let mut run = TokenRun {
                lease_attempt: Some("attempt_1".to_owned()),
                lease_until: 5000,
                lease_ms: 60,
                lease_released: false,
                ended_at: None,
            };
            let mut facts = TokenFacts {
                kind: RUNNER.to_owned(),
                run_id: Some("run_1".to_owned()),
                attempt_id: Some(attempt.to_owned()),
                created_at: 3000,
                ..TokenFacts::default()
            };
            change(&mut facts, &mut run);
            runner_token_ends_at(&TokenFacts { run: Some(run), ..facts }, started_at)
        };
        let after = |at: i64| Some(at + RUNNER_TOKEN_MS);
        assert_eq!(ends_at("attempt_1", 0, |_, _| ()), after(5000));
        assert_eq!(ends_at("attempt_1", 9000, |_, _| ()), after(9060), "after a start");
        assert_eq!(ends_at("attempt_1", 9000, |_, run| run.lease_released = true), after(5000), "given back");
        assert_eq!(ends_at("attempt_2", 9000, |_, _| ()), after(3000), "it has had no lease yet");
        assert_eq!(ends_at("attempt_2", 0, |facts, _| facts.ends_at = Some(7000)), Some(7000), "replaced");
        assert_eq!(ends_at("attempt_1", 0, |_, run| run.ended_at = Some(1)), after(1), "its run has ended");

        // Nothing that has ended is valid again when the run ends, or when the attempt is given the lease by somebody else.
        let late = RUNNER_TOKEN_MS * 9;
        assert_eq!(ends_at("attempt_1", 0, |_, run| run.ended_at = Some(RUNNER_TOKEN_MS * 9)), after(5000));
        assert_eq!(ends_at("attempt_2", 0, |_, run| run.ended_at = Some(RUNNER_TOKEN_MS * 9)), after(3000));
        let replaced = |facts: &mut TokenFacts, run: &mut TokenRun| {
            (facts.ends_at, run.ended_at) = (Some(7000), Some(RUNNER_TOKEN_MS * 9));
        };
        assert_eq!(ends_at("attempt_2", late, replaced), Some(7000));
        assert_eq!(ends_at("attempt_1", late, replaced), Some(7000));
    }
}
