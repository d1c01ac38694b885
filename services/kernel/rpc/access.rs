//! Which kind of caller has which method. Admission asks it before a call is made, and each service again when one arrives: a process
//! does not take another's word.

use crate::{RpcError, codes};
use proto_schemas::{ACCESS_TOKEN, Access, HttpAccess, HttpRoute, Method};

/// All of a caller that decides which methods it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerKind<'a> {
    /// Has not said who it is: on a WebSocket, or over HTTP.
    Unauthenticated {
        connected: bool,
    },
    /// An agent on a WebSocket.
    Session,
    /// Whoever has a token of this kind, over HTTP.
    Token(&'a str),
    ForeignAgent,
    ForeignService,
    /// A service of this server.
    Service(&'a str),
    Operator,
}

/// How a call came. A route says itself who may use it, and opens an internal method to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallWay<'a> {
    /// As JSON-RPC, whatever carried it.
    Rpc,
    Route(&'a HttpRoute),
    /// What a service knows of a call that the gateway has admitted: it came one of these ways.
    Any,
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
    /// The route is for somebody with a token.
    NeedsToken,
    /// The token is good, and opens other routes than this one.
    OtherToken,
}

impl CallerKind<'_> {
    /// Whether this kind of caller can ever call the method this way. `None` is one that does not exist.
    pub fn check(self, method: Option<&Method>, way: CallWay<'_>) -> Result<(), MethodRefused> {
        let refused = match self {
            CallerKind::Unauthenticated { .. } => MethodRefused::LoginFirst,
            _ => MethodRefused::NotFound,
        };
        let method = method.ok_or(refused)?;
        match way {
            CallWay::Rpc => self.check_rpc(method, refused),
            CallWay::Route(route) => self.check_path(route.access),
            CallWay::Any if method.http.iter().any(|route| self.check_path(route.access).is_ok()) => Ok(()),
            CallWay::Any => self.check_rpc(method, refused),
        }
    }

    fn check_rpc(self, method: &Method, refused: MethodRefused) -> Result<(), MethodRefused> {
        let has = match self {
            CallerKind::Unauthenticated { .. } => method.access == Access::Public && !method.notification,
            CallerKind::Session => method.access.is_for_agents(),
            CallerKind::Token(kind) => {
                kind == ACCESS_TOKEN && method.access.is_for_agents() && !method.notification
            }
            CallerKind::ForeignAgent => method.federation.is_some_and(|rule| rule.agents),
            CallerKind::ForeignService => method.federation.is_some_and(|rule| rule.services),
            CallerKind::Service(service) => method.is_for_service(service),
            CallerKind::Operator => method.access != Access::Peer && !method.notification,
        };
        match self {
            _ if !has => Err(refused),
            CallerKind::Token(_) | CallerKind::Unauthenticated { connected: false }
                if method.needs_connection =>
            {
                Err(MethodRefused::NeedsConnection)
            }
            _ => Ok(()),
        }
    }

    /// Whether it may use a route, or a path that no method declares.
    pub fn check_path(self, access: HttpAccess) -> Result<(), MethodRefused> {
        match self {
            CallerKind::Unauthenticated { .. } if access.admits(None) => Ok(()),
            CallerKind::Unauthenticated { .. } => Err(MethodRefused::NeedsToken),
            CallerKind::Token(kind) if access.admits(Some(kind)) => Ok(()),
            CallerKind::Token(_) => Err(MethodRefused::OtherToken),
            _ => Err(MethodRefused::NotFound),
        }
    }

    /// Whether it has the method over JSON-RPC.
    pub fn has(self, method: &Method) -> bool {
        self.check(Some(method), CallWay::Rpc).is_ok()
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
            MethodRefused::LoginFirst => {
                RpcError::new(codes::NOT_INITIALIZED, "not logged in: call auth.connect first")
            }
            MethodRefused::NeedsConnection => {
                let sentence = format!("{name} needs a WebSocket connection");
                RpcError::new(codes::INVALID_REQUEST, sentence)
            }
            MethodRefused::NeedsToken => {
                RpcError::new(codes::UNAUTHENTICATED, "a valid access token is needed")
            }
            MethodRefused::OtherToken => RpcError::new(
                codes::TOKEN_NOT_ACCEPTED,
                "this token is not valid for this path: use an access token of a login",
            ),
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
        let refused = CallerKind::Token(ACCESS_TOKEN).check(Some(method), CallWay::Rpc).unwrap_err();
        assert!(refused.error(method.name).to_string().contains("WebSocket"));
    }

    #[test]
    fn before_login_every_method_that_is_not_open_is_the_same() {
        for connected in [true, false] {
            let caller = CallerKind::Unauthenticated { connected };
            for method in [find("message.send"), find("ca.issue_cert"), None] {
                assert_eq!(caller.check(method, CallWay::Rpc), Err(MethodRefused::LoginFirst));
            }
            assert!(caller.has(find("auth.create_aid").unwrap()));
            assert_eq!(caller.has(find("auth.connect").unwrap()), connected);
        }
    }

    #[test]
    fn a_route_opens_an_internal_method_to_whom_it_names_and_to_nobody_over_json_rpc() {
        let method = find("agent.get_agent_md").unwrap();
        let route = CallWay::Route(&method.http[0]);
        let nobody = CallerKind::Unauthenticated { connected: false };
        assert_eq!(nobody.check(Some(method), route), Ok(()));
        assert_eq!(nobody.check(Some(method), CallWay::Rpc), Err(MethodRefused::LoginFirst));
        assert_eq!(nobody.check(Some(method), CallWay::Any), Ok(()), "a service does not see the route");

        let (read, write) = (find("agent.get").unwrap(), find("agent.update").unwrap());
        let agent = CallerKind::Token("agent");
        assert_eq!(agent.check(Some(read), CallWay::Route(&read.http[0])), Ok(()));
        let refused = agent.check(Some(write), CallWay::Route(&write.http[0]));
        assert_eq!(refused, Err(MethodRefused::OtherToken));
        assert_eq!(agent.check(Some(read), CallWay::Rpc), Err(MethodRefused::NotFound));
        assert_eq!(agent.check(Some(write), CallWay::Any), Err(MethodRefused::NotFound));
        let writing = CallWay::Route(&write.http[0]);
        assert_eq!(nobody.check(Some(write), writing), Err(MethodRefused::NeedsToken));
        assert_eq!(
            nobody.check(Some(read), CallWay::Route(&read.http[0])),
            Ok(()),
            "the service decides what"
        );
        assert_eq!(nobody.check(Some(read), CallWay::Rpc), Err(MethodRefused::LoginFirst));
        let session = CallerKind::Session.check(Some(method), route);
        assert_eq!(session, Err(MethodRefused::NotFound), "a session uses no route");
    }
}
