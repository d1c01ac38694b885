-- Whether texts or artifacts of a task were removed because the share of their author was full.
ALTER TABLE task ADD COLUMN content_removed BIGINT NOT NULL DEFAULT 0;
-- How far the texts and artifacts of an agent were removed: of the tasks that ended before this one, and of this one.
CREATE TABLE task_content_removal (
    aid TEXT PRIMARY KEY,
    ended_at BIGINT NOT NULL,
    task_id TEXT NOT NULL
);
CREATE INDEX task_content_removal_ended ON task_content_removal (ended_at);
