//! The outboxes: what is written in the transaction of a change, and sent afterwards.

use crate::settings::WebhookSettings;
use crate::store::agents::WriteTx;
use crate::store::attempts;
use kernel::{
    BackoffSchedule, Db, NewMark, Outbox, OutboxSettings, OwnedDestinations, Retry, RowKind, SendSlot,
    SendSlots, World,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sqlx::AssertSqlSafe;
use std::sync::Arc;
use std::time::Duration;

/// The destination of all events: a user may have relations with several agents, and hears of them in order.
pub(super) const USERS: &str = "users";

const EVENT_WAITS: BackoffSchedule = BackoffSchedule::new(Duration::from_secs(1), Duration::from_secs(60));
/// How many events about the agents of one owner wait: some seconds of sending.
const EVENTS_OF_OWNER: i64 = 10_000;
const EVENTS: OutboxSettings = OutboxSettings {
    // How long a process may take for one page of users.
    lease: Duration::from_secs(60),
    most_of_owner: Some(EVENTS_OF_OWNER),
    subject: Some(relation_of),
    ..OutboxSettings::new(
        "event",
        RowKind::Payload,
        Retry::Destination { schedule: EVENT_WAITS, demand: None },
    )
};

/// How long to wait before each attempt at a webhook but the first.
const WEBHOOK_WAITS: &[Duration] =
    &[Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30), Duration::from_secs(300)];
/// How many deliveries of one agent wait, and how many that ended are kept.
const KEPT_DELIVERIES: i64 = 100;
const WEBHOOKS: OutboxSettings = OutboxSettings {
    // Longer than a request may take.
    lease: Duration::from_secs(30),
    turn_pages: 1,
    most_waiting: Some(KEPT_DELIVERIES),
    kept_ended: KEPT_DELIVERIES,
    ..OutboxSettings::new("webhook", RowKind::Payload, Retry::Row(WEBHOOK_WAITS))
};

/// Where the service of messages does not answer. A webhook that fails has waits of its own.
const MESSAGE_WAITS: BackoffSchedule = BackoffSchedule::new(Duration::from_secs(1), Duration::from_secs(60));
const MESSAGES: OutboxSettings = OutboxSettings {
    // Longer than a turn, and the request that it ends with.
    lease: Duration::from_secs(30),
    page_rows: 2,
    turn_pages: 2,
    ..OutboxSettings::new(
        "message",
        RowKind::Mark,
        Retry::Destination { schedule: MESSAGE_WAITS, demand: None },
    )
};
/// The mark of an AID whose device has to be made or removed, with the number of the change as its version.
pub(super) const DEVICE: &str = "device";
/// The mark of an AID for whose webhook messages wait, with the seq of the last one as its version.
pub(super) const WAITING_MESSAGES: &str = "messages";

pub(super) struct SendingOutboxes {
    pub events: Arc<Outbox>,
    /// Their destinations are the ids of agents, and the data of a row is the body of the request.
    pub webhooks: Arc<Outbox>,
    /// Marks of messages that wait for webhooks. Their destinations are AIDs, so that one process at a time makes, reads or removes the
    /// device of an AID.
    pub messages: Arc<Outbox>,
    /// What both of them send at once.
    slots: Arc<SendSlots>,
    limits: OutboxSettings,
}

/// The data of an event's row.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredEvent {
    pub agent_id: String,
    pub event: String,
    /// None for the users of all active relations, of which those up to the progress of the row were told.
    pub targets: Option<Vec<String>>,
    pub payload: Box<RawValue>,
}

/// What is read of the data of an event.
#[derive(Deserialize)]
struct RelationEvent {
    payload: RelationEventPayload,
}

#[derive(Deserialize)]
struct RelationEventPayload {
    relation_id: Option<String>,
}

/// The relation that an event tells the state of: a newer event about it says all that the older one would. Events about manifests name
/// no relation.
fn relation_of(data: &str) -> Option<String> {
    serde_json::from_str::<RelationEvent>(data).ok()?.payload.relation_id
}

impl SendingOutboxes {
    pub async fn open(world: &World, db: &Db, webhook: &WebhookSettings) -> sqlx::Result<SendingOutboxes> {
        let owned = OwnedDestinations {
            at_once: webhook.requests_per_owner,
            kept_for_answering: webhook.requests_kept,
        };
        let webhooks = OutboxSettings {
            at_once: webhook.requests,
            owned: Some(owned),
            most_of_owner: Some(webhook.waiting_per_owner),
            ..WEBHOOKS
        };
        let messages = OutboxSettings { at_once: webhook.requests, owned: Some(owned), ..MESSAGES };
        let slots = Arc::<SendSlots>::default();
        Ok(SendingOutboxes {
            events: Outbox::open(world, db, EVENTS).await?,
            webhooks: Outbox::open_sharing(world, db, webhooks.clone(), slots.clone()).await?,
            messages: Outbox::open_sharing(world, db, messages, slots.clone()).await?,
            slots,
            limits: webhooks,
        })
    }

    /// The right to send one request beside the outboxes. `None` while as many go to webhooks as may, in all or of this owner.
    pub fn slot_for_test(&self, agent_id: &str, owner: &str) -> Option<SendSlot> {
        self.slots.take_alone(&format!("test of {agent_id}"), owner, &self.limits)
    }

    /// Has the device of an AID made or removed, and its messages sent at once, if it has any. The last statement of its transaction but
    /// the commit: it locks the counter of such changes.
    pub async fn mark_device(&self, tx: &mut WriteTx, aid: &str, owner: &str, now: i64) -> sqlx::Result<()> {
        self.messages.restart(tx, aid).await?;
        let version = attempts::next_webhook_change(tx).await?;
        let mark = NewMark::new(DEVICE, aid, owner, version, (now, now));
        self.write_marks(tx, &[mark]).await
    }

    pub async fn write_marks(&self, tx: &mut WriteTx, marks: &[NewMark<'_>]) -> sqlx::Result<()> {
        sqlx::query(AssertSqlSafe(self.messages.mark_statement(1)))
            .bind(self.messages.mark_list(marks)?)
            .execute(&mut **tx)
            .await?;
        Ok(())
    }

    /// Has what was written sent. Called after the commit.
    pub fn wake(&self) {
        self.events.wake();
        self.webhooks.wake();
        self.messages.wake();
    }
}
