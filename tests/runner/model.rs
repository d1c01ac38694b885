//! A model on loopback, for Codex: the part of the API of responses that it uses, and no more.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// A model that does what the last text asks for, and otherwise says it.
pub struct StubModel {
    pub port: u16,
    asked: Arc<Mutex<Vec<ModelRequest>>>,
    _server: JoinSet<()>,
}

/// What the model was asked.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    pub authorization: String,
    /// The texts of the user, also those of earlier turns.
    pub texts: Vec<String>,
    pub images: usize,
    /// The first text of the last message of the user.
    prompt: String,
    is_after_tool: bool,
}

impl StubModel {
    pub async fn start() -> StubModel {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port on loopback");
        let port = listener.local_addr().expect("it has an address").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let mut server = JoinSet::new();
        let requests = asked.clone();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let requests = requests.clone();
                connections.spawn(async move {
                    // Codex leaves when it is interrupted.
                    let _ = answer(stream, &requests).await;
                });
            }
        });
        StubModel { port, asked, _server: server }
    }

    pub fn asked(&self) -> Vec<ModelRequest> {
        self.asked.lock().expect("nobody panics with it").clone()
    }

    /// The configuration of a Codex with this model. The key is in the variable that a test gives to its back end.
    pub fn config(&self, credential: &str) -> String {
        format!(
            "model = \"stub\"\nmodel_provider = \"stub\"\n[model_providers.stub]\nname = \"stub\"\n\
             base_url = \"http://127.0.0.1:{}/v1\"\nwire_api = \"responses\"\n{credential}\n\
             request_max_retries = 0\nstream_max_retries = 0\n",
            self.port
        )
    }
}

async fn answer(stream: TcpStream, asked: &Mutex<Vec<ModelRequest>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut length, mut authorization, mut line) = (0, String::new(), String::new());
    while stream.read_line(&mut line).await? > 2 {
        if let Some((name, value)) = line.split_once(':') {
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().unwrap_or(0),
                "authorization" => value.trim().clone_into(&mut authorization),
                _ => {}
            }
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let request = model_request(&serde_json::from_slice(&body).unwrap_or_default(), authorization);
    asked.lock().expect("nobody panics with it").push(request.clone());
    let mut stream = stream.into_inner();
    if let Some(status) = request.prompt.strip_prefix("/status ") {
        let body = r#"{"error":{"message":"the model says no"}}"#;
        let head = format!("HTTP/1.1 {status} No\r\ncontent-type: application/json\r\n");
        let rest = format!("content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        return stream.write_all((head + &rest).as_bytes()).await;
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    event(&mut stream, json!({ "type": "response.created", "response": { "id": "r" } })).await?;
    respond(&mut stream, &request).await
}

fn model_request(body: &Value, authorization: String) -> ModelRequest {
    let input = body["input"].as_array().map(Vec::as_slice).unwrap_or_default();
    let messages = || input.iter().filter(|item| item["type"] == "message" && item["role"] == "user");
    let texts_of = |message: &Value| -> Vec<String> {
        let parts = message["content"].as_array().into_iter().flatten();
        parts.filter_map(|part| part["text"].as_str()).map(str::to_owned).collect()
    };
    let parts = messages().filter_map(|message| message["content"].as_array()).flatten();
    let last = input.last().and_then(|item| item["type"].as_str()).unwrap_or_default();
    ModelRequest {
        authorization,
        texts: messages().flat_map(texts_of).collect(),
        images: parts.filter(|part| part["type"] == "input_image").count(),
        prompt: messages()
            .next_back()
            .map(texts_of)
            .and_then(|texts| texts.into_iter().next())
            .unwrap_or_default(),
        is_after_tool: last.ends_with("_output"),
    }
}

async fn respond(stream: &mut TcpStream, request: &ModelRequest) -> std::io::Result<()> {
    let prompt = request.prompt.as_str();
    if prompt == "/context" {
        let error = json!({ "code": "context_length_exceeded", "message": "it is too long" });
        let failed = json!({ "type": "response.failed", "response": { "id": "r", "error": error } });
        return event(stream, failed).await;
    }
    if request.is_after_tool {
        say(stream, &["The tool ".to_owned(), "has ended".to_owned()], Duration::ZERO).await?;
    } else if let Some(command) = prompt.strip_prefix("/run ") {
        let arguments = json!({ "cmd": command }).to_string();
        let call = json!({
            "type": "function_call", "id": "f", "call_id": format!("call-{}", request.texts.len()),
            "name": "exec_command", "arguments": arguments,
        });
        event(stream, json!({ "type": "response.output_item.done", "output_index": 0, "item": call }))
            .await?;
    } else if prompt == "/slow" {
        let words: Vec<String> = (1..=200).map(|number| format!("word{number} ")).collect();
        say(stream, &words, Duration::from_millis(100)).await?;
    } else if prompt == "/key" {
        say(stream, std::slice::from_ref(&request.authorization), Duration::ZERO).await?;
    } else {
        say(stream, &["You said: ".to_owned(), prompt.to_owned()], Duration::ZERO).await?;
    }
    let usage = json!({ "input_tokens": 1, "output_tokens": 1, "total_tokens": 2 });
    event(stream, json!({ "type": "response.completed", "response": { "id": "r", "usage": usage } })).await
}

/// A message in parts.
async fn say(stream: &mut TcpStream, words: &[String], pause: Duration) -> std::io::Result<()> {
    let id = format!("msg_{}", crate::support::agent::random_hex(8));
    let item =
        |content: Value| json!({ "type": "message", "role": "assistant", "id": id, "content": content });
    let added = json!({ "type": "response.output_item.added", "output_index": 0, "item": item(json!([])) });
    event(stream, added).await?;
    for word in words {
        let delta = json!({
            "type": "response.output_text.delta", "item_id": id, "output_index": 0, "content_index": 0, "delta": word,
        });
        event(stream, delta).await?;
        sleep(pause).await;
    }
    let content = json!([{ "type": "output_text", "text": words.concat() }]);
    event(stream, json!({ "type": "response.output_item.done", "output_index": 0, "item": item(content) }))
        .await
}

async fn event(stream: &mut TcpStream, data: Value) -> std::io::Result<()> {
    let name = data["type"].as_str().unwrap_or_default();
    stream.write_all(format!("event: {name}\ndata: {data}\n\n").as_bytes()).await
}
