//! Calls in other ways than one after the other: many at once, and with every character chosen.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use futures_util::future::join;
use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::Value;
use tokio_tungstenite::tungstenite::Message;

use super::socket::{Closed, TestSocket, frame, outcome};
use super::within;

/// How many calls of one client are on their way at once, fewer than the server lets one connection have.
const MANY: usize = 48;

/// What became of calls of which only that is of interest.
#[derive(Default)]
pub struct Exchanged {
    /// The positions of the calls that were answered, each with its error if it was refused.
    pub answered: Vec<(usize, Option<Value>)>,
    /// How the socket ended, if it did before all of them were.
    pub closed: Option<Closed>,
}

/// As much of a frame as says whether it is an answer, and of which kind. Results may be large.
#[derive(Deserialize)]
struct AnswerHead {
    id: Option<String>,
    error: Option<Value>,
}

impl TestSocket {
    /// Calls with these params, written out, all on their way at once. Events are dropped.
    pub async fn exchange(&self, method: &str, params: &[String]) -> Exchanged {
        let first = self.last_id.fetch_add(params.len() as u64, Ordering::Relaxed);
        let id = |at: usize| format!("rpc-{:x}", first + at as u64);
        let mut positions: HashMap<String, usize> = (0..params.len()).map(|at| (id(at), at)).collect();
        let mut state = self.state.lock().await;
        let (mut sink, mut stream) = (&mut state.stream).split();
        let send = async {
            for (at, params) in params.iter().enumerate() {
                let id = id(at);
                let call =
                    format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}","params":{params}}}"#);
                // A server that has closed does not read; what it said last is what counts.
                let _ = sink.send(Message::text(call)).await;
            }
        };
        let mut exchanged = Exchanged::default();
        let read = async {
            while !positions.is_empty() && exchanged.closed.is_none() {
                match frame(within("an answer", stream.next()).await) {
                    Some(Ok(text)) => {
                        let head: AnswerHead = serde_json::from_str(&text).expect("a frame is JSON");
                        let at = head.id.and_then(|id| positions.remove(&id));
                        exchanged.answered.extend(at.map(|at| (at, head.error)));
                    }
                    Some(Err(closed)) => exchanged.closed = Some(closed),
                    None => {}
                }
            }
        };
        // Both at once: answers may be as large as the calls.
        join(send, read).await;
        exchanged
    }

    /// Many calls on their way at once; the outcomes in the order of the calls.
    pub async fn call_many(&self, method: &str, calls: &[Value]) -> Vec<Result<Value, Value>> {
        let mut outcomes = Vec::new();
        for window in calls.chunks(MANY) {
            let mut ids = Vec::new();
            for params in window {
                ids.push(self.ask(method, params).await);
            }
            let mut answers = self.answers(&ids).await;
            outcomes
                .extend(ids.iter().map(|id| outcome(answers.remove(id).expect("every call is answered"))));
        }
        outcomes
    }

    /// The answer to a call whose parameters are written out, as it was written itself.
    pub async fn call_text(&self, method: &str, params: &str) -> String {
        let id = format!("rpc-{:x}", self.last_id.fetch_add(1, Ordering::Relaxed));
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}","params":{params}}}"#)).await;
        loop {
            let text = self.next_text().await;
            let frame: Value = serde_json::from_str(&text).expect("a frame is JSON");
            if frame["id"] == id {
                return text;
            }
            self.state.lock().await.events.push_back(frame);
        }
    }

    async fn answers(&self, ids: &[String]) -> HashMap<String, Value> {
        let mut state = self.state.lock().await;
        let mut answers = HashMap::new();
        while answers.len() < ids.len() {
            match state.read().await {
                Ok(frame) => match frame["id"].as_str().map(str::to_owned) {
                    Some(id) => drop(answers.insert(id, frame)),
                    None => state.events.push_back(frame),
                },
                Err(closed) => panic!("the socket ended instead of an answer: {closed:?}"),
            }
        }
        answers
    }
}
