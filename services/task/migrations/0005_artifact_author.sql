-- Who added an artifact, and pays for it: the one that worked on the task.
ALTER TABLE task_artifact ADD COLUMN created_by TEXT NOT NULL DEFAULT '';
UPDATE task_artifact SET created_by = COALESCE((SELECT assignee FROM task WHERE task.id = task_artifact.task_id), '');
