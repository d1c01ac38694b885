-- Whose open tasks an assignee has: only those that have not ended have a time.
CREATE INDEX task_open_between ON task (assignee, owner) WHERE due_at IS NOT NULL;
