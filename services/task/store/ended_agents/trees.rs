//! Trees of tasks in which nobody is left who could read them.
//!
//! A tree is removed as a whole: no task is left without the ones above it.

use super::super::Store;
use super::super::row::task_id;
use crate::model::state::TaskState;
use crate::model::task::TaskRow;
use crate::model::tree::Trees;
use kernel::{Aid, Engine};
use proto_schemas::requests::task::TaskId;
use sqlx::AssertSqlSafe;
use std::collections::BTreeSet;

/// As what an agent takes part in a task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TaskSide {
    Owner,
    Assignee,
    Participant,
}

impl TaskSide {
    pub const ALL: [TaskSide; 3] = [TaskSide::Owner, TaskSide::Assignee, TaskSide::Participant];

    /// The table with an index over such agents, its column, and the one that has the id of the task.
    pub(in crate::store) fn columns(self) -> (&'static str, &'static str, &'static str) {
        match self {
            TaskSide::Owner => ("task", "owner", "id"),
            TaskSide::Assignee => ("task", "assignee", "id"),
            TaskSide::Participant => ("task_participant", "aid", "task_id"),
        }
    }
}

/// Which tasks of an agent are read: those of a side and a state, after a time and an id.
pub(crate) struct EndedTasksPage {
    pub side: TaskSide,
    pub state: TaskState,
    pub after: (i64, String),
    pub most: i64,
}

impl Store {
    /// Tasks of an agent that have ended, with the time by which they are ordered.
    pub async fn ended_tasks_of(&self, aid: &Aid, page: &EndedTasksPage) -> sqlx::Result<Vec<(i64, TaskId)>> {
        let (table, column, id) = page.side.columns();
        let text = format!(
            "SELECT updated_at, {id} FROM {table}
             WHERE {column} = $1 AND status = $2 AND (updated_at, {id}) > ($3, $4)
             ORDER BY updated_at, {id} LIMIT $5"
        );
        let rows: Vec<(i64, String)> = sqlx::query_as(AssertSqlSafe(text))
            .bind(aid.as_str())
            .bind(page.state.as_str())
            .bind(page.after.0)
            .bind(page.after.1.as_str())
            .bind(page.most)
            .fetch_all(self.db.read())
            .await?;
        rows.into_iter().map(|(at, id)| Ok((at, task_id(id)?))).collect()
    }

    /// Who takes part in the tree of each of these tasks, of those trees in which every task has ended.
    pub async fn participants_of_trees(
        &self,
        tasks: &BTreeSet<TaskId>,
    ) -> sqlx::Result<BTreeSet<BTreeSet<Aid>>> {
        let mut tx = self.snapshot().await?;
        let trees = self.trees(&mut tx, tasks).await?;
        let ended = tasks.iter().filter_map(|id| trees.get(id)).filter(|task| has_ended(&trees, task));
        Ok(ended.map(|task| participants(&trees, task).cloned().collect()).collect())
    }

    /// Removes the trees of those of these tasks in which every task has ended and all who take part are among the gone.
    pub async fn remove_trees(&self, tasks: &BTreeSet<TaskId>, gone: &BTreeSet<Aid>) -> sqlx::Result<()> {
        let mut tx = self.begin().await?;
        if self.engine() == Engine::Postgres {
            self.lock_roots(&mut tx, tasks, "UPDATE").await?;
        }
        let trees = self.trees(&mut tx, tasks).await?;
        let of_nobody = tasks.iter().filter_map(|id| trees.get(id)).filter(|task| {
            has_ended(&trees, task) && participants(&trees, task).all(|aid| gone.contains(aid))
        });
        let removed: BTreeSet<&TaskId> =
            of_nobody.flat_map(|task| trees.tree_of(task)).map(|task| &task.id).collect();
        if removed.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = removed.into_iter().map(TaskId::to_string).collect();
        self.remove_tasks(&mut tx, &ids).await?;
        tx.commit().await
    }
}

fn has_ended(trees: &Trees, task: &TaskRow) -> bool {
    trees.tree_of(task).all(|of_tree| !of_tree.is_open())
}

fn participants<'a>(trees: &'a Trees, task: &'a TaskRow) -> impl Iterator<Item = &'a Aid> {
    trees.tree_of(task).flat_map(|of_tree| of_tree.participants.iter())
}
