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
/// For so long requests with a token that was valid count by the token, also if nobody uses it meanwhile.
const COUNTED_FOR: Duration = Duration::from_mins(10);

/// A token is never kept: its hash is.
type TokenHash = [u8; 32];

pub struct ServiceTokens {
    mesh: Arc<Mesh>,
    remembered: Mutex<ExpiringCache<TokenHash, ServiceToken>>,
    /// Those that were valid when their services were asked for the last time.
    known: Mutex<ExpiringCache<TokenHash, ()>>,
    /// One for each rule of the namespaces, in their order.
    rates: Vec<(&'static TokenRule, KeyedRates<TokenHash>)>,
}

impl ServiceTokens {
    pub fn new(mesh: &Arc<Mesh>) -> ServiceTokens {
        ServiceTokens::with(mesh, proto_schemas::namespaces().iter().flat_map(|namespace| namespace.tokens))
    }

    fn with(mesh: &Arc<Mesh>, rules: impl Iterator<Item = &'static TokenRule>) -> ServiceTokens {
        ServiceTokens {
            mesh: mesh.clone(),
            remembered: Mutex::new(ExpiringCache::new(REMEMBERED, REMEMBERED_FOR)),
            known: Mutex::new(ExpiringCache::new(REMEMBERED, COUNTED_FOR)),
            rates: rules.map(|rule| (rule, keyed_rates(per_second(rule.per_second)))).collect(),
        }
    }

    /// The rule of a token, if a service has given it; every other one is an access token, or none.
    pub fn rule_of(&self, token: &str) -> Option<&'static TokenRule> {
        self.rates.iter().map(|(rule, _)| *rule).find(|rule| token.starts_with(rule.prefix))
    }

    /// Counts a request by its token, if that was valid when it was used for the last time; none if it counts by its address: many
    /// clients of one address may each use their token every few seconds. The error says how long to wait.
    pub fn within_rate(&self, token: &str) -> Option<Result<(), Duration>> {
        self.within_rate_at(token, Instant::now())
    }

    fn within_rate_at(&self, token: &str, at: Instant) -> Option<Result<(), Duration>> {
        let (rule, hash) = (self.rule_of(token)?, sha256(token));
        self.known.lock().get(&hash, at)?;
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
        let ServiceToken { subject, aid, payer } = found;
        let agent = aid.map(|aid| CallingAgent::without_session(aid, address));
        Ok(TokenCaller { kind: rule.kind.into(), subject, agent, payer })
    }

    async fn ask(&self, rule: &TokenRule, token: &str) -> Result<ServiceToken, RpcError> {
        let asked = VerifyServiceToken { token: token.to_owned() };
        let (hash, asked_at) = (sha256(token), Instant::now());
        let found = self.mesh.ask_named(Caller::service("gateway"), rule.verify, &asked).await;
        let found: ServiceToken = found.inspect_err(|error| {
            // From now on, who tries it again counts by the address.
            if is_invalid_token(error) {
                self.known.lock().remove(&hash);
            }
        })?;
        self.known.lock().insert(hash, (), asked_at);
        self.remembered.lock().insert(hash, found.clone(), asked_at);
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

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::{Methods, Rpc};
    use parking_lot::RwLock;
    use proto_schemas::Request;
    use serde::{Deserialize, Serialize};

    /// Three kinds that one method verifies, as the service of runs declares them.
    static RULES: [TokenRule; 3] =
        [rule("art_", "tenant", 10), rule("ara_", "admin", 10), rule("arr_", "runner", 20)];

    const fn rule(prefix: &'static str, kind: &'static str, per_second: u32) -> TokenRule {
        TokenRule { prefix, kind, verify: Verify::METHOD, per_second }
    }

    #[derive(Serialize, Deserialize)]
    struct Verify {
        token: String,
    }

    impl Request for Verify {
        const METHOD: &'static str = "agent.verify_token";
        type Result = ServiceToken;
    }

    /// Whose subject is what follows the prefix.
    #[derive(Default)]
    struct Verifier {
        withdrawn: RwLock<bool>,
    }

    impl Verifier {
        async fn verify(self: Arc<Self>, _: Caller, asked: Verify) -> Result<ServiceToken, RpcError> {
            match *self.withdrawn.read() {
                true => Err(RpcError::plain(codes::TOKEN_INVALID)),
                false => Ok(ServiceToken { subject: asked.token[4..].to_owned(), aid: None, payer: None }),
            }
        }
    }

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn tokens() -> (ServiceTokens, Arc<Verifier>) {
        let (mesh, verifier) = (Arc::<Mesh>::default(), Arc::<Verifier>::default());
        let methods: Methods = Rpc::new(verifier.clone()).method(Verifier::verify).into();
        mesh.add_local("agent", methods);
        (ServiceTokens::with(&mesh, RULES.iter()), verifier)
    }

    async fn verify(tokens: &ServiceTokens, token: &str) -> Result<TokenCaller, RpcError> {
        tokens.verify(tokens.rule_of(token).unwrap(), token, ADDRESS).await
    }

    #[tokio::test]
    async fn kinds_that_one_method_verifies_have_rates_of_their_own() {
        let (tokens, _) = tokens();
        assert!(tokens.rule_of("other_1").is_none());
        for (token, kind, per_second) in
            [("art_acme", "tenant", 10), ("ara_acme", "admin", 10), ("arr_acme", "runner", 20)]
        {
            assert!(tokens.within_rate(token).is_none(), "{token} counts by its address before it is known");
            let caller = verify(&tokens, token).await.unwrap();
            assert_eq!((&*caller.kind, &*caller.subject, caller.agent.is_none()), (kind, "acme", true));
            let accepted = (0..100).filter(|_| tokens.within_rate(token).unwrap().is_ok()).count();
            assert!((per_second..per_second + 5).contains(&accepted), "{token}: {accepted}");
        }
        verify(&tokens, "art_other").await.unwrap();
        assert_eq!(tokens.within_rate("art_other"), Some(Ok(())), "each token has its own");
    }

    #[tokio::test]
    async fn a_token_that_is_used_seldom_counts_by_itself_until_it_is_withdrawn() {
        let (tokens, verifier) = tokens();
        let rule = tokens.rule_of("arr_1").unwrap();
        let asked_at = Instant::now();
        tokens.ask(rule, "arr_1").await.unwrap();
        let later = asked_at + Duration::from_mins(9);
        assert_eq!(
            tokens.within_rate_at("arr_1", later),
            Some(Ok(())),
            "longer than its subject is remembered"
        );
        let later = Instant::now() + COUNTED_FOR;
        assert!(tokens.within_rate_at("arr_1", later).is_none(), "it was not used for a while");
        *verifier.withdrawn.write() = true;
        assert!(is_invalid_token(&tokens.ask(rule, "arr_1").await.unwrap_err()));
        assert!(tokens.within_rate("arr_1").is_none(), "who tries it again counts by the address");
    }
}
