//! Writes what a batch of calls has changed: one statement for each table that something changed in, all of them at once.

use super::Store;
use super::row::{CHANGED, WRITTEN, WrittenChange, WrittenTask};
use crate::model::tree::Trees;
use kernel::Statements;
use kernel::json_rows::{self as json, Column};
use kernel::{Aid, NewMark};
use proto_schemas::requests::task::TaskId;
use serde::Serialize;
use sqlx::AnyConnection;

/// How long whoever subscribed to a task hears of it after its end.
pub(crate) const SUBSCRIBED_MS: i64 = 60_000;
/// After which another domain is told of a change that it was not told of at once.
const RELAY_AFTER_MS: i64 = 2000;

const PARTICIPANT: [Column; 4] =
    [("aid", "TEXT"), ("task_id", "TEXT"), ("status", "TEXT"), ("updated_at", "BIGINT")];
const MESSAGE: [Column; 7] = [
    ("task_id", "TEXT"),
    ("seq", "BIGINT"),
    ("id", "TEXT"),
    ("from_aid", "TEXT"),
    ("kind", "TEXT"),
    ("body", "TEXT"),
    ("created_at", "BIGINT"),
];
const ARTIFACT: [Column; 9] = [
    ("task_id", "TEXT"),
    ("position", "BIGINT"),
    ("artifact_id", "TEXT"),
    ("digest", "TEXT"),
    ("meta", "TEXT"),
    ("content", "TEXT"),
    ("bytes", "BIGINT"),
    ("created_by", "TEXT"),
    ("created_at", "BIGINT"),
];
const ANSWER: [Column; 5] =
    [("scope", "TEXT"), ("key", "TEXT"), ("body_hash", "TEXT"), ("result", "TEXT"), ("expires_at", "BIGINT")];
const ENDED: [Column; 2] = [("task_id", "TEXT"), ("ends_at", "BIGINT")];

#[derive(Serialize)]
struct WrittenParticipant<'a> {
    aid: &'a Aid,
    task_id: &'a TaskId,
    status: &'static str,
    updated_at: i64,
}

#[derive(Serialize)]
struct WrittenMessage<'a> {
    task_id: &'a TaskId,
    seq: i64,
    id: &'a str,
    from_aid: &'a Aid,
    kind: &'static str,
    body: &'a str,
    created_at: i64,
}

#[derive(Serialize)]
struct WrittenArtifact<'a> {
    task_id: &'a TaskId,
    position: i64,
    artifact_id: &'a str,
    digest: &'a str,
    meta: String,
    content: Option<&'a str>,
    bytes: i64,
    created_by: &'a str,
    created_at: i64,
}

#[derive(Serialize)]
struct WrittenAnswer<'a> {
    scope: &'a str,
    key: &'a str,
    body_hash: &'a str,
    result: &'a str,
    expires_at: i64,
}

#[derive(Serialize)]
struct WrittenEnd<'a> {
    task_id: &'a TaskId,
    ends_at: i64,
}

impl Store {
    pub async fn write(&self, tx: &mut AnyConnection, trees: &Trees) -> sqlx::Result<()> {
        let mut statements = Statements::new(self.engine());
        self.write_tasks(&mut statements, trees)?;
        write_messages(&mut statements, trees)?;
        write_artifacts(&mut statements, trees)?;
        self.mark_relays(&mut statements, trees)?;
        let answers: Vec<WrittenAnswer<'_>> = trees.changes.answers.iter().map(WrittenAnswer::of).collect();
        let conflict = format!("(scope, key) {}", json::replace(&["body_hash", "result", "expires_at"]));
        statements.insert("task_answer", &ANSWER, &conflict, &answers)?;
        self.end_subscriptions(&mut statements, trees)?;
        statements.execute(tx).await?;
        self.account.write(tx, &trees.kept).await
    }

    fn write_tasks(&self, statements: &mut Statements, trees: &Trees) -> sqlx::Result<()> {
        let (metadata, new) = (&trees.changes.metadata, &trees.changes.new);
        let tasks: Vec<WrittenTask<'_>> = trees
            .changed()
            .filter(|task| new.contains(&task.id))
            .map(|task| WrittenTask::of(task, metadata.get(&task.id).map(|metadata| &**metadata)))
            .collect::<sqlx::Result<_>>()?;
        statements.insert("task", &WRITTEN, "", &tasks)?;
        self.update_tasks(statements, trees)?;

        let participants = trees.changed().flat_map(|task| {
            task.others().map(|aid| WrittenParticipant {
                aid,
                task_id: &task.id,
                status: task.state.as_str(),
                updated_at: task.updated_at,
            })
        });
        let participants: Vec<WrittenParticipant<'_>> = participants.collect();
        let conflict = format!("(task_id, aid) {}", json::replace(&["status", "updated_at"]));
        statements.insert("task_participant", &PARTICIPANT, &conflict, &participants)
    }

