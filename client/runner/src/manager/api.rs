//! The calls themselves, one function per route.

use super::connection::{AnswerLimits, ManagerConnection};
use super::{ManagerError, ManagerUrl, RunnerToken};
use client::{Error as ClientError, GatewayDialer, TrustedRoot};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::{Method, Request};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use proto_schemas::requests::run::CommandRecord;
use proto_schemas::requests::runner::{
    Acknowledge, AppendEvents, AppendedRunEvents, Claim, ClaimedRun, Heartbeat, PollCommands, PolledCommands,
    Register, RegisteredRunner, RenewedRunLease, SetCommandStatus,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a call may take beside the time that it was told to wait.
const ANSWER: Duration = Duration::from_secs(20);
/// What an answer may have: the largest is a page of commands that ends with one of 512 KiB after a MiB of others, and as much again for
/// the answers to questions.
const ANSWER_BYTES: usize = 8 << 20;
/// How long it may take to fetch an attachment.
const ATTACHMENT: Duration = Duration::from_secs(60);
/// No attachment is larger.
pub(crate) const ATTACHMENT_BYTES: usize = 10 << 20;

/// What stays as it is in one segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The manager, as the runner of one token sees it. Calls on one of these wait for each other.
pub(crate) struct ManagerApi {
    connection: ManagerConnection,
    token: Arc<RunnerToken>,
}

/// The body of a success.
#[derive(Deserialize)]
struct AnsweredData<T> {
    data: T,
}

impl ManagerApi {
    /// `root` is the file of the certificate that the manager must prove itself with; without one it is an authority of the public web.
    /// `dial` is the address to connect to in place of the host of the URL.
    pub fn new(
        url: &ManagerUrl,
        root: Option<&Path>,
        dial: Option<SocketAddr>,
        token: RunnerToken,
    ) -> Result<ManagerApi, ClientError> {
        let gateway = url.gateway.clone();
        let dialer = match (gateway.is_secure(), root) {
            (true, Some(root)) => GatewayDialer::new(gateway, &TrustedRoot::read(root)?)?,
            (true, None) => GatewayDialer::of_web_authorities(gateway)?,
            (false, _) => GatewayDialer::unverified(gateway)?,
        };
        let dialer = match dial {
            Some(address) => dialer.dialled_at(address),
            None => dialer,
        };
        let connection = ManagerConnection::new(url, Arc::new(dialer));
        Ok(ManagerApi { connection, token: Arc::new(token) })
    }

    /// The same with a connection of its own, for calls at the same time.
    pub fn another(&self) -> ManagerApi {
        ManagerApi { connection: self.connection.another(), token: self.token.clone() }
    }

    pub async fn register(&mut self, register: &Register) -> Result<RegisteredRunner, ManagerError> {
        self.send(Method::POST, "/runners/register", register).await
    }

    pub async fn claim(&mut self, claim: &Claim) -> Result<ClaimedRun, ManagerError> {
        self.send(Method::POST, &format!("/runs/{}/claim", claim.run_id), claim).await
    }

    pub async fn heartbeat(&mut self, heartbeat: &Heartbeat) -> Result<RenewedRunLease, ManagerError> {
        self.send(Method::PATCH, &format!("/runs/{}/lease", heartbeat.run_id), heartbeat).await
    }

    /// Waits for as long as the poll says.
    pub async fn poll(&mut self, poll: &PollCommands) -> Result<PolledCommands, ManagerError> {
        let PollCommands { run_id, runner_id, epoch, after_seq, limit, wait_ms } = poll;
        let (after, limit, wait) = (after_seq.unwrap_or(0), limit.unwrap_or(20), wait_ms.unwrap_or(0));
        let path = format!(
            "/runs/{run_id}/commands?runnerId={runner_id}&epoch={epoch}&afterSeq={after}&limit={limit}&waitMs={wait}"
        );
        let within = ANSWER + Duration::from_millis(wait.unsigned_abs());
        self.exchange(within, Method::GET, &path, Bytes::new()).await
    }

    /// The bytes of an attachment. Its id is one segment of the path, whatever it has: its slash comes as `%2F`.
    pub async fn attachment(&mut self, run_id: &str, attachment_id: &str) -> Result<Bytes, ManagerError> {
        let path = format!("/runs/{run_id}/attachments/{}", utf8_percent_encode(attachment_id, SEGMENT));
        let limits = AnswerLimits { within: ATTACHMENT, bytes: ATTACHMENT_BYTES };
        self.answer(limits, Method::GET, &path, Bytes::new()).await
    }

    pub async fn append(&mut self, events: &AppendEvents) -> Result<AppendedRunEvents, ManagerError> {
        self.send(Method::POST, &format!("/runs/{}/events", events.run_id), events).await
    }

    pub async fn acknowledge(&mut self, acknowledge: &Acknowledge) -> Result<CommandRecord, ManagerError> {
        self.send(Method::POST, &format!("/commands/{}/ack", acknowledge.command_id), acknowledge).await
    }

    pub async fn report(&mut self, report: &SetCommandStatus) -> Result<CommandRecord, ManagerError> {
        self.send(Method::PATCH, &format!("/commands/{}/status", report.command_id), report).await
    }

    async fn send<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ManagerError> {
        let body = serde_json::to_vec(body)
            .map_err(|error| ManagerError::Unanswered(format!("this cannot be written: {error}")))?;
        self.exchange(ANSWER, method, path, body.into()).await
    }

    async fn exchange<T: DeserializeOwned>(
        &mut self,
        within: Duration,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, ManagerError> {
        let limits = AnswerLimits { within, bytes: ANSWER_BYTES };
        let answer = self.answer(limits, method, path, body).await?;
        match serde_json::from_slice::<AnsweredData<T>>(&answer) {
            Ok(answered) => Ok(answered.data),
            Err(error) => Err(ManagerError::Unanswered(format!("its answer cannot be read: {error}"))),
        }
    }

    /// The body of a success, as it is.
    async fn answer(
        &mut self,
        limits: AnswerLimits,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Bytes, ManagerError> {
        let (path, token) = (self.connection.path(path), self.token.header());
        let request = || {
            let request = Request::builder().method(method.clone()).uri(path.as_str());
            request.header(AUTHORIZATION, token.as_str()).header(CONTENT_TYPE, "application/json")
        };
        let (status, answer) = self.connection.send(limits, request, body).await?;
        match status.is_success() {
            true => Ok(answer),
            false => Err(ManagerError::of_answer(status, &answer)),
        }
    }
}
