//! Failed logins, refreshes and hellos, by address and by the network around it.
//!
//! What succeeds is never counted: any number of agents may log in from one address. Whoever fails too often waits for the end
//! of its minute, and until then is refused before anything is looked up or verified for it. Sessions, and connecting with a
//! token, do not notice.

use super::limits::too_fast;
use crate::address_limits::AddressWindows;
use crate::config::LimitsConfig;
use kernel::{AddressLimit, RpcError, codes};
use proto_schemas::{Method, RateClass};
use serde::Deserialize;
use std::net::IpAddr;
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);

pub struct LoginFailures(AddressWindows);

impl LoginFailures {
    pub(super) fn new(config: &LimitsConfig) -> LoginFailures {
        let limit = AddressLimit::per_address(config.login_failures_per_minute);
        LoginFailures(AddressWindows::new(limit.per_network(config.login_failures_per_prefix), MINUTE))
    }

    /// Whether an address may try; the error says how long to wait. Nothing is counted.
    pub fn within(&self, address: IpAddr) -> Result<(), RpcError> {
        let within = self.0.within(address, Instant::now());
        within.map_err(|refusal| too_fast(&format!("failed logins from {}", refusal.whose()), refusal.wait))
    }

    /// Counts an error, if it means that the caller did not prove what it claimed.
    pub fn count_error(&self, address: IpAddr, error: &RpcError) {
        let failed = [
            codes::CERT_OR_NONCE_INVALID,
            codes::SIGNATURE_INVALID,
            codes::NOT_REGISTERED,
            codes::CERT_REVOKED,
        ];
        if failed.iter().any(|code| code.code == error.code()) {
            self.count(address);
        }
    }

    /// Counts the answer to a call that proves who somebody is, if it is a failure.
    pub(super) fn count_answer(&self, address: IpAddr, method: &Method, outcome: Result<&str, &RpcError>) {
        /// A refresh token that cannot be used is not an error of the call.
        #[derive(Deserialize)]
        struct RefreshOutcome {
            success: Option<bool>,
        }
        match outcome {
            Err(error) => self.count_error(address, error),
            Ok(result) if method.name == "auth.refresh_token" => {
                let refused = serde_json::from_str(result)
                    .is_ok_and(|RefreshOutcome { success }| success == Some(false));
                if refused {
                    self.count(address);
                }
            }
            Ok(_) => {}
        }
    }

    fn count(&self, address: IpAddr) {
        self.0.count(address, Instant::now());
    }

    pub(super) fn forget_quiet(&self) {
        self.0.forget_quiet(Instant::now());
    }
}

/// Whether the calls of a class prove who somebody is, so that their failures are counted.
pub(super) fn is_login_class(class: &RateClass) -> bool {
    matches!(class.name, "auth.login" | "auth.refresh")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn failures(text: &str) -> LoginFailures {
        LoginFailures::new(&Config::parse(text, &crate::config::test_services()).unwrap().limits)
    }

    fn forged() -> RpcError {
        RpcError::plain(codes::SIGNATURE_INVALID)
    }

    #[test]
    fn an_address_that_fails_too_often_waits_and_others_do_not() {
        let failures = failures("limits.login_failures_per_minute = 2");
        let (attacker, other) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        for _ in 0..2 {
            failures.within(attacker).unwrap();
            failures.count_error(attacker, &forged());
        }
        let refused = failures.within(attacker).unwrap_err();
        assert_eq!(refused.code(), codes::RATE_LIMITED.code);
        assert!(
            refused.data("retry_after_ms").and_then(serde_json::Value::as_u64).is_some_and(|ms| ms > 1000)
        );
        failures.within(other).unwrap();
    }

    #[test]
    fn a_network_pays_for_all_its_addresses() {
        let failures = failures("limits.login_failures_per_prefix = 3");
        for last in 1..=3 {
            failures.count_error([10, 0, 0, last].into(), &forged());
        }
        assert!(failures.within([10, 0, 0, 200].into()).is_err());
        failures.within([10, 0, 1, 1].into()).unwrap();
        for last in 1..=3 {
            failures.count_error(format!("2001:db8:0:{last}::1").parse().unwrap(), &forged());
        }
        assert!(failures.within("2001:db8:0:9::1".parse().unwrap()).is_err(), "the /56");
        failures.within("2001:db8:0:100::1".parse().unwrap()).unwrap();
    }

    #[test]
    fn successes_and_our_own_faults_are_not_counted() {
        let failures = failures("limits.login_failures_per_minute = 1");
        let address = [10, 0, 0, 1].into();
        let (login, refresh) = ("auth.aid_login2", "auth.refresh_token");
        let method = |name| proto_schemas::find(name).unwrap();
        for code in [codes::UNAVAILABLE, codes::INTERNAL, codes::RATE_LIMITED, codes::INVALID_PARAMS] {
            failures.count_answer(address, method(login), Err(&RpcError::plain(code)));
        }
        failures.count_answer(address, method(login), Ok("{}"));
        failures.count_answer(address, method(refresh), Ok(r#"{"success":true}"#));
        failures.within(address).unwrap();
        failures.count_answer(address, method(refresh), Ok(r#"{"success":false}"#));
        assert!(failures.within(address).is_err());
    }
}
