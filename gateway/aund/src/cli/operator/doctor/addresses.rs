//! Whether clients have addresses of their own. Behind a balancer all of them seem to have its address, and share the limits of one
//! client.

use super::CheckOutcome::{self, Good, Note};
use gateway::admin;
use gateway::config::Config;
use proto_schemas::Request as _;
use proto_schemas::requests::gateway::{ClientAddresses, GatewayStatus, Status};
use serde_json::json;
use std::net::IpAddr;

/// Fewer sessions may well be those of one network.
const ENOUGH: usize = 20;
const SHARE_PERCENT: usize = 95;

/// None if no gateway runs here.
pub(super) async fn check(config: &Config) -> Option<CheckOutcome> {
    let asked = admin::ask(&config.data, Status::METHOD, &json!({})).await.ok().flatten()?;
    let status: GatewayStatus = serde_json::from_value(asked).ok()?;
    Some(outcome(&status.client_addresses, !config.proxies.is_empty()))
}

fn outcome(clients: &ClientAddresses, proxies: bool) -> CheckOutcome {
    let ClientAddresses { sessions, private_sessions, largest, largest_sessions } = clients;
    let (sessions, private_sessions, largest_sessions) = (*sessions, *private_sessions, *largest_sessions);
    let is_most = |count: usize| sessions >= ENOUGH && count * 100 >= sessions * SHARE_PERCENT;
    let largest = largest.as_ref().and_then(|address| address.parse::<IpAddr>().ok());
    let Some(largest) = largest.filter(|address| !address.is_loopback()) else {
        return Good(format!("{sessions} sessions"));
    };
    if is_most(largest_sessions) {
        return Note(
            format!(
                "{largest_sessions} of {sessions} sessions come from {largest}: they share the limits of one address"
            ),
            format!("if it is a balancer, let it send PROXY headers and set: proxies = [\"{largest}\"]"),
        );
    }
    if is_most(private_sessions) && !proxies {
        return Note(
            format!(
                "{private_sessions} of {sessions} sessions come from private addresses such as {largest}"
            ),
            "if these are balancers, let them send PROXY headers and list them in the setting proxies".into(),
        );
    }
    Good(format!("{sessions} sessions, at most {largest_sessions} from one address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(
        [sessions, private_sessions, largest_sessions]: [usize; 3],
        largest: &str,
        proxies: bool,
    ) -> Option<String> {
        let largest = Some(largest.to_owned());
        let clients = ClientAddresses { sessions, private_sessions, largest, largest_sessions };
        match outcome(&clients, proxies) {
            Note(seen, todo) => Some(format!("{seen}; {todo}")),
            _ => None,
        }
    }

    #[test]
    fn many_clients_with_one_address_are_noted_with_the_setting_that_helps() {
        let shared = note([100, 100, 95], "10.0.0.7", false).unwrap();
        assert!(shared.contains("95 of 100") && shared.contains("proxies = [\"10.0.0.7\"]"), "{shared}");
        assert!(note([100, 0, 95], "203.0.113.9", true).is_some(), "whatever is listed already");
        let several = note([100, 97, 50], "10.0.0.7", false).unwrap();
        assert!(several.contains("97 of 100") && several.contains("proxies"), "{several}");
    }

    #[test]
    fn few_clients_many_addresses_and_loopback_are_as_they_should_be() {
        assert_eq!(note([0, 0, 0], "", false), None);
        assert_eq!(note([19, 19, 19], "10.0.0.7", false), None);
        assert_eq!(note([100, 0, 94], "203.0.113.9", false), None);
        assert_eq!(
            note([100, 100, 50], "10.0.0.7", true),
            None,
            "clients of a network of the operator's own"
        );
        assert_eq!(note([100, 100, 100], "127.0.0.1", false), None);
    }
}
