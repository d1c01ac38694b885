//! Calls a method with its largest inputs as often as its rate allows, over several connections of one agent, and over its routes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use proto_schemas::{ACCESS_TOKEN, Access, HttpRoute, HttpRouteBody, Method, namespaces};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::answers::MethodAnswers;
use super::formats::{CONNECTION, UNIQUE, connection_id};
use super::http::RouteCallRequest;
use super::inputs::{example_of, largest_inputs};
use crate::schema::{filled, tasks, values};
use crate::support::TestServer;
use crate::support::agent::{ConnectedAgent, TestIdentity, TestTokens, at, random_hex};
use crate::support::calls::Exchanged;
use crate::support::socket::TestSocket;

/// How long each method is called.
const DURATION: Duration = Duration::from_millis(400);
/// How many connections call at once.
pub const CONNECTIONS: usize = 4;
/// How many calls of one connection are on their way at once.
const WINDOW: usize = 8;
/// How many calls are made on one socket before login, which may make twenty.
const PREAUTH_WINDOW: usize = 16;
/// How often one connection makes a new socket before login: each takes a registration, which has a rate of its own.
const PREAUTH_ROUNDS: usize = 8;
/// What frames have at most by default, after login and before, without what surrounds the params.
const FRAME_BYTES: usize = (5 << 18) - 256;
/// With space for the token that is filled in later.
const PREAUTH_FRAME_BYTES: usize = (64 << 10) - 2048;
/// The network that they call from before login.
const NETWORK: [u8; 2] = [127, 200];

/// Something that an agent has once, so that one that is prepared has it already.
const HAD_ONCE: [&str; 3] = ["{{own_agent}}", "{{hooked_agent}}", "{{relation}}"];

/// A server, and two agents that are what examples need another agent to be.
pub struct Attackers<'a> {
    pub server: &'a TestServer,
    /// Gets everything that is sent.
    pub recipient: LoggedIn,
    /// Another one, for calls that the recipient makes.
    pub helper: LoggedIn,
    pub calls: AtomicU64,
}

/// An agent with the tokens of its one login: logins have a rate of their own.
#[derive(Clone)]
pub struct LoggedIn {
    pub identity: TestIdentity,
    pub tokens: TestTokens,
}

/// Who calls, and with what.
struct Attack<'a> {
    method: &'a Method,
    caller: LoggedIn,
    peer: ConnectedAgent,
}

/// Whether somebody with an access token, or nobody, may call it in some way.
pub fn is_callable(method: &Method) -> bool {
    method.access.is_for_agents() || routes(method).next().is_some()
}

fn routes(method: &Method) -> impl Iterator<Item = &'static HttpRoute> {
    method.http.iter().filter(|route| route.access.admits(Some(ACCESS_TOKEN)))
}

