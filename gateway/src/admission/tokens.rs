//! Whose token a request has: `auth` knows access tokens, and those that a service gives are known by their prefix.
//!
//! What a service says of a token is remembered for a few seconds, so that a client that asks often does not make the service look up
//! the same row each time; a token that is withdrawn works that much longer.

use super::limits::{now, per_second};
use crate::address_limits::{KeyedRates, keyed_rates};
use kernel::{Caller, CallingAgent, ExpiringCache, Mesh, RpcError, TokenCaller, codes, sha256};
use parking_lot::Mutex;
use proto_schemas::requests::auth;
use proto_schemas::{ServiceToken, TokenRule, VerifyServiceToken};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const REMEMBERED: usize = 65_536;
const REMEMBERED_FOR: Duration = Duration::from_secs(3);

/// A token is never kept: its hash is.
type TokenHash = [u8; 32];

pub struct ServiceTokens {
    mesh: Arc<Mesh>,
    remembered: Mutex<ExpiringCache<TokenHash, ServiceToken>>,
    /// One for each rule of the namespaces, in their order.
    rates: Vec<(&'static TokenRule, KeyedRates<TokenHash>)>,
}

impl ServiceTokens {
    pub fn new(mesh: &Arc<Mesh>) -> ServiceTokens {
        let rules = proto_schemas::namespaces().iter().flat_map(|namespace| namespace.tokens);
        ServiceTokens {
            mesh: mesh.clone(),
            remembered: Mutex::new(ExpiringCache::new(REMEMBERED, REMEMBERED_FOR)),
            rates: rules.map(|rule| (rule, keyed_rates(per_second(rule.per_second)))).collect(),
        }
    }

    /// Counts a request by its token, if somebody used that a moment ago; none if it counts by its address. The error says how long to
    /// wait.
    pub fn within_rate(&self, token: &str) -> Option<Result<(), Duration>> {
        let (rule, hash) = (TokenRule::of(token)?, sha256(token));
        self.remembered.lock().get(&hash, Instant::now())?;
        let (_, rate) = self.rates.iter().find(|(known, _)| *known == rule)?;
        Some(rate.check_key(&hash).map_err(|until| until.wait_time_from(now())))
    }

    /// Who has this token, which has the prefix of the rule.
    pub async fn verify(
        &self,
        rule: &'static TokenRule,
        token: &str,
        address: IpAddr,
    ) -> Result<TokenCaller, RpcError> {
        let hash = sha256(token);
        let remembered = self.remembered.lock().get(&hash, Instant::now()).cloned();
        let found = match remembered {
            Some(found) => found,
            None => self.ask(rule, token).await?,
        };
        let ServiceToken { subject, aid } = found;
        let agent = aid.map(|aid| CallingAgent::without_session(aid, address));
        Ok(TokenCaller { kind: rule.kind.into(), subject, agent })
    }

    async fn ask(&self, rule: &TokenRule, token: &str) -> Result<ServiceToken, RpcError> {
        let asked = VerifyServiceToken { token: token.to_owned() };
        let asked_at = Instant::now();
        let found: ServiceToken =
            self.mesh.ask_named(Caller::service("gateway"), rule.verify, &asked).await?;
        self.remembered.lock().insert(sha256(token), found.clone(), asked_at);
        Ok(found)
    }

    /// The agent of an access token, and when its tokens were revoked for the last time before this one was made, if ever.
    pub async fn verify_access(&self, token: &str) -> Result<auth::VerifiedToken, RpcError> {
        let token = auth::VerifyToken { token: token.to_owned() };
        self.mesh.ask(Caller::service("gateway"), &token).await
    }

    pub fn forget_quiet(&self) {
        self.rates.iter().for_each(|(_, rate)| rate.retain_recent());
    }
}

/// Whether an error says that a token is not valid, and not that nobody could be asked.
pub fn is_invalid_token(error: &RpcError) -> bool {
    error.kind() == codes::TOKEN_INVALID.kind()
}
