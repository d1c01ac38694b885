//! What was answered to the calls of one method, and what of it must not be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use proto_schemas::{Code, Method};
use serde_json::Value;

use crate::support::socket::Closed;

/// Any call may end in these, whatever its method says: too many calls, one that this connection cannot make now, and a signature that is
/// not that of the call.
const OF_ANY_CALL: [&str; 3] = ["RATE_LIMITED", "INVALID_REQUEST", "CLIENT_SIGNATURE_INVALID"];

#[derive(Default)]
pub struct MethodAnswers {
    pub calls: usize,
    pub results: usize,
    /// How many were refused, and the first of them, by their codes, or over HTTP by the status.
    pub refused: BTreeMap<i64, (usize, String)>,
    /// The params of the largest call that was executed, in bytes, and of all of them.
    pub largest: usize,
    pub accepted_bytes: u64,
    /// How many connections the server closed in the middle.
    pub closes: usize,
    pub flaws: BTreeSet<String>,
}

impl MethodAnswers {
    /// Counts an answer over JSON-RPC.
    pub fn add(&mut self, method: &Method, bytes: usize, error: Option<&Value>) {
        let Some(error) = error else { return self.accept(bytes) };
        let code = error["code"].as_i64().unwrap_or_default();
        self.refuse(code, 1, &shortened(&error.to_string()));
        if !is_declared(method, code) {
            self.flaws.insert(format!("{}: not declared: {}", method.name, shortened(&error.to_string())));
        }
    }

    /// Counts an answer over HTTP: what is wrong with a request has a status below 500, and a full server says so.
    pub fn add_status(&mut self, method: &Method, bytes: usize, status: u16, body: &[u8]) {
        if status < 400 {
            return self.accept(bytes);
        }
        let body = shortened(&String::from_utf8_lossy(body));
        self.refuse(i64::from(status), 1, &body);
        if status >= 500 && status != 503 {
            self.flaws.insert(format!("{} over HTTP: {status} {body}", method.name));
        }
    }

    /// A call that is never answered.
    pub fn add_notification(&mut self, bytes: usize) {
        self.accept(bytes);
    }

    /// A connection that ended in the middle. The server says why it closes one.
    pub fn add_close(&mut self, method: &Method, closed: &Closed) {
        self.closes += 1;
        if closed.code == 1006 || closed.reason.is_empty() {
            self.flaws.insert(format!("{}: closed without a reason: {closed:?}", method.name));
        }
    }

    pub fn merge(&mut self, other: MethodAnswers) {
        self.calls += other.results;
        self.results += other.results;
        self.largest = self.largest.max(other.largest);
        self.accepted_bytes += other.accepted_bytes;
        self.closes += other.closes;
        self.flaws.extend(other.flaws);
        for (code, (many, first)) in other.refused {
            self.refuse(code, many, &first);
        }
    }

    fn accept(&mut self, bytes: usize) {
        self.calls += 1;
        self.results += 1;
        self.largest = self.largest.max(bytes);
        self.accepted_bytes += bytes as u64;
    }

    fn refuse(&mut self, code: i64, many: usize, said: &str) {
        self.calls += many;
        self.refused.entry(code).or_insert_with(|| (0, said.to_owned())).0 += many;
    }
}

impl fmt::Display for MethodAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MethodAnswers { calls, results, largest, closes, .. } = self;
        write!(
            f,
            "{calls} calls, {results} executed, the largest with {largest} bytes, {closes} connections closed"
        )?;
        self.refused
            .iter()
            .try_for_each(|(code, (many, said))| write!(f, "; {many} refused with {code}: {said}"))
    }
}

fn is_declared(method: &Method, code: i64) -> bool {
    let own = method.doc()["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
    own.chain(OF_ANY_CALL)
        .filter_map(|name| Code::find(method.namespace, name))
        .any(|known| i64::from(known.code) == code)
}

fn shortened(text: &str) -> String {
    text.chars().take(300).collect()
}
