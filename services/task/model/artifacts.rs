//! Results: adding one to a task that goes on, and ending a task with the last of them.

use super::answer::{Decided, TaskAnswer};
use super::apply::Applying;
use super::error::Error;
use super::event::{EVENT_CONTENT_BYTES, EventDetail};
use super::operation::OfferedArtifact;
use super::state::TaskState;
use super::task::TaskRow;
use super::tree::{ALL_ARTIFACT_BYTES, ARTIFACT_BYTES, ArtifactRow, MOST_ARTIFACTS};
use kernel::{Kept, iso};
use proto_schemas::requests::task::{AddedArtifact, ChildTask, CompletedTask};

impl Applying<'_> {
    pub fn add_artifact(mut self, task: &TaskRow, offered: OfferedArtifact) -> Result<Decided, Error> {
        let (task_id, artifact_id) = (task.id.to_string(), offered.stored.id.clone());
        let new = self.new_artifacts(task, vec![offered])?;
        if new.is_empty() {
            let answer = AddedArtifact { task_id, artifact_id, version: task.version };
            return Ok(self.decided(TaskAnswer::Added(answer)));
        }
        self.charge(kept_of(&new))?;
        self.enter(&task.id, task.state, None);
        self.store_artifacts(task, new);
        let answer = AddedArtifact { task_id, artifact_id, version: task.version + 1 };
        Ok(self.decided(TaskAnswer::Added(answer)))
    }

    pub fn complete(mut self, task: &TaskRow, artifacts: Vec<OfferedArtifact>) -> Result<Decided, Error> {
        let new = self.new_artifacts(task, artifacts)?;
        self.charge(kept_of(&new))?;
        self.cancel_below(task, "parent_completed");
        self.enter(&task.id, TaskState::Completed, None);
        self.store_artifacts(task, new);

        let ended_otherwise = |child: &&TaskRow| child.required && child.state != TaskState::Completed;
        let unsuccessful: Vec<ChildTask> =
            self.trees.children(task).filter(ended_otherwise).map(TaskRow::as_child).collect();
        let artifacts = self.trees.artifacts.get(&task.id).into_iter().flatten();
        let artifacts = artifacts.map(|row| row.artifact.clone()).collect();
        self.tell(
            &task.id,
            EventDetail::Completed { artifacts, unsuccessful_children: unsuccessful.clone() },
        );
        Ok(self.decided(TaskAnswer::Completed(CompletedTask {
            task_id: task.id.to_string(),
            status: TaskState::Completed.to_string(),
            unsuccessful_children: Some(unsuccessful).filter(|children| !children.is_empty()),
        })))
    }

    /// What of it is not there yet. The same artifact again is no mistake; another one with the same id is.
    fn new_artifacts(
        &self,
        task: &TaskRow,
        offered: Vec<OfferedArtifact>,
    ) -> Result<Vec<OfferedArtifact>, Error> {
        let mut new: Vec<OfferedArtifact> = Vec::new();
        let stored = self.trees.artifacts.get(&task.id).map(Vec::as_slice).unwrap_or_default();
        for artifact in offered {
            let id = &artifact.stored.id;
            let of_id = stored.iter().find(|row| row.artifact.id == *id).map(|row| &row.digest);
            let beside = new.iter().find(|other| other.stored.id == *id).map(|other| &other.digest);
            match of_id.or(beside) {
                None => new.push(artifact),
                Some(digest) if *digest == artifact.digest => {}
                Some(_) => {
                    return Err(Error::conflict(
                        format!("the task has another artifact {id:?}"),
                        "artifact_conflict",
                    ));
                }
            }
        }
        let bytes: i64 = new.iter().map(|artifact| artifact.bytes).sum();
        if new.iter().any(|artifact| artifact.bytes > ARTIFACT_BYTES) {
            return Err(Error::TooLarge(format!(
                "the content of an artifact has at most {ARTIFACT_BYTES} bytes: store it elsewhere and set ref"
            )));
        }
        if task.artifact_bytes + bytes > ALL_ARTIFACT_BYTES {
            return Err(Error::TooLarge(format!(
                "the artifacts of a task have at most {ALL_ARTIFACT_BYTES} bytes: store larger ones elsewhere and set ref"
            )));
        }
        if task.artifacts + new.len() as i64 > MOST_ARTIFACTS {
            return Err(Error::TooLarge(format!("a task has at most {MOST_ARTIFACTS} artifacts")));
        }
        Ok(new)
    }

    fn store_artifacts(&mut self, task: &TaskRow, new: Vec<OfferedArtifact>) {
        for (position, offered) in (task.artifacts + 1..).zip(new) {
            let OfferedArtifact { mut stored, content, bytes, digest } = offered;
            stored.created_by = self.actor_name();
            stored.created_at = iso(self.now);
            stored.content = content.clone().filter(|_| bytes <= EVENT_CONTENT_BYTES);
            let row = ArtifactRow {
                task_id: task.id.clone(),
                position,
                artifact: stored.clone(),
                bytes,
                digest,
                created_at: self.now,
            };
            self.trees.count_artifact(&task.id, bytes);
            self.trees.artifacts.entry(task.id.clone()).or_default().push(row.clone());
            self.trees.changes.artifacts.push((row, content));
            self.tell(&task.id, EventDetail::Artifact(stored));
        }
    }
}

/// An artifact is a row, with everything that is known of it beside its content.
fn kept_of(new: &[OfferedArtifact]) -> Kept {
    let bytes = new.iter().map(|offered| {
        let content = offered.content.as_ref().map_or(0, |content| content.get().len());
        let meta = serde_json::to_string(&offered.stored).map_or(0, |meta| meta.len());
        content + meta
    });
    Kept::rows(new.len(), bytes.sum())
}
