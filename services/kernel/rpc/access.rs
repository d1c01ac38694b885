//! Which kind of caller has which method. Admission asks it before a call is made, and each service again when one arrives: a process
//! does not take another's word.

use crate::{RpcError, codes};
use proto_schemas::{Access, Method};

/// All of a caller that decides which methods it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerKind<'a> {
    /// Has not said who it is: on a WebSocket, or over HTTP.
    Unauthenticated {
        connected: bool,
    },
    /// An agent on a WebSocket.
    Session,
    /// An agent over HTTP, by its token.
    Token,
    ForeignAgent,
    ForeignService,
    /// A service of this server.
    Service(&'a str),
    Operator,
}

/// Why a caller does not have a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodRefused {
    /// It does not exist for this kind of caller, which is not told more.
    NotFound,
    /// Nothing but a few methods is answered before login, and nobody learns which others there are.
    LoginFirst,
    /// It means nothing without a WebSocket.
    NeedsConnection,
}

impl CallerKind<'_> {
    /// Whether this kind of caller can ever call the method. `None` is one that does not exist.
    pub fn check(self, method: Option<&Method>) -> Result<(), MethodRefused> {
        let refused = match self {
            CallerKind::Unauthenticated { .. } => MethodRefused::LoginFirst,
            _ => MethodRefused::NotFound,
        };
        let method = method.ok_or(refused)?;
        let has = match self {
            CallerKind::Unauthenticated { .. } => method.access == Access::Public && !method.notification,
            CallerKind::Session => method.access.is_for_agents(),
            CallerKind::Token => method.access.is_for_agents() && !method.notification,
            CallerKind::ForeignAgent => method.federation.is_some_and(|rule| rule.agents),
            CallerKind::ForeignService => method.federation.is_some_and(|rule| rule.services),
            CallerKind::Service(service) => method.is_for_service(service),
            CallerKind::Operator => method.access != Access::Peer && !method.notification,
        };
        match self {
            _ if !has => Err(refused),
            CallerKind::Token | CallerKind::Unauthenticated { connected: false }
                if method.needs_connection =>
            {
                Err(MethodRefused::NeedsConnection)
            }
            _ => Ok(()),
        }
    }

    pub fn has(self, method: &Method) -> bool {
        self.check(Some(method)).is_ok()
    }
}

impl MethodRefused {
    pub fn error(self, name: &str) -> RpcError {
        // What a client made up is not repeated at any length.
        let name: String = name.chars().take(80).collect();
        match self {
            MethodRefused::NotFound => {
                RpcError::new(codes::METHOD_NOT_FOUND, format!("method not found: {name}"))
            }
            MethodRefused::LoginFirst => RpcError::new(
                codes::NOT_INITIALIZED,
                "log in first: only registration, login and auth.connect are answered before that",
            ),
            MethodRefused::NeedsConnection => {
                let sentence = format!("{name} needs a WebSocket: over HTTP there is no connection");
                RpcError::new(codes::INVALID_REQUEST, sentence)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_schemas::{FederationRule, find};

    #[test]
    fn the_schema_says_who_of_another_domain_may_call() {
        let (agent, service) = (CallerKind::ForeignAgent, CallerKind::ForeignService);
        let mut method = *find("message.send").unwrap();
        let rule = method.federation.unwrap();
        for (agents, services) in [(true, false), (false, true), (true, true), (false, false)] {
            method.federation = Some(FederationRule { agents, services, ..rule });
            assert_eq!((agent.has(&method), service.has(&method)), (agents, services));
        }
        method.federation = None;
        for access in [Access::Public, Access::Session, Access::Internal] {
            method.access = access;
            assert!(!agent.has(&method) && !service.has(&method), "{access:?}");
        }
    }

    #[test]
    fn what_means_nothing_over_http_says_so() {
        let method = find("message.history").unwrap();
        assert!(CallerKind::Session.has(method));
        let refused = CallerKind::Token.check(Some(method)).unwrap_err();
        assert!(refused.error(method.name).to_string().contains("WebSocket"));
    }

    #[test]
    fn before_login_every_method_that_is_not_open_is_the_same() {
        for connected in [true, false] {
            let caller = CallerKind::Unauthenticated { connected };
            for method in [find("message.send"), find("ca.issue_cert"), None] {
                assert_eq!(caller.check(method), Err(MethodRefused::LoginFirst));
            }
            assert!(caller.has(find("auth.create_aid").unwrap()));
            assert_eq!(caller.has(find("auth.connect").unwrap()), connected);
        }
    }
}