    /// Of a task that was there, only what may change: most of its row never does, and would have to be read from JSON again.
    fn update_tasks(&self, statements: &mut Statements, trees: &Trees) -> sqlx::Result<()> {
        let there = trees.changed().filter(|task| !trees.changes.new.contains(&task.id));
        let changes: Vec<WrittenChange<'_>> = there.map(WrittenChange::of).collect();
        if changes.is_empty() {
            return Ok(());
        }
        let set: Vec<String> =
            CHANGED[1..].iter().map(|(name, _)| format!("{name} = given.{name}")).collect();
        statements.add_rows(&CHANGED, &changes, |parameter| {
            let rows = json::rows(self.engine(), parameter, &CHANGED);
            format!("UPDATE task SET {} FROM {rows} WHERE task.id = given.id", set.join(", "))
        })
    }

    /// In the same transaction as the change, so that none is forgotten.
    fn mark_relays(&self, statements: &mut Statements, trees: &Trees) -> sqlx::Result<()> {
        let marks = trees.changed().flat_map(|task| {
            let times = (task.updated_at, task.updated_at + RELAY_AFTER_MS);
            trees.other_domains(task).into_iter().map(move |issuer| {
                NewMark::new(task.id.as_str(), issuer, task.owner.as_str(), task.version, times)
            })
        });
        let marks: Vec<NewMark<'_>> = marks.collect();
        if marks.is_empty() {
            return Ok(());
        }
        statements.add(self.outbox.mark_list(&marks)?, |parameter| self.outbox.mark_statement(parameter));
        Ok(())
    }

    /// Whoever subscribed before the trees were loaded is seen here, and whoever does later sees the end.
    fn end_subscriptions(&self, statements: &mut Statements, trees: &Trees) -> sqlx::Result<()> {
        let ended = trees.changed().filter_map(|task| {
            Some(WrittenEnd { task_id: &task.id, ends_at: task.ended_at? + SUBSCRIBED_MS })
        });
        let ended: Vec<WrittenEnd<'_>> = ended.collect();
        if ended.is_empty() {
            return Ok(());
        }
        statements.add_rows(&ENDED, &ended, |parameter| {
            let rows = json::rows(self.engine(), parameter, &ENDED);
            format!(
                "UPDATE task_subscription SET ends_at = given.ends_at FROM {rows}
                 WHERE task_subscription.task_id = given.task_id"
            )
        })
    }
}

fn write_messages(statements: &mut Statements, trees: &Trees) -> sqlx::Result<()> {
    let messages = trees.changes.messages.iter().map(|message| WrittenMessage {
        task_id: &message.task_id,
        seq: message.seq,
        id: &message.id,
        from_aid: &message.from,
        kind: message.kind.as_str(),
        body: message.body.get(),
        created_at: message.created_at,
    });
    statements.insert("task_message", &MESSAGE, "", &messages.collect::<Vec<_>>())
}

fn write_artifacts(statements: &mut Statements, trees: &Trees) -> sqlx::Result<()> {
    let mut artifacts = Vec::new();
    for (row, content) in &trees.changes.artifacts {
        let mut meta = row.artifact.clone();
        meta.content = None;
        artifacts.push(WrittenArtifact {
            task_id: &row.task_id,
            position: row.position,
            artifact_id: &row.artifact.id,
            digest: &row.digest,
            meta: json::text(&meta)?,
            content: content.as_ref().map(|content| content.get()),
            bytes: row.bytes,
            created_by: &row.artifact.created_by,
            created_at: row.created_at,
        });
    }
    statements.insert("task_artifact", &ARTIFACT, "", &artifacts)
}

impl<'a> WrittenAnswer<'a> {
    fn of(
        ((scope, key), answer): (&'a (String, String), &'a crate::model::tree::StoredAnswer),
    ) -> WrittenAnswer<'a> {
        WrittenAnswer {
            scope,
            key,
            body_hash: &answer.body_hash,
            result: &answer.result,
            expires_at: answer.expires_at,
        }
    }
}
