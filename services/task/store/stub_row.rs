//! A row of the table of tasks of other domains, read and written.

use super::row::{aid, damaged, task_id};
use crate::model::state::TaskState;
use kernel::json_rows::Column;
use kernel::{Aid, iso};
use proto_schemas::requests::task::{TaskId, TaskRole, TaskSummary, TaskVisibility};
use serde::{Deserialize, Serialize};

/// What every statement reads that reads them, in the order of the members of [`StoredStub`].
pub(super) const READ_STUB: &str = "aid, task_id, home_issuer, role, status, version, owner, assignee, parent_id, required, title, \
                                    visibility, created_at, updated_at";

pub(super) const WRITTEN_STUB: [Column; 15] = [
    ("aid", "TEXT"),
    ("task_id", "TEXT"),
    ("home_issuer", "TEXT"),
    ("role", "TEXT"),
    ("status", "TEXT"),
    ("version", "BIGINT"),
    ("owner", "TEXT"),
    ("assignee", "TEXT"),
    ("parent_id", "TEXT"),
    ("required", "BIGINT"),
    ("title", "TEXT"),
    ("visibility", "TEXT"),
    ("created_at", "BIGINT"),
    ("updated_at", "BIGINT"),
    ("changed_at", "BIGINT"),
];
pub(super) const CHANGED_STUB: [&str; 5] = ["status", "version", "title", "updated_at", "changed_at"];

/// A task of another domain, for one agent of ours.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StubRow {
    pub key: StubKey,
    pub home_issuer: String,
    pub role: TaskRole,
    pub state: TaskState,
    pub version: i64,
    pub owner: Aid,
    pub assignee: Aid,
    pub parent_id: Option<TaskId>,
    pub required: bool,
    pub title: String,
    pub visibility: TaskVisibility,
    pub created_at: i64,
    pub updated_at: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct StubKey {
    pub aid: Aid,
    pub task_id: TaskId,
}

#[derive(Deserialize)]
pub(super) struct StoredStub {
    aid: String,
    task_id: String,
    home_issuer: String,
    role: String,
    status: String,
    version: i64,
    owner: String,
    assignee: String,
    parent_id: Option<String>,
    required: i64,
    title: String,
    visibility: String,
    created_at: i64,
    updated_at: i64,
}

#[derive(Serialize)]
pub(super) struct WrittenStub<'a> {
    aid: &'a Aid,
    task_id: &'a TaskId,
    home_issuer: &'a str,
    role: &'static str,
    status: TaskState,
    version: i64,
    owner: &'a Aid,
    assignee: &'a Aid,
    parent_id: Option<&'a TaskId>,
    required: i64,
    title: &'a str,
    visibility: &'static str,
    created_at: i64,
    updated_at: i64,
    changed_at: i64,
}

impl StubRow {
    pub fn summary(&self) -> TaskSummary {
        TaskSummary {
            task_id: self.key.task_id.to_string(),
            status: self.state.to_string(),
            version: self.version,
            owner: self.owner.to_string(),
            assignee: self.assignee.to_string(),
            parent_task_id: self.parent_id.as_ref().map(TaskId::to_string),
            required: self.required,
            title: self.title.clone(),
            visibility: self.visibility.as_str().to_owned(),
            created_at: iso(self.created_at),
            updated_at: iso(self.updated_at),
            remote: Some(true),
            home_issuer: Some(self.home_issuer.clone()),
        }
    }
}

impl StoredStub {
    pub fn read(self) -> sqlx::Result<StubRow> {
        Ok(StubRow {
            key: StubKey { aid: aid(&self.aid)?, task_id: task_id(self.task_id)? },
            home_issuer: self.home_issuer,
            role: TaskRole::parse(&self.role).ok_or_else(|| damaged("a role that is none"))?,
            state: self.status.parse().map_err(|error: String| damaged(error))?,
            version: self.version,
            owner: aid(&self.owner)?,
            assignee: aid(&self.assignee)?,
            parent_id: self.parent_id.map(task_id).transpose()?,
            required: self.required == 1,
            title: self.title,
            visibility: TaskVisibility::parse(&self.visibility)
                .ok_or_else(|| damaged("a visibility that is none"))?,
            created_at: self.created_at,
            updated_at: self.updated_at,
        })
    }
}

impl<'a> WrittenStub<'a> {
    pub fn of(row: &'a StubRow, home_issuer: &'a str, changed_at: i64) -> WrittenStub<'a> {
        WrittenStub {
            aid: &row.key.aid,
            task_id: &row.key.task_id,
            home_issuer,
            role: row.role.as_str(),
            status: row.state,
            version: row.version,
            owner: &row.owner,
            assignee: &row.assignee,
            parent_id: row.parent_id.as_ref(),
            required: i64::from(row.required),
            title: &row.title,
            visibility: row.visibility.as_str(),
            created_at: row.created_at,
            updated_at: row.updated_at,
            changed_at,
        }
    }
}
