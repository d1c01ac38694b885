//! `task.children`: what was delegated from a task.

use super::get::refused;
use crate::TaskService;
use crate::federation::HomeCall;
use crate::model::error::Error;
use crate::model::task::TaskRow;
use crate::model::tree::Trees;
use kernel::{Aid, Caller};
use proto_schemas::Request as _;
use proto_schemas::requests::task::{Children, TaskChildren, TaskSummary};
use std::collections::BTreeSet;
use std::sync::Arc;

impl TaskService {
    pub(crate) async fn children(
        self: Arc<Self>,
        caller: Caller,
        params: Children,
    ) -> Result<TaskChildren, Error> {
        match self.children_here(&caller.calling_agent()?.aid, &params).await {
            Err(Error::NotFound(id)) => {
                let call = HomeCall { caller: &caller, method: Children::METHOD, params: &params };
                self.at_home(call, &id).await
            }
            answer => answer,
        }
    }

    async fn children_here(&self, aid: &Aid, params: &Children) -> Result<TaskChildren, Error> {
        let id = params.task_id.clone();
        let trees = self.store.read_trees(&BTreeSet::from([id.clone()])).await?;
        let task = trees.get(&id).ok_or_else(|| Error::NotFound(id.clone()))?;
        let relation = trees.relation(task, aid);
        if !sees_below(&trees, task, aid) {
            return Err(refused(relation.knows(), &id));
        }
        let mut found: Vec<&TaskRow> = trees.children(task).collect();
        if params.recursive == Some(true) {
            let mut next = 0;
            while let Some(above) = found.get(next).copied() {
                if sees_below(&trees, above, aid) {
                    found.extend(trees.children(above));
                }
                next += 1;
            }
        }
        let children: Vec<TaskSummary> = found.into_iter().map(TaskRow::summary).collect();
        Ok(TaskChildren { task_id: id.to_string(), count: children.len() as i64, children })
    }
}

/// Whoever may read a task sees what was delegated from it. The owner of the root may cancel every task of the tree, so it has to see
/// which there are.
fn sees_below(trees: &Trees, task: &TaskRow, aid: &Aid) -> bool {
    let relation = trees.relation(task, aid);
    relation.reads || relation.root_owner
}
