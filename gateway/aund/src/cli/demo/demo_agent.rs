//! One of the two agents of the demo, and its session.

use super::frames::FramePrinter;
use anyhow::Context as _;
use client::{
    Aid, Client, EventStream, GatewayDialer, LocalAgent, ReceivedEvent, SessionKind, SessionOptions,
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

/// How long an event may be on its way.
pub(super) const EVENT_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) struct DemoAgent {
    pub agent: LocalAgent,
    dialer: GatewayDialer,
    device: String,
    pub printer: FramePrinter,
    pub client: Client,
    events: EventStream,
}

impl DemoAgent {
    pub async fn connect(
        agent: LocalAgent,
        dialer: GatewayDialer,
        device: String,
        printer: FramePrinter,
    ) -> anyhow::Result<DemoAgent> {
        let options =
            SessionOptions { device: device.clone(), slot: "demo".to_owned(), kind: SessionKind::Long };
        let client = Client::connect(dialer.clone(), agent.clone(), options).await?;
        let events = client.events();
        Ok(DemoAgent { agent, dialer, device, printer, client, events })
    }

    /// With a new session.
    pub async fn connect_again(self) -> anyhow::Result<DemoAgent> {
        DemoAgent::connect(self.agent, self.dialer, self.device, self.printer).await
    }

    pub async fn call(&self, method: &str, params: &Value) -> anyhow::Result<Value> {
        Ok(self.client.call(method, params).await?)
    }

    pub async fn send(&self, to: &Aid, text: &str) -> anyhow::Result<Value> {
        self.call("message.send", &json!({ "to": to, "payload": { "type": "text", "text": text } })).await
    }

    /// Waits for an event of this name; others may come first.
    pub async fn wait_for(&mut self, name: &str) -> anyhow::Result<ReceivedEvent> {
        self.wait_until(name, |_| true).await
    }

    /// Waits for the event that says that a task has this status.
    pub async fn wait_for_task(&mut self, name: &str, status: &str) -> anyhow::Result<ReceivedEvent> {
        self.wait_until(name, |event| event.params["status"] == status).await
    }

    async fn wait_until(
        &mut self,
        name: &str,
        is_wanted: impl Fn(&ReceivedEvent) -> bool,
    ) -> anyhow::Result<ReceivedEvent> {
        let wanted = format!("event/{name}");
        let wait = async {
            loop {
                let event = self.events.next().await?;
                if event.method == wanted && is_wanted(&event) {
                    return Ok(event);
                }
            }
        };
        timeout(EVENT_TIMEOUT, wait).await.with_context(|| format!("{wanted} did not arrive"))?
    }
}
