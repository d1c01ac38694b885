//! Conversations of front ends: what a batch of calls has changed of them, written with the log.

mod pictures;
mod read;
mod removed;

pub(crate) use read::{MessageView, PartView};

use super::Store;
use crate::model::run::Runs;
use crate::model::thread::{EndedTurn, LONGEST_CONTENT, PartRow, ThreadChanges, ThreadMessage, ThreadRow};
use kernel::Statements;
use kernel::json_rows::{self as json, Column};
use serde::{Deserialize, Serialize};
use sqlx::{Any, AnyConnection};
use std::collections::HashSet;

/// In the order of the members of [`ThreadRow`]. All but the first two and the time of creation may change.
const THREAD: [Column; 13] = [
    ("id", "TEXT"),
    ("aid", "TEXT"),
    ("session_id", "TEXT"),
    ("run_id", "TEXT"),
    ("generation", "BIGINT"),
    ("base", "BIGINT"),
    ("last_message", "BIGINT"),
    ("last_position", "BIGINT"),
    ("last_item", "TEXT"),
    ("event_bytes", "BIGINT"),
    ("event_rows", "BIGINT"),
    ("created_at", "BIGINT"),
    ("updated_at", "BIGINT"),
];
const THREAD_CHANGES: [&str; 10] = [
    "session_id",
    "run_id",
    "generation",
    "base",
    "last_message",
    "last_position",
    "last_item",
    "event_bytes",
    "event_rows",
    "updated_at",
];
/// In the order of the members of [`ThreadRow`].
pub(super) const THREAD_READ: &str = "id, aid, session_id, run_id, generation, base, last_message, last_position, last_item, \
     event_bytes, event_rows, created_at, updated_at";

const SESSION: [Column; 7] = [
    ("id", "TEXT"),
    ("payer", "TEXT"),
    ("tenant", "TEXT"),
    ("project", "TEXT"),
    ("profile", "TEXT"),
    ("now", "BIGINT"),
    ("expires_at", "BIGINT"),
];

const PART: [Column; 13] = [
    ("thread_id", "TEXT"),
    ("id", "TEXT"),
    ("aid", "TEXT"),
    ("position", "BIGINT"),
    ("task_id", "TEXT"),
    ("run_id", "TEXT"),
    ("base", "BIGINT"),
    ("input", "TEXT"),
    ("input_hash", "TEXT"),
    ("parent_id", "TEXT"),
    ("has_protocol", "BIGINT"),
    ("answers", "TEXT"),
    ("created_at", "BIGINT"),
];

const MESSAGE: [Column; 11] = [
    ("thread_id", "TEXT"),
    ("seq", "BIGINT"),
    ("aid", "TEXT"),
    ("id", "TEXT"),
    ("role", "TEXT"),
    ("content", "TEXT"),
    ("attachments", "TEXT"),
    ("ui_schema", "TEXT"),
    ("task_id", "TEXT"),
    ("shown", "BIGINT"),
    ("created_at", "BIGINT"),
];

/// How a turn goes on.
const TURN: [Column; 4] =
    [("task_id", "TEXT"), ("starts_at", "BIGINT"), ("ends_at", "BIGINT"), ("ended_at", "BIGINT")];
const PAIR: [Column; 2] = [("name", "TEXT"), ("value", "TEXT")];

#[derive(Serialize)]
struct WrittenTurn<'a> {
    task_id: &'a str,
    starts_at: i64,
    ends_at: Option<i64>,
    ended_at: Option<i64>,
}

#[derive(Serialize)]
struct WrittenPair<'a> {
    name: &'a str,
    value: &'a str,
}