impl Attackers<'_> {
    /// Over every way in that the method has, each with a caller of its own.
    pub async fn attack(&self, method: &Method) -> MethodAnswers {
        let calls = async {
            match method.access {
                Access::Public => self.before_login(method).await,
                Access::Session => self.in_sessions(self.prepare(method).await).await,
                Access::Internal | Access::Peer => MethodAnswers::default(),
            }
        };
        let requests = async {
            match routes(method).next() {
                Some(_) => self.over_http(self.prepare(method).await).await,
                None => MethodAnswers::default(),
            }
        };
        let (mut answers, over_http) = tokio::join!(calls, requests);
        answers.merge(over_http);
        if answers.results == 0 {
            answers.flaws.insert(format!("{}: no call was executed", method.name));
        }
        answers
    }

    async fn prepare<'m>(&self, method: &'m Method) -> Attack<'m> {
        let written = example_of(method).to_string();
        // What only reads is called by the one to whom everything was sent, unless it has a rate of its own.
        let is_new = !method.repeatable || method.rate.is_some();
        let (caller, peer) = match !is_new && !HAD_ONCE.iter().any(|name| written.contains(name)) {
            true => (self.recipient.clone(), &self.helper),
            false => (self.new_caller().await, &self.recipient),
        };
        let peer = self.server.connect_with(&peer.identity, &peer.tokens, |_| ()).await;
        Attack { method, caller, peer }
    }

    async fn new_caller(&self) -> LoggedIn {
        let identity = self.server.register(&format!("attacker-{}", random_hex(6))).await;
        let tokens = self.server.login(&identity).await;
        LoggedIn { identity, tokens }
    }

    /// Each socket has a caller of its own: some of these methods replace its key.
    async fn before_login(&self, method: &Method) -> MethodAnswers {
        let inputs = &largest_inputs(method, PREAUTH_FRAME_BYTES);
        let until = Instant::now() + DURATION;
        // Limits count by address, and what one method uses up is not missing to the next.
        let [a, b] = NETWORK;
        let address = [a, b, u8::try_from(method.position % 250).unwrap_or_default(), 1];
        let sockets = (0..CONNECTIONS).map(|connection| async move {
            let mut answers = MethodAnswers::default();
            for round in 0..PREAUTH_ROUNDS {
                if round > 0 && Instant::now() > until {
                    break;
                }
                let attack = self.prepare(method).await;
                let socket = self.server.socket_from(address).await;
                let written = example_of(method).to_string();
                let values =
                    values(self.server, &attack.caller.identity, &attack.peer, &socket, &written).await;
                // What can be used once is used by another input each time.
                let turned = inputs.iter().cycle().skip(round * CONNECTIONS + connection);
                let texts: Vec<String> = turned
                    .take(inputs.len().min(PREAUTH_WINDOW))
                    .map(|input| filled(input, &attack.caller.identity, &values).to_string())
                    .collect();
                self.exchange(method, &socket, connection, &texts.iter().collect::<Vec<_>>(), &mut answers)
                    .await;
                socket.close().await;
            }
            answers
        });
        merged(join_all(sockets).await)
    }

    async fn in_sessions(&self, attack: Attack<'_>) -> MethodAnswers {
        let texts = self.texts(&attack, FRAME_BYTES).await;
        let mut sessions: Vec<_> = (0..CONNECTIONS).map(AttackSession::new).collect();
        // Every call once and alone: some can be executed once, and that one is to be the largest.
        for text in &texts {
            sessions[0].call(self, &attack, &[text]).await;
        }
        let (attack, texts, until) = (&attack, &texts, Instant::now() + DURATION);
        let sessions = sessions.into_iter().map(|mut session| async move {
            let mut turned = texts.iter().cycle();
            while Instant::now() < until {
                session.call(self, attack, &turned.by_ref().take(WINDOW).collect::<Vec<_>>()).await;
            }
            session.answers
        });
        merged(join_all(sessions).await)
    }

    async fn over_http(&self, attack: Attack<'_>) -> MethodAnswers {
        let mut answers = MethodAnswers::default();
        let most = routes(attack.method).map(body_bytes).max().unwrap_or_default();
        let texts = self.texts(&attack, most).await;
        for route in routes(attack.method) {
            let until = Instant::now() + DURATION / 2;
            for (n, text) in texts.iter().cycle().enumerate() {
                if n >= texts.len() && Instant::now() > until {
                    break;
                }
                let params: Value = serde_json::from_str(&self.own_text(text, 0)).expect("it is JSON");
                let request = RouteCallRequest::new(route, &params);
                let sent = request.send(self.server, &attack.caller.tokens.access).await;
                answers.add_status(attack.method, text.len(), sent.status, &sent.body);
            }
        }
        answers
    }

    /// The params of the calls, with the values that only the server or the caller knows.
    async fn texts(&self, attack: &Attack<'_>, space: usize) -> Vec<String> {
        let socket = self.server.socket().await;
        let written = example_of(attack.method).to_string();
        let mut known = values(self.server, &attack.caller.identity, &attack.peer, &socket, &written).await;
        let mut texts = Vec::new();
        for input in largest_inputs(attack.method, space) {
            // A task can be accepted or completed once: each input has its own.
            known.extend(tasks(self.server, &attack.caller.identity, &attack.peer, &written).await);
            texts.push(filled(&input, &attack.caller.identity, &known).to_string());
        }
        socket.close().await;
        texts
    }

    /// Makes calls that are on their way at the same time, waits where their rate is reached, and says whether the connection is open.
    async fn exchange(
        &self,
        method: &Method,
        socket: &TestSocket,
        connection: usize,
        texts: &[&String],
        answers: &mut MethodAnswers,
    ) -> bool {
        let texts: Vec<String> = texts.iter().map(|text| self.own_text(text, connection)).collect();
        if method.notification {
            for text in &texts {
                socket
                    .send(&format!(r#"{{"jsonrpc":"2.0","method":"{}","params":{text}}}"#, method.name))
                    .await;
                answers.add_notification(text.len());
            }
            return socket.is_open().await;
        }
        let Exchanged { answered, closed } = socket.exchange(method.name, &texts).await;
        let mut wait = Duration::ZERO;
        for (at, error) in &answered {
            answers.add(method, texts[*at].len(), error.as_ref());
            let retry = error.as_ref().and_then(|error| error["data"]["retry_after_ms"].as_u64());
            wait = wait.max(Duration::from_millis(retry.unwrap_or(0)));
        }
        closed.iter().for_each(|closed| answers.add_close(method, closed));
        sleep(wait.min(DURATION / 8)).await;
        closed.is_none()
    }

    /// The text of one call, which no other call has.
    fn own_text(&self, text: &str, connection: usize) -> String {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        text.replace(UNIQUE, &format!("unique-{number:010}"))
            .replace(CONNECTION, &format!("connection-{connection}"))
    }
}

/// One of the connections of a caller, opened again when the server has closed it.
struct AttackSession {
    connection: usize,
    open: Option<ConnectedAgent>,
    answers: MethodAnswers,
}

impl AttackSession {
    fn new(connection: usize) -> AttackSession {
        AttackSession { connection, open: None, answers: MethodAnswers::default() }
    }

    /// Makes these calls at the same time.
    async fn call(&mut self, attackers: &Attackers<'_>, attack: &Attack<'_>, texts: &[&String]) {
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let (LoggedIn { identity, tokens }, id) = (&attack.caller, connection_id(self.connection));
                attackers.server.connect_with(identity, tokens, at(&id, &id)).await
            }
        };
        let goes_on =
            attackers.exchange(attack.method, &open, self.connection, texts, &mut self.answers).await;
        self.open = goes_on.then_some(open);
    }
}

/// What a request to this route may carry: in its body, and otherwise in its head.
fn body_bytes(route: &HttpRoute) -> usize {
    const HEAD_BYTES: usize = 4096;
    let mut prefixes = namespaces().iter().flat_map(|namespace| namespace.http);
    let prefix = prefixes.find(|prefix| prefix.covers(route.path)).expect("a route is below a declared path");
    match route.body {
        HttpRouteBody::None => HEAD_BYTES,
        _ => route.body_bytes.unwrap_or(prefix.body_bytes),
    }
}

fn merged(all: Vec<MethodAnswers>) -> MethodAnswers {
    all.into_iter().fold(MethodAnswers::default(), |mut sum, one| {
        sum.merge(one);
        sum
    })
}
