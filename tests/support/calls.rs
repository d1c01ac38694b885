//! Calls in other ways than one after the other: many at once, and with every character chosen.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use serde_json::Value;

use super::socket::{TestSocket, outcome};

/// How many calls of one client are on their way at once, fewer than the server lets one connection have.
const MANY: usize = 48;

impl TestSocket {
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
