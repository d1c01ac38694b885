//! The operator's socket, as `aund` calls it.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::{TestServer, until, within};

impl TestServer {
    /// A call on the operator's socket of the process that answers.
    pub async fn by_operator(&self, method: &str, params: &Value) -> Result<Value, Value> {
        let service = proto_schemas::find(method).expect("it is in the table").namespace.service;
        let call = json!({ "method": method, "params": params }).to_string();
        let mut answer = self.line_of_operator(service, &call).await;
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].take()),
        }
    }

    /// What a process answers to a line on its socket.
    pub async fn line_of_operator(&self, service: &str, line: &str) -> Value {
        let path = self.data_of(service).join("aund.sock");
        // A process that was killed makes it again when it has started.
        let connect = || async { UnixStream::connect(&path).await.ok() };
        let stream = until("the operator's socket is there", connect).await;
        let (read, mut write) = stream.into_split();
        write.write_all(format!("{line}\n").as_bytes()).await.expect("the server reads");
        let mut line = String::new();
        within("an answer", BufReader::new(read).read_line(&mut line)).await.expect("the server answers");
        serde_json::from_str(&line).expect("an answer is JSON")
    }
}