impl Store {
    /// The sessions of new conversations, before the runs of the batch change them.
    pub(super) async fn write_new_sessions(
        &self,
        tx: &mut AnyConnection,
        changes: &ThreadChanges,
    ) -> sqlx::Result<()> {
        if changes.new_sessions.is_empty() {
            return Ok(());
        }
        let mut statements = Statements::new(self.engine());
        statements.add_rows(&SESSION, &changes.new_sessions, |parameter| {
            let rows = json::rows(self.engine(), parameter, &SESSION);
            format!(
                "INSERT INTO run_session (id, payer, tenant, project, profile, state, version, storage_kind, storage_removed,
                     created_at, updated_at, expires_at)
                 SELECT id, payer, tenant, project, profile, 'idle', 0, 'pvc', 0, now, now, expires_at FROM {rows}"
            )
        })?;
        statements.execute(tx).await
    }

    pub(super) async fn write_threads(&self, tx: &mut AnyConnection, runs: &Runs) -> sqlx::Result<()> {
        let changes = &runs.threads;
        let changed = runs.runs.values().filter(|run| run.changed && run.thread_changed);
        let changed: Vec<&ThreadRow> = changed.filter_map(|run| run.thread.as_ref()).collect();
        if changes.is_empty() && changed.is_empty() {
            return Ok(());
        }
        let new: HashSet<&String> = changes.new_threads.iter().collect();
        let (new, changed): (Vec<&ThreadRow>, Vec<&ThreadRow>) =
            changed.into_iter().partition(|thread| new.contains(&thread.id));
        // What is new first: PostgreSQL shows no statement what another one of the same text has written.
        let mut statements = Statements::new(self.engine());
        statements.insert("agui_thread", &THREAD, "", &new)?;
        self.update(&mut statements, "agui_thread", &THREAD, &THREAD_CHANGES, &changed)?;
        let parts: Vec<&PartRow> = changes.parts.iter().collect();
        // Two calls with one id have met on their way: the first counts.
        statements.insert("agui_run", &PART, "(thread_id, id) DO NOTHING", &parts)?;
        let messages: Vec<&ThreadMessage> = changes.messages.iter().collect();
        statements.insert("agui_message", &MESSAGE, "", &messages)?;
        self.write_used(&mut statements, changes)?;
        statements.execute(tx).await?;
        self.write_pieces(tx, changes).await?;
        self.write_ui(tx, changes).await?;
        self.write_turns(tx, changes).await
    }

    fn write_used(&self, statements: &mut Statements, changes: &ThreadChanges) -> sqlx::Result<()> {
        if changes.used.is_empty() {
            return Ok(());
        }
        let used = changes.used.iter().map(|(name, value)| WrittenPair { name, value });
        let used: Vec<WrittenPair<'_>> = used.collect();
        statements.add_rows(&PAIR, &used, |parameter| {
            let rows = json::rows(self.engine(), parameter, &PAIR);
            format!(
                "UPDATE agui_attachment SET task_id = given.value FROM {rows}
                 WHERE agui_attachment.path = given.name AND agui_attachment.task_id IS NULL"
            )
        })
    }

    /// How the last message of a turn may be shown.
    async fn write_ui(&self, tx: &mut AnyConnection, changes: &ThreadChanges) -> sqlx::Result<()> {
        for (task_id, schema) in &changes.ui {
            sqlx::query::<Any>(
                "UPDATE agui_message SET ui_schema = $2 WHERE task_id = $1 AND seq =
                     (SELECT MAX(seq) FROM agui_message WHERE task_id = $1 AND role = 'assistant')",
            )
            .bind(task_id.clone())
            .bind(schema.clone())
            .execute(&mut *tx)
            .await?;
        }
        Ok(())
    }

    /// Turns that have begun or ended, and what those say that have completed.
    async fn write_turns(&self, tx: &mut AnyConnection, changes: &ThreadChanges) -> sqlx::Result<()> {
        let ended: HashSet<&str> = changes.ended.iter().map(|turn| turn.task_id.as_str()).collect();
        let begun = changes.begun.iter().filter(|(id, _)| !ended.contains(id.as_str()));
        let begun = begun.map(|(id, seq)| WrittenTurn {
            task_id: id,
            starts_at: *seq,
            ends_at: None,
            ended_at: None,
        });
        let first = |turn: &EndedTurn| {
            let begun = changes.begun.iter().find(|(id, _)| *id == turn.task_id);
            begun.map_or(turn.seq, |(_, seq)| *seq)
        };
        let ended = changes.ended.iter().map(|turn| WrittenTurn {
            task_id: &turn.task_id,
            starts_at: first(turn),
            ends_at: Some(turn.seq),
            ended_at: Some(turn.at),
        });
        let turns: Vec<WrittenTurn<'_>> = begun.chain(ended).collect();
        if turns.is_empty() {
            return Ok(());
        }
        let mut statements = Statements::new(self.engine());
        statements.add_rows(&TURN, &turns, |parameter| {
            let rows = json::rows(self.engine(), parameter, &TURN);
            format!(
                "UPDATE agui_run SET starts_at = COALESCE(agui_run.starts_at, given.starts_at),
                     ends_at = given.ends_at, ended_at = given.ended_at
                 FROM {rows} WHERE agui_run.task_id = given.task_id AND agui_run.ended_at IS NULL"
            )
        })?;
        let completed = changes.ended.iter().filter(|turn| turn.is_completed);
        let completed: Vec<&str> = completed.map(|turn| turn.task_id.as_str()).collect();
        if !completed.is_empty() {
            statements.add(json::text(&completed)?, |parameter| {
                let ids = self.is_one_of("task_id", parameter);
                format!("UPDATE agui_message SET shown = 1 WHERE {ids} AND role = 'assistant' AND shown = 0")
            });
        }
        statements.execute(tx).await?;
        Ok(())
    }

    /// A back end may say a message in pieces and never whole. Where it has said no other one, the pieces are the message.
    async fn write_pieces(&self, tx: &mut AnyConnection, changes: &ThreadChanges) -> sqlx::Result<()> {
        for turn in &changes.ended {
            let Some(message) = &turn.of_pieces else { continue };
            let said: Vec<String> = sqlx::query_scalar::<Any, String>(
                "SELECT payload FROM run_event WHERE run_id = $1 AND command_id = $2 AND kind = 'assistant_message' ORDER BY seq",
            )
            .bind(turn.run_id.clone())
            .bind(turn.task_id.clone())
            .fetch_all(&mut *tx)
            .await?;
            let content = joined(&said);
            if content.is_empty() {
                continue;
            }
            let mut statements = Statements::new(self.engine());
            statements.insert(
                "agui_message",
                &MESSAGE,
                "",
                &[ThreadMessage { content, ..message.clone() }],
            )?;
            statements.execute(tx).await?;
        }
        Ok(())
    }
}

/// The pieces of messages, each message in a paragraph of its own.
fn joined(payloads: &[String]) -> String {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Piece {
        #[serde(default)]
        item_id: String,
        #[serde(default)]
        text: String,
    }
    let mut content = String::new();
    let mut item = None;
    for piece in payloads.iter().filter_map(|payload| serde_json::from_str::<Piece>(payload).ok()) {
        if item.as_ref().is_some_and(|before| *before != piece.item_id) {
            content.push_str("\n\n");
        }
        content.push_str(&piece.text);
        item = Some(piece.item_id);
    }
    content.truncate(content.floor_char_boundary(LONGEST_CONTENT));
    content
}
