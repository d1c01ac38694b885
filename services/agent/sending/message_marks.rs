//! Learns that messages wait for webhooks: from the service of messages, which publishes it after each commit, and by asking now and
//! then, because what is published may get lost.

use crate::outboxes::WAITING_MESSAGES;
use crate::store::attempts::WebhookAgent;
use crate::{AgentService, Error};
use kernel::{Aid, Bus, Caller, NewMark, RpcError};
use parking_lot::Mutex;
use proto_schemas::requests::message::ForWebhook;
use proto_schemas::requests::message::webhook::{MOST_WAITING_AIDS, Waiting};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// AIDs of which it was published that something came. Of others it is learned by asking.
const MOST: usize = 10_000;
/// How many of them are looked at together.
const PAGE: usize = 500;
/// How often it is asked, and how soon again if nobody answers.
const ASK_EVERY: Duration = Duration::from_secs(60);
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// Between two writes: what is published meanwhile is written together.
const PAUSE: Duration = Duration::from_millis(20);

/// The AIDs for whose devices something came, with the seq of the last of it.
#[derive(Default)]
pub(crate) struct MessageArrivals {
    noted: Mutex<HashMap<Aid, i64>>,
    came: Notify,
}

impl MessageArrivals {
    pub fn listen(bus: &Bus) -> Arc<MessageArrivals> {
        let arrivals = Arc::<MessageArrivals>::default();
        let noting = arrivals.clone();
        bus.listen(move |event| {
            if let Some(ForWebhook { aid, seq }) = event.as_signal() {
                noting.note(aid, seq);
            }
        });
        arrivals
    }

    fn note(&self, aid: Aid, seq: i64) {
        let mut noted = self.noted.lock();
        if noted.len() < MOST || noted.contains_key(&aid) {
            let last = noted.entry(aid).or_default();
            *last = seq.max(*last);
            self.came.notify_one();
        }
    }
}

impl AgentService {
    /// Runs until the server stops.
    pub(crate) async fn mark_messages(&self) {
        let mut ask_at = Instant::now();
        loop {
            tokio::select! {
                () = self.message_arrivals.came.notified() => self.mark_noted().await,
                () = tokio::time::sleep_until(ask_at) => {
                    let asked = self.mark_waiting().await;
                    if let Err(error) = &asked {
                        tracing::debug!("messages for webhooks are looked for later: {error}");
                    }
                    ask_at = Instant::now() + if asked.is_ok() { ASK_EVERY } else { ASK_AGAIN };
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Writes marks for what was published. Whatever cannot be written is found by asking.
    pub(crate) async fn mark_noted(&self) {
        let noted: Vec<(Aid, i64)> =
            std::mem::take(&mut *self.message_arrivals.noted.lock()).into_iter().collect();
        for page in noted.chunks(PAGE) {
            if let Err(error) = self.mark_page(page).await {
                tracing::warn!("messages are sent to webhooks later: {}", RpcError::from(error));
            }
        }
    }

    async fn mark_page(&self, page: &[(Aid, i64)]) -> Result<(), Error> {
        let aids: Vec<&str> = page.iter().map(|(aid, _)| aid.as_str()).collect();
        let agents = self.store.webhook_agents(&aids).await?;
        let seqs: HashMap<&str, i64> = page.iter().map(|(aid, seq)| (aid.as_str(), *seq)).collect();
        self.write_message_marks(&agents, &seqs).await
    }

    /// Asks for which of all webhooks something waits.
    pub(crate) async fn mark_waiting(&self) -> Result<(), RpcError> {
        let mut after = String::new();
        loop {
            let agents = self.store.webhook_agents_after(&after, MOST_WAITING_AIDS).await?;
            let Some(last) = agents.last() else { return Ok(()) };
            after.clone_from(&last.aid);
            let aids = agents.iter().filter_map(|agent| Aid::parse(&agent.aid).ok()).collect();
            let found = self.mesh.ask(Caller::service("agent"), &Waiting { aids }).await?;
            let seqs = found.waiting.iter().map(|one| (one.aid.as_str(), one.seq)).collect();
            self.write_message_marks(&agents, &seqs).await?;
        }
    }

    /// Those of the agents that have a seq.
    async fn write_message_marks(
        &self,
        agents: &[WebhookAgent],
        seqs: &HashMap<&str, i64>,
    ) -> Result<(), Error> {
        let now = self.clock.now_ms();
        let marks: Vec<NewMark<'_>> = agents
            .iter()
            .filter_map(|agent| Some((agent, *seqs.get(agent.aid.as_str())?)))
            .map(|(agent, seq)| NewMark::new(WAITING_MESSAGES, &agent.aid, &agent.owner, seq, (now, now)))
            .collect();
        if marks.is_empty() {
            return Ok(());
        }
        let mut tx = self.store.begin().await?;
        self.outboxes.write_marks(&mut tx, &marks).await?;
        self.store.commit(tx).await?;
        self.outboxes.messages.wake();
        Ok(())
    }
}
