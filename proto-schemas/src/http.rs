//! What the schemas say about HTTP: the paths of a service, the routes of its methods, who may use them, and the tokens it gives.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::envelope::HttpEnvelope;
use crate::{Aid, RateClass, Tag};

/// The kind of a token that `auth` gives at a login. Every other kind is declared by the namespace whose service gives it.
pub const ACCESS_TOKEN: &str = "access";

/// An HTTP path, or all paths below it, that a service answers.
#[derive(Clone, Copy, Debug)]
pub struct HttpPrefix {
    pub host: HttpHost,
    pub path: &'static str,
    /// Whether only this very path is meant, and not those below it.
    pub exact: bool,
    pub tag: Option<&'static Tag>,
    /// Who may use what no method declares below it.
    pub access: HttpAccess,
    pub rate: Option<&'static RateClass>,
    pub body_bytes: usize,
    /// Whether a request may take as long as its bytes keep coming: uploads, and events while they happen.
    pub streams: bool,
    /// Whether requests that change something, and that no method declares, store new bytes.
    pub stores: bool,
    /// Whether pages of any origin may read the answers.
    pub cors: bool,
    /// How answers and refusals look, whoever gives them.
    pub envelope: &'static LazyLock<HttpEnvelope>,
}

impl HttpPrefix {
    pub fn covers(&self, path: &str) -> bool {
        path == self.path || (!self.exact && path.starts_with(self.path))
    }
}

/// Who may use a path or a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpAccess {
    /// Whether a request without a token is answered.
    pub public: bool,
    /// The kinds of tokens that are accepted.
    pub tokens: &'static [&'static str],
}

impl HttpAccess {
    /// Whether somebody with such a token may use it, or without one.
    pub fn admits(&self, token: Option<&str>) -> bool {
        token.map_or(self.public, |kind| self.tokens.contains(&kind))
    }
}

/// A method over HTTP: who may use it so, where its parameters come from, and how it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpRoute {
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: &'static str,
    /// With the names of parameters in braces: `/pki/ocsp/{serial}`.
    pub path: &'static str,
    pub access: HttpAccess,
    /// The limit that counts requests without a token, beside that of all requests of an address.
    pub public_rate: Option<&'static RateClass>,
    /// Whether pages of any origin may read the answers, also where those of its path are for no page.
    pub cors: bool,
    /// The parameters that may stand in the query.
    pub query: &'static [&'static str],
    /// Headers, in lower case, and the parameters they become.
    pub headers: &'static [(&'static str, &'static str)],
    pub body: HttpRouteBody,
    /// The largest body, where it is not that of the path.
    pub body_bytes: Option<usize>,
    /// The member of the result that is the body of the answer; the whole result where it is none.
    pub result: Option<&'static str>,
    pub status: HttpRouteStatus,
    /// The member of the body that is the version of what is read: it becomes the `ETag`.
    pub etag: Option<&'static str>,
    /// Members that are written as `null` where the result does not have them.
    pub nulls: &'static [&'static str],
    /// The `Cache-Control` of an answer that is not an error.
    pub cache: Option<&'static str>,
    /// Whether the router of the service answers those who accept a stream of events.
    pub stream: bool,
    /// Whether the router of the service answers in a form of its own.
    pub own_answer: bool,
}

impl HttpRoute {
    /// A route whose answer is the result, as JSON, for whoever has an access token.
    pub const fn new(method: &'static str, path: &'static str) -> HttpRoute {
        HttpRoute {
            method,
            path,
            access: HttpAccess { public: false, tokens: &[ACCESS_TOKEN] },
            public_rate: None,
            cors: false,
            query: &[],
            headers: &[],
            body: HttpRouteBody::None,
            body_bytes: None,
            result: None,
            status: HttpRouteStatus::Always(200),
            etag: None,
            nulls: &[],
            cache: None,
            stream: false,
            own_answer: false,
        }
    }
}

/// What the body of a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpRouteBody {
    None,
    /// A JSON object of parameters.
    Params,
    /// The text of one parameter.
    Text(&'static str),
}

/// The status of an answer that is not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpRouteStatus {
    /// 204 has no body.
    Always(u16),
    /// By a member of the result that is true or false, and is not part of the answer.
    ByMember { member: &'static str, yes: u16, no: u16 },
}

/// Under which host names a path is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpHost {
    Any,
    Gateway,
    /// The host name is an AID.
    Agent,
    Pki,
}

/// Tokens that a service gives: the gateway knows them by their prefix, and asks the service whose they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenRule {
    pub prefix: &'static str,
    pub kind: &'static str,
    /// The method that verifies them: it takes a [`VerifyServiceToken`] and gives a [`ServiceToken`].
    pub verify: &'static str,
    /// How many requests with one token are accepted.
    pub per_second: u32,
}

/// What every method that verifies tokens takes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VerifyServiceToken {
    pub token: String,
}

/// Whose a token is. One that is not valid, or not any more, is refused with `TOKEN_INVALID`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceToken {
    /// Who has it, in the words of the service that gave it.
    pub subject: String,
    /// The agent that it is, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aid: Option<Aid>,
    /// Who else pays for what the token holds and computes: a tenant has many runners, each with a token of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payer: Option<String>,
}
