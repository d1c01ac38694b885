//! Runs the published AG-UI client for Rust once, and prints what it saw as JSON.
//!
//! `agui-events URL TOKEN`, with the input of the run on standard input: `threadId`, `runId`, `text`, and `forwardedProps`.

use std::error::Error;
use std::io::read_to_string;

use ag_ui_client::agent::Agent as _;
use ag_ui_client::http::HttpAgent;
use ag_ui_core::types::ids::{MessageId, RunId, ThreadId};
use ag_ui_core::types::input::RunAgentInput;
use ag_ui_core::types::message::Message;
use futures::StreamExt as _;
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let url = words.next().ok_or("the URL is missing")?;
    let token = words.next().ok_or("the token is missing")?;
    let asked: Value = serde_json::from_str(&read_to_string(std::io::stdin())?)?;
    let text = |name: &str| asked[name].as_str().unwrap_or_default().to_owned();

    let agent = HttpAgent::builder().with_url_str(&url)?.with_bearer_token(&token)?.build()?;
    let message = Message::User { id: MessageId::random(), content: text("text"), name: None };
    let input: RunAgentInput<Value, Value> = RunAgentInput::new(
        text("threadId").parse::<ThreadId>()?,
        text("runId").parse::<RunId>()?,
        json!({}),
        vec![message],
        Vec::new(),
        Vec::new(),
        asked["forwardedProps"].clone(),
    );
    let (mut events, mut error) = (Vec::new(), None);
    match agent.run(&input).await {
        Err(problem) => error = Some(problem.to_string()),
        Ok(mut stream) => {
            while let Some(event) = stream.next().await {
                match event {
                    Ok(event) => events.push(serde_json::to_value(event)?),
                    Err(problem) => error = Some(problem.to_string()),
                }
            }
        }
    }
    println!("{}", json!({ "events": events, "error": error }));
    Ok(())
}
